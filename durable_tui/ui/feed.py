"""From the watch to the screen: every frame is applied at once, the screen is painted at most twelve times a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from durable_tui.ui.adapter.screen import ScreenModel
from durable_tui.ui.adapter.transcript_model import Changes, TranscriptModel

if TYPE_CHECKING:
    from durable_tui.session.watch import Frame
    from durable_tui.views.facade import SessionReader
    from durable_tui.views.shapes import SessionView

INTERVAL = 1 / 12
TAIL = 200  # entries loaded at first


class Feed:
    """Applies every frame at once and in order; `paint(changes)` is called for all since the last call together."""

    def __init__(
        self,
        session: SessionReader,
        model: ScreenModel,
        paint: Callable[[Changes], None],
        *,
        interval: float = INTERVAL,
        report: Callable[[BaseException], None] = lambda error: None,
    ) -> None:
        self._session = session
        self.model = model
        self._paint = paint
        self._interval = interval
        self._report = report
        self._pending: Changes | None = None
        self._painted = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.first = asyncio.Event()
        self.failure: Exception | None = None

    async def run(self) -> None:
        """Until the session closes or this is cancelled; stopping a watch stops no work.

        `first` is set with the first frame, or with the `failure` that came instead of one.
        """
        try:
            async with aclosing(self._session.watch(self.model.conversation_id, tail=TAIL)) as watch:
                async for frame in watch:
                    self._note(self._take(frame))
                    self.first.set()
        except Exception as error:  # noqa: BLE001 - what cannot be read is told, and the rest of the screen goes on
            self.failure = error
            self._report(error)
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self.flush()
            self.first.set()

    def _take(self, frame: Frame[SessionView]) -> Changes:
        try:
            return self.model.apply(frame)
        except Exception as error:  # noqa: BLE001 - a frame we cannot read must not end the feed
            self._report(error)
            return self._again(frame)

    def _again(self, frame: Frame[SessionView]) -> Changes:
        """Build everything anew from the view itself, whatever the ops said."""
        from durable_tui.session.watch import Frame  # not before the first paint: it brings the whole session

        former = self.model.transcript
        self.model.transcript = TranscriptModel()
        self.model.transcript.builder = former.builder
        changes = self.model.apply(Frame(frame.value, [["r", frame.value]], frame.seq, frame.at))
        changes.reset = True
        return changes

    def _note(self, changes: Changes) -> None:
        if self._pending is None:
            self._pending = changes
        else:
            self._pending.merge(changes)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            wait = self._painted + self._interval - loop.time()
            self._timer = loop.call_later(max(wait, 0), self.flush)

    def flush(self) -> None:
        """Paint what is pending now."""
        self._timer = None
        pending, self._pending = self._pending, None
        if pending is None:
            return
        self._painted = asyncio.get_running_loop().time()
        try:
            self._paint(pending)
        except Exception as error:  # noqa: BLE001 - painting may fail, the work goes on (case UI-R20)
            self._report(error)
