"""Tasks of one session: how they start, run, end and recover (spec 6, 7, 15). It knows no kind of task."""
