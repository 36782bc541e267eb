"""A conversation as front ends use it (spec 19)."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any, Literal

from durable_tui.agent import inbox
from durable_tui.agent.documents import AGENT, DRAFT, INBOX, LIVE, PROVIDER, USAGE
from durable_tui.agent.images import check_content, check_messages
from durable_tui.agent.inbox import load_scene
from durable_tui.agent.model_context import load_context
from durable_tui.engine.ownership import children_of, conversations_below, ordinary_tasks
from durable_tui.engine.task import changed, is_decided
from durable_tui.harness.submission import Submission
from durable_tui.models.provider import THINKING_LEVELS
from durable_tui.session import Transaction, Watch
from durable_tui.session.session import CommitScope
from durable_tui.storage.records import StoredEntry
from durable_tui.views.facade import WhenBusy
from durable_tui.views.shapes import ConversationView
from durable_tui.views.watch_sources import ConversationSource

if TYPE_CHECKING:
    from durable_tui.engine.kernel import Kernel

AGENT_KEYS = ("model", "thinkingLevel", "extensions", "tools", "instructions", "cwd")


def agent_value(choices: dict[str, Any]) -> dict[str, Any]:
    """A `pi.agent` value from choices; `model` may be "provider/model". Raises ValueError for an unknown key."""
    value: dict[str, Any] = {}
    for key, choice in choices.items():
        if key not in AGENT_KEYS:
            raise ValueError(f"an agent has no {key!r}; it has {', '.join(AGENT_KEYS)}")
        if choice is None:
            continue
        if key == "model" and isinstance(choice, str):
            provider, slash, model_id = choice.partition("/")
            if not slash or not provider or not model_id:
                raise ValueError(f"model {choice!r} is not of the form provider/model")
            choice = {"provider": provider, "modelId": model_id}
        if key == "thinkingLevel" and choice not in THINKING_LEVELS:
            raise ValueError(f"thinkingLevel is one of {', '.join(THINKING_LEVELS)}, not {choice!r}")
        value[key] = choice
    return value


async def write_first_documents(tx: Transaction, conversation_id: int, agent: dict[str, Any]) -> None:
    """What the creating commit of a conversation writes (spec 12)."""
    for definition in (LIVE, INBOX, USAGE):
        await tx.document(definition, conversation_id)
    (await tx.document(PROVIDER, conversation_id)).value = {"sessionId": uuid.uuid4().hex}
    (await tx.document(AGENT, conversation_id)).value = agent


class Conversation:
    """One conversation of an open harness."""

    def __init__(self, kernel: Kernel, conversation_id: int) -> None:
        self._kernel = kernel
        self.id = conversation_id

    # -- handing something in ------------------------------------------------------------------------------------

    async def submit(
        self,
        content: str | list[Any],
        *,
        when_busy: WhenBusy = "follow_up",
        request_id: str | None = None,
        clear_draft: bool = False,
    ) -> Submission:
        """Admit an input: committed when this returns, and started when the conversation is idle (spec 8).

        Raises ConversationBusy for `reject` on a busy conversation, ValueError for a blank input, an image that cannot
        be sent, or another type under the same `request_id`. `clear_draft` empties the draft in the same commit
        (spec 16).
        """
        if when_busy not in ("follow_up", "steer", "reject"):
            raise ValueError(f"when_busy is follow_up, steer or reject, not {when_busy!r}")
        if isinstance(content, str) and not content.strip():
            raise ValueError("an input cannot be blank")
        await check_content(content)
        self._kernel.scheduler.start()
        async with self._kernel.session.commit() as tx:
            known = await self._known(tx, request_id, "input")
            if known is not None:
                return known
            scene = await load_scene(self._kernel, tx, self.id)
            draft = await tx.document(DRAFT, self.id) if clear_draft else None
            record = inbox.admit_input(scene, content, when_busy=when_busy, request_id=request_id)
            if draft is not None:
                draft.value["text"] = ""
        return Submission(self._kernel, record)

    async def write(
        self,
        kind: str,
        *,
        model: list[Any] | None = None,
        data: Any = None,
        head: int | Literal["self"] | None = None,
        edits: list[Any] | None = None,
        request_id: str | None = None,
    ) -> Submission:
        """Admit a passive write: an entry appended now, or at the next boundary when busy (spec 8.2, 8.3).

        Raises ValueError for an image that cannot be sent, or another type under the same `request_id`.
        """
        await check_messages(
            [*(model or ()), *(message for edit in edits or () for message in edit.get("messages", ()))]
        )
        entry: dict[str, Any] = {"kind": kind}
        for key, value in (("model", model), ("data", data), ("head", head), ("edits", edits)):
            if value is not None:
                entry[key] = value
        async with self._kernel.session.commit() as tx:
            known = await self._known(tx, request_id, "write")
            if known is not None:
                return known
            scene = await load_scene(self._kernel, tx, self.id)
            if head is not None and scene.head is None:
                marker = await self._kernel.session.storage.newest_head(self.id)
                scene.head = marker["head"] if marker is not None else None
            record = inbox.admit_write(scene, entry, request_id=request_id)
        return Submission(self._kernel, record)

    async def _known(self, tx: Transaction, request_id: str | None, kind: str) -> Submission | None:
        if request_id is None:
            return None
        record = await tx.submission_by_request(self.id, request_id)
        if record is None:
            return None
        if record["type"] != kind:
            raise ValueError(f"request {request_id!r} was a submission of type {record['type']}, not {kind}")
        return Submission(self._kernel, record)

    # -- the queue -----------------------------------------------------------------------------------------------

    async def release(self, submission_id: int | None = None) -> int | None:
        """Un-park an item, or the first parked one; idle, what waits starts (spec 8.5). Returns the item's id.

        Raises InboxItemGone when the named item is not queued any more.
        """
        self._kernel.scheduler.start()
        async with self._kernel.session.commit() as tx:
            scene = await load_scene(self._kernel, tx, self.id)
            released: int | None = None
            if submission_id is not None:
                item = scene.items[inbox.find_item(scene, submission_id)]
                released = submission_id
                item.pop("parked", None)
            else:
                for item in scene.items:
                    if item.get("parked"):
                        released = item["id"]
                        del item["parked"]
                        break
            if scene.busy:
                inbox.note_late(scene)
            else:
                if released is None:
                    released = next((item["id"] for item in scene.items if item["mode"] != "write"), None)
                inbox.start_waiting(scene)
        return released

    async def edit_item(self, submission_id: int, content: str | list[Any]) -> None:
        """Change what a queued input says. Raises InboxItemGone when the run took it meanwhile, ValueError as `submit`."""
        if isinstance(content, str) and not content.strip():
            raise ValueError("an input cannot be blank")
        await check_content(content)
        async with self._kernel.session.commit() as tx:
            scene = await load_scene(self._kernel, tx, self.id)
            item = scene.items[inbox.find_item(scene, submission_id)]
            if item["mode"] == "write":
                raise ValueError("a queued write cannot be edited")
            item["content"] = content

    async def move_item(self, submission_id: int, index: int) -> None:
        """Move a queued item to another place (0 is the first)."""
        async with self._kernel.session.commit() as tx:
            scene = await load_scene(self._kernel, tx, self.id)
            order = list(range(len(scene.items)))
            place = order.pop(inbox.find_item(scene, submission_id))
            order.insert(max(0, min(index, len(order))), place)
            items = [scene.items[old] for old in order]
            scene.inbox_draft.value["items"] = items

    async def promote_item(self, submission_id: int) -> None:
        """Make a queued follow-up a steer: it goes in at the next tool boundary."""
        async with self._kernel.session.commit() as tx:
            scene = await load_scene(self._kernel, tx, self.id)
            item = scene.items[inbox.find_item(scene, submission_id)]
            if item["mode"] == "write":
                raise ValueError("a queued write cannot be promoted")
            item["mode"] = "steer"

    async def withdraw(self, submission_id: int) -> str:
        """Withdraw a queued item; see Submission.abort."""
        record = await self._kernel.session.storage.submission(submission_id)
        if record is None or record["conversationId"] != self.id:
            raise inbox.InboxItemGone(f"item {submission_id} is not in this conversation")
        return await Submission(self._kernel, record).abort()

    # -- ending work ---------------------------------------------------------------------------------------------

    async def stop(self) -> bool:
        """Abort the run and park the queue, in one commit (spec 6.8, 8.5). False when nothing runs."""
        kernel = self._kernel
        kernel.scheduler.start()
        async with kernel.session.commit() as tx:
            scene = await load_scene(kernel, tx, self.id)
            if not scene.busy:
                return False
            task_id = scene.live["run"]["taskId"]
            for item in scene.items:
                if item["mode"] != "write":
                    item["parked"] = True
            record = tx.candidate(task_id)
            if record is not None and not record["abortRequested"] and not is_decided(record):
                tx.put_task(changed(record, abortRequested=True))
        kernel.scheduler.invocations.signal_abort(task_id)
        return True

    async def abort(self, *, background: bool = False) -> None:
        """Withdraw the queued inputs, mark all ordinary work for abort, and return when idle (spec 6.8)."""
        from durable_tui.agent.cleanup import withdraw_queued

        kernel = self._kernel
        kernel.scheduler.start()
        marked: list[int] = []
        async with kernel.session.commit() as tx:
            await load_scene(kernel, tx, self.id)
            work, session = self._work(background), kernel.session
            # What a completed call still waits for is not marked through that call: its conversations are reached here.
            owned = conversations_below(work, session.conversations, children_of(session.tasks, session.conversations))
            for conversation_id in (self.id, *owned):
                await withdraw_queued(tx, conversation_id)
            for task_id in work:
                record = tx.candidate(task_id)
                if record is not None and not record["abortRequested"] and not is_decided(record):
                    tx.put_task(changed(record, abortRequested=True))
                    marked.append(task_id)
        for task_id in marked:
            kernel.scheduler.invocations.signal_abort(task_id)
        await self.wait_for_idle()

    def _work(self, background: bool = False) -> list[int]:
        session = self._kernel.session
        return ordinary_tasks(self.id, session.tasks, session.conversations, background=background)

    @property
    def idle(self) -> bool:
        """Whether no live ordinary work is reachable; queued items do not count (spec 6.5)."""
        return not self._work()

    async def wait_for_idle(self) -> None:
        """Wait until the conversation is idle; starts scheduling."""
        self._kernel.scheduler.start()
        while not self.idle:
            self._kernel.session.check_open()
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._kernel.idle_waiters.append(future)
            await future

    # -- looking -------------------------------------------------------------------------------------------------

    def watch(self, tail: int | None = None) -> Watch[ConversationView]:
        """Frames of this conversation: its view now, then one per commit that touches it (spec 13).

        With `tail=N` the view has the newest N entries and everything after; `entries(before=…)` has the older ones.
        """

        async def prepare(watch: Watch[ConversationView]) -> ConversationSource:
            return await ConversationSource.create(self._kernel, watch, self.id, tail)

        return self._kernel.watching(Watch(prepare))

    async def entries(self, before: int | None = None, limit: int = 200) -> list[StoredEntry]:
        """The newest entries before an id, in order."""
        page = await self._kernel.session.storage.entries(self.id, before=before, limit=limit, reverse=True)
        return page[::-1]

    async def context(self) -> list[dict[str, Any]]:
        """The messages the next request would carry (spec 11)."""
        return (await load_context(self._kernel, self.id)).messages()

    async def agent(self) -> Any:
        """The stored choices (spec 17.4)."""
        return await self._kernel.session.value(AGENT, self.id)

    async def draft(self) -> str:
        """The text in the composer as last committed."""
        return str((await self._kernel.session.value(DRAFT, self.id))["text"])

    # -- changing ------------------------------------------------------------------------------------------------

    async def configure(self, **choices: Any) -> None:
        """Change choices of the agent by their stored names; None unsets one. Takes effect at the next request."""
        value = agent_value(choices)
        async with self._kernel.session.commit() as tx:
            agent = await tx.document(AGENT, self.id)
            for key, choice in choices.items():
                if choice is None:
                    agent.value.pop(key, None)
                else:
                    agent.value[key] = value[key]

    async def set_draft(self, text: str) -> None:
        """Keep the composer's text; stored, but not flushed to the disk at once (spec 4.1, 16)."""
        async with self._kernel.session.commit(flush=False) as tx:
            draft = await tx.document(DRAFT, self.id)
            if draft.value["text"] != text:
                draft.value["text"] = text

    def commit(self) -> CommitScope:
        """`async with conversation.commit() as tx`: a commit of the front end's own."""
        return self._kernel.session.commit()
