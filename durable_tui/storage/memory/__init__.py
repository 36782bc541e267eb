"""A store in memory: the reference semantics, and tests (spec 4)."""
