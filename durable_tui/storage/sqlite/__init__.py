"""The default store: one SQLite file a session (spec 4)."""
