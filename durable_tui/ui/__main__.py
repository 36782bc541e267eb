"""`python -m durable_tui.ui`: the child the launcher starts; its words are those of `host.options.ScreenOptions`."""

from __future__ import annotations

import sys


def main() -> int:
    from durable_tui.host.options import ScreenOptions

    try:
        options = ScreenOptions.from_words(sys.argv[1:])
    except ValueError as error:
        print(f"durable-tui: {error}", file=sys.stderr)
        return 2
    from durable_tui.ui.run import run_screen

    return run_screen(options)


if __name__ == "__main__":
    sys.exit(main())
