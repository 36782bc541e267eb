"""Read-only: what a session file says happened (spec 18). `report.gather`, `text.render`, `export.FORMATS`."""
