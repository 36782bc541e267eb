"""A session on the screen: chosen, opened through the host, fed, and closed in order.

What only an opening needs is imported where it opens: the first paint does not wait for it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from durable_tui.host import attachments
from durable_tui.models.images import prepare
from durable_tui.models.provider import ModelError
from durable_tui.ui.adapter import words
from durable_tui.ui.adapter.screen import ScreenModel
from durable_tui.ui.adapter.transcript_model import Changes, TranscriptModel
from durable_tui.ui.feed import Feed
from durable_tui.ui.files import Files
from durable_tui.ui.glyphs import Glyphs

if TYPE_CHECKING:
    from durable_tui.agent.extension import Registry, Tool
    from durable_tui.delta import Json
    from durable_tui.host.follow import FollowedSession
    from durable_tui.host.opening import Host, Opened
    from durable_tui.host.options import ScreenOptions
    from durable_tui.models.listing import Offer
    from durable_tui.models.messages import UserBlock
    from durable_tui.models.provider import ThinkingLevel
    from durable_tui.views.facade import ConversationFacade, ConversationReader, SessionFacade, SessionReader
    from durable_tui.views.shapes import ShownEntry

TOUR = "scripted/tour"


class OpenSession:
    """A session on the screen: what was opened, what is shown of it, and the feed between the two.

    Nothing can be changed through it: it may be another process's. `OwnedSession` is one of ours. Watches nothing
    before `start_feed`.
    """

    def __init__(
        self,
        opened: Opened | FollowedSession,
        paint: Callable[[Changes], None],
        *,
        glyphs: Glyphs,
        report: Callable[[BaseException], None],
        epoch: int | None = None,
    ) -> None:
        self.opened = opened
        summarize, replay_of = tool_words(opened.registry)
        self.model = ScreenModel(
            TranscriptModel(summarize, replay_of),
            conversation_id=opened.root.id,
            epoch=epoch,
            home=home(),
            glyphs=glyphs,
        )
        self.model.reading = True
        self.model.fallback_title = f"session {opened.id[-8:]}"
        self.feed = Feed(opened.harness, self.model, paint, report=report)
        self.files = Files(opened.session.get("cwd") or os.getcwd())
        self._task: asyncio.Task[None] | None = None

    @property
    def root(self) -> ConversationReader:
        return self.opened.root

    @property
    def harness(self) -> SessionReader:
        return self.opened.harness

    @property
    def end_file(self) -> str | None:
        """Where the launcher is to tell how the process ended; None where that is nobody's to know."""
        return None

    def start_feed(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self.feed.run())

    def note_problem(self) -> bool:
        """Take over what keeps the session from going on; True when that changed."""
        problem = self.harness.session_problem
        if problem and self.harness.paused_for_space:
            detail = words.home_path_in(problem.removeprefix("not saved: "), self.model.home)
            problem = f"not saved: disk full — paused. It goes on when there is space again.\n{detail}"
        elif problem:
            problem = f"stopped: {problem}"
        changed = problem != self.model.problem
        self.model.problem = problem
        return changed

    async def older(self, before: int, limit: int) -> list[ShownEntry]:
        """The newest entries before an id, in order."""
        from durable_tui.views.build import shown_entry

        return [shown_entry(entry.record, entry.seq) for entry in await self.root.entries(before=before, limit=limit)]

    async def pasted(self, text: str) -> str:
        """What a paste becomes: mentions, when it is the paths of image files."""
        if "/" not in text:
            return text
        return await asyncio.to_thread(attachments.pasted, text, self.files.directory)

    async def close(self) -> None:
        """Stop watching, then close in order: nothing is lost, unfinished work goes on at the next open."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.opened.close()


class OwnedSession(OpenSession):
    """A session this process owns. `now` gives the milliseconds that count as the begin of its work."""

    opened: Opened

    def __init__(
        self,
        opened: Opened,
        paint: Callable[[Changes], None],
        *,
        glyphs: Glyphs,
        report: Callable[[BaseException], None],
        now: Callable[[], int],
    ) -> None:
        super().__init__(opened, paint, glyphs=glyphs, report=report, epoch=opened.harness.epoch)
        self.model.reading = False
        self.started = False
        self._now = now

    @property
    def root(self) -> ConversationFacade:
        return self.opened.root

    @property
    def harness(self) -> SessionFacade:
        return self.opened.harness

    @property
    def end_file(self) -> str | None:
        return self.harness.end_file

    async def resume(self) -> None:
        """Let the scheduler start; what was found goes on (spec 15)."""
        if not self.started:
            self.started = True
            self.model.paused = False
            self.model.running_since = self._now()
            await self.harness.resume()

    def offers(self, ask: bool) -> tuple[Sequence[Offer], str]:
        """What each provider offers, and the model of a session that names none; with `ask` it may take a second."""
        models = self.opened.models
        offers = models.listing(ask=ask)
        return offers, self.opened.host.default_model(models, ask=False) or TOUR

    # --- images -----------------------------------------------------------------------------------------------

    async def content(self, text: str) -> str | list[UserBlock]:
        """What is sent for a text: itself, with the images it mentions. Raises ImageRefused."""
        if "@" not in text:
            return text
        return await asyncio.to_thread(attachments.with_images, text, self.files.directory)

    async def attach(self, data: bytes) -> str:
        """Keep an image as a file and give its mention. Raises ImageRefused, HostError, OSError."""

        def keep() -> str:
            block = prepare(data)
            return attachments.mention(str(attachments.keep_image(self.opened.host.paths.make_attachments(), block)))

        return await asyncio.to_thread(keep)

    async def editable(self, content: str | list[UserBlock]) -> str:
        """A message as the text that sends the same again; see `attachments.editable`. Raises HostError, OSError."""
        if isinstance(content, str):
            return content
        return await asyncio.to_thread(
            lambda: attachments.editable(content, self.files.directory, self.opened.host.paths.make_attachments())
        )

    def blind(self) -> str:
        """The name of the model in use when it is known to see no images, else ""."""
        name = self.model.header().model
        try:
            return name if self.opened.models.resolve(name).images is False else ""
        except ModelError:
            return ""


def home() -> str:
    """The person's home folder, "" when unknown."""
    found = os.path.expanduser("~")
    return "" if found == "~" else found


def tool_words(registry: Registry) -> tuple[Callable[[str, Json], str], Callable[[str], str]]:
    """(summary of a call's arguments, replay policy of a tool), by what is installed."""
    from durable_tui.agent.extension import select_tools

    def tool(name: str) -> Tool | None:
        return select_tools(registry.extensions()).get(name)

    def summarize(name: str, arguments: Json) -> str:
        found = tool(name)
        if found is None or found.summary is None or not isinstance(arguments, dict):
            return ""
        try:
            return str(found.summary(arguments))
        except (LookupError, TypeError, ValueError, AttributeError):
            return ""  # the arguments are the model's and may be anything

    def replay_of(name: str) -> str:
        found = tool(name)
        return found.replay if found is not None else ""

    return summarize, replay_of


async def follow_at(host: Host, path: Path) -> FollowedSession:
    """Follow a session read-only. Raises what the storage and the host raise."""
    from durable_tui.host.follow import FollowedSession
    from durable_tui.host.opening import make_registry

    registry, _ = await asyncio.to_thread(make_registry, host)
    restart_limit = host.config.harness_settings().restart_limit
    return await FollowedSession.open(path, registry, models=host.models(), restart_limit=restart_limit)


async def choose_path(host: Host, options: ScreenOptions) -> Path:
    """Which session to open: the one named, a new one, else this directory's newest."""
    catalogue = host.catalogue
    if options.session is not None:
        return await asyncio.to_thread(catalogue.find, options.session)
    if not options.new:
        newest = await catalogue.newest(options.directory)
        if newest is not None:
            return newest.path
    return catalogue.new_path()


async def open_at(
    host: Host, path: Path, *, directory: str, model: str | None = None, thinking: ThinkingLevel | None = None
) -> Opened:
    """Open a session for the screen: without any model it runs the built-in tour. Raises what the host raises."""
    from durable_tui.host.opening import open_session

    return await open_session(host, path, directory=directory, model=model, thinking=thinking, fallback_model=TOUR)
