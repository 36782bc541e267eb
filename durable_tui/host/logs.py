"""The program's own notes, for finding out later what went wrong: a file in the home, never the terminal."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

from durable_tui.host.host_errors import HostError
from durable_tui.host.paths import Paths, private_folder

NAME = "durable-tui.log"
_BYTES = 1024 * 1024


class LazyFile(RotatingFileHandler):
    """Makes its folder and file with the first record. A log that cannot be written is no reason to stop."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=_BYTES, backupCount=2, encoding="utf-8", delay=True, errors="replace")
        self.setFormatter(logging.Formatter("%(asctime)s %(process)d %(name)s %(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            private_folder(Path(self.baseFilename).parent)
        except HostError:
            return
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Says nothing: stderr belongs to the person."""


def start_logging(paths: Paths) -> Path:
    """Send the package's warnings and errors to the log; returns where that is. Repeating it changes nothing."""
    path = paths.logs / NAME
    logger = logging.getLogger("durable_tui")
    logger.propagate = False
    for handler in list(logger.handlers):
        if isinstance(handler, LazyFile):
            logger.removeHandler(handler)
            handler.close()
    logger.addHandler(LazyFile(path))
    return path
