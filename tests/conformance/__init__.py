"""One suite for every store. A new backend registers itself in `backends.py`, nothing else (spec 4)."""
