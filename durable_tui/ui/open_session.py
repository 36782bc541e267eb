"""A session on the screen: chosen, opened through the host, fed, and closed in order."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from durable_tui.ui.adapter import words
from durable_tui.ui.adapter.screen import ScreenModel
from durable_tui.ui.adapter.transcript_model import Changes, TranscriptModel
from durable_tui.ui.feed import Feed
from durable_tui.ui.files import Files
from durable_tui.ui.glyphs import Glyphs

if TYPE_CHECKING:
    from durable_tui.host.opening import Host, Opened
    from durable_tui.host.options import ScreenOptions
    from durable_tui.models.listing import Offer
    from durable_tui.models.provider import ThinkingLevel
    from durable_tui.views.shapes import ShownEntry

TOUR = "scripted/tour"


@dataclass(slots=True)
class OpenSession:
    """One open session: what the host opened, what the screen shows of it, and the feed between the two."""

    opened: Any
    model: ScreenModel
    feed: Feed
    files: Files
    task: asyncio.Task[None] | None = None
    started: bool = False
    now: Callable[[], int] = lambda: 0

    @property
    def root(self) -> Any:
        return self.opened.root

    @property
    def harness(self) -> Any:
        return self.opened.harness

    def start_feed(self) -> None:
        self.task = asyncio.get_running_loop().create_task(self.feed.run())

    async def resume(self) -> None:
        """Let the scheduler start; what was found goes on (spec 15)."""
        if not self.started:
            self.started = True
            self.model.paused = False
            self.model.running_since = self.now()
            await self.harness.resume()

    def note_problem(self) -> bool:
        """Take over what keeps the session from going on; True when that changed."""
        problem = self.harness.session_problem
        if problem and getattr(self.harness, "paused_for_space", False):
            detail = words.home_path_in(problem.removeprefix("not saved: "), self.model.home)
            problem = f"not saved: disk full — paused. It goes on when there is space again.\n{detail}"
        elif problem:
            problem = f"stopped: {problem}"
        changed: bool = problem != self.model.problem
        self.model.problem = problem
        return changed

    async def older(self, before: int, limit: int) -> list[ShownEntry]:
        """The newest entries before an id, in order."""
        from durable_tui.views.shapes import shown

        return [shown(entry) for entry in await self.root.entries(before=before, limit=limit)]

    def offers(self, ask: bool) -> tuple[Sequence[Offer], str]:
        """What each provider offers, and the model of a session that names none; with `ask` it may take a second."""
        models = self.opened.models
        offers = models.listing(ask=ask)
        return offers, self.opened.host.default_model(models, ask=False) or TOUR

    # --- images -----------------------------------------------------------------------------------------------

    async def content(self, text: str) -> str | list[Any]:
        """What is sent for a text: itself, with the images it mentions. Raises ImageRefused."""
        if "@" not in text:
            return text
        from durable_tui.host.attachments import with_images

        return await asyncio.to_thread(with_images, text, self.files.directory)

    async def pasted(self, text: str) -> str:
        """What a paste becomes: mentions, when it is the paths of image files."""
        if "/" not in text:
            return text
        from durable_tui.host.attachments import pasted

        return await asyncio.to_thread(pasted, text, self.files.directory)

    async def attach(self, data: bytes) -> str:
        """Keep an image as a file and give its mention. Raises ImageRefused, HostError, OSError."""
        from durable_tui.host.attachments import keep_image, mention
        from durable_tui.models.images import prepare

        def keep() -> str:
            block = prepare(data)
            return mention(str(keep_image(self.opened.host.paths.make_attachments(), block)))

        return await asyncio.to_thread(keep)

    async def editable(self, content: Any) -> str:
        """A message as the text that sends the same again; see `attachments.editable`. Raises HostError, OSError."""
        if isinstance(content, str):
            return content
        from durable_tui.host.attachments import editable

        return await asyncio.to_thread(
            lambda: editable(content, self.files.directory, self.opened.host.paths.make_attachments())
        )

    def blind(self) -> str:
        """The name of the model in use when it is known to see no images, else ""."""
        from durable_tui.models.provider import ModelError

        name = self.model.header().model
        try:
            return name if self.opened.models.resolve(name).images is False else ""
        except ModelError:
            return ""

    async def close(self) -> None:
        """Stop watching, then close in order: nothing is lost, unfinished work goes on at the next open."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        await self.opened.close()


def make_session(
    opened: Any,
    paint: Callable[[Changes], None],
    *,
    glyphs: Glyphs,
    report: Callable[[BaseException], None],
    now: Callable[[], int],
) -> OpenSession:
    """Put model and feed around an opened session; watches nothing yet."""
    summarize, replay_of = tool_words(opened.registry)
    home = os.path.expanduser("~")
    model = ScreenModel(
        TranscriptModel(summarize, replay_of),
        conversation_id=opened.root.id,
        epoch=getattr(opened.storage, "epoch", None),
        home=home if home != "~" else "",
        glyphs=glyphs,
    )
    model.fallback_title = f"session {opened.id[-8:]}"
    feed = Feed(opened.root, opened.harness, model, paint, report=report)
    agent_cwd = opened.session.get("cwd") or os.getcwd()
    return OpenSession(opened, model, feed, Files(agent_cwd), now=now)


def tool_words(registry: Any) -> tuple[Callable[[str, Any], str], Callable[[str], str]]:
    """(summary of a call's arguments, replay policy of a tool), by what is installed."""
    from durable_tui.agent.extension import select_tools

    def tool(name: str) -> Any:
        return select_tools(registry.extensions()).get(name)

    def summarize(name: str, arguments: Any) -> str:
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


@dataclass(slots=True)
class ReadOnly:
    """A session another process owns, as the screen needs it: everything that changes something is missing."""

    root: Any
    path: Path
    session: dict[str, Any]
    registry: Any
    models: Any = None
    warnings: list[str] = field(default_factory=list)

    session_problem: str | None = None
    paused_reason: str | None = None

    @property
    def harness(self) -> ReadOnly:
        return self

    @property
    def storage(self) -> None:
        return None

    @property
    def id(self) -> str:
        return self.path.stem

    def watch_tasks(self) -> Any:
        return self.root.watch_tasks()

    async def close(self) -> None:
        await self.root.close()


async def follow_at(path: Path) -> ReadOnly:
    """Follow a session read-only. Raises what the storage raises."""
    from durable_tui.agent.extension import Registry
    from durable_tui.host.follow import Followed
    from durable_tui.tools import CodingTools

    registry = Registry()
    registry.install(CodingTools)
    return ReadOnly(await Followed.open(path), path, {}, registry)


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
