"""Conversations, their queue, the model's context, and the kinds of task that answer them (spec 8-12, 14)."""
