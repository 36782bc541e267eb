"""`python -m durable_tui`."""

import sys

from durable_tui.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
