"""Small helpers that every floor may use."""
