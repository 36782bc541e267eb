"""From frames to what the screen shows: pure, with no textual or rich in it (spec 18)."""
