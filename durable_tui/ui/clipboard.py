"""Copying by OSC 52: wrapped for tmux, bounded, and honest about what is known (UI-C02 to C04)."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping

LIMIT = 74_000  # bytes of text; many terminals drop longer sequences whole


def sequence(text: str, environ: Mapping[str, str] | None = None) -> tuple[str, int, bool]:
    """(what to write to the terminal, bytes of text in it, whether it was cut)."""
    environ = os.environ if environ is None else environ
    data = text.encode("utf-8", "replace")
    cut = len(data) > LIMIT
    if cut:
        data = data[:LIMIT].decode("utf-8", "ignore").encode()
    code = f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"
    if environ.get("TMUX"):
        code = "\x1bPtmux;" + code.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    elif environ.get("TERM", "").startswith("screen"):
        code = f"\x1bP{code}\x1b\\"
    return code, len(data), cut
