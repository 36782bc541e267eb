"""Read-only: what a session file says happened (DESIGN 1). `report.gather`, `text.render`, `export.FORMATS`."""
