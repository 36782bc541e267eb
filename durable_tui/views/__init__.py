"""The shapes that front ends see, and what builds them for an owner and for a reader of the file (spec 13)."""
