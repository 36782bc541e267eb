"""`python -m durable_tui`."""

from __future__ import annotations

import sys


def main() -> int:
    """The program: what the installed command calls. Returns the exit status, or leaves with it."""
    from durable_tui.cli.main import leave
    from durable_tui.cli.main import main as program

    return leave(program())


if __name__ == "__main__":
    sys.exit(main())
