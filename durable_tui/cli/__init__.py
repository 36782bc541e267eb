"""The command line and the launcher (spec 20). `main.main` is the program; `status` has its exit statuses."""
