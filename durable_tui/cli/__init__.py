"""The command line and the launcher (DESIGN 3). `main.main` is the program; `status` has its exit statuses."""
