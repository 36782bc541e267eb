"""A conversation as front ends use it (spec 19)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, Unpack, cast

from durable_tui.agent import inbox
from durable_tui.agent.agent import Agent
from durable_tui.agent.documents import AGENT, DRAFT, INBOX, LIVE, PROVIDER, USAGE
from durable_tui.agent.images import check_content, check_messages
from durable_tui.agent.shapes import AgentChoices, QueuedEntry, QueuedItem
from durable_tui.engine.ownership import children_of, conversations_below
from durable_tui.engine.task_record import mark_for_abort
from durable_tui.harness.submission import Submission
from durable_tui.models.provider import THINKING_LEVELS
from durable_tui.session import Transaction, Watch
from durable_tui.session.session import CommitScope
from durable_tui.storage.records import EntryEdit, StoredEntry, SubmissionRecord
from durable_tui.views.facade import AgentChanges, WhenBusy
from durable_tui.views.shapes import ConversationView
from durable_tui.views.watch_sources import Watches

if TYPE_CHECKING:
    from durable_tui.delta import Json
    from durable_tui.models.messages import Message, UserBlock

AGENT_KEYS = ("model", "thinkingLevel", "extensions", "tools", "instructions", "cwd")


def agent_value(choices: Mapping[str, object]) -> AgentChoices:
    """A `pi.agent` value from choices; `model` may be "provider/model". Raises ValueError for an unknown key."""
    value: dict[str, object] = {}
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
    return cast(AgentChoices, value)


async def write_first_documents(tx: Transaction, conversation_id: int, agent: AgentChoices) -> None:
    """What the creating commit of a conversation writes (spec 12)."""
    await tx.document(LIVE, conversation_id)
    await tx.document(INBOX, conversation_id)
    await tx.document(USAGE, conversation_id)
    (await tx.document(PROVIDER, conversation_id)).value = {"sessionId": uuid.uuid4().hex}
    (await tx.document(AGENT, conversation_id)).value = agent


class Conversation:
    """One conversation of an open harness."""

    def __init__(self, agent: Agent, watches: Watches, conversation_id: int) -> None:
        self._agent = agent
        self._watches = watches
        self.id = conversation_id

    # -- handing something in ------------------------------------------------------------------------------------

    async def submit(
        self,
        content: str | list[UserBlock],
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
        self._agent.engine.start()
        async with self._agent.session.commit() as tx:
            known = await self._known(tx, request_id, "input")
            if known is not None:
                return known
            draft = await self._agent.conversations.load(tx, self.id)
            composer = await tx.document(DRAFT, self.id) if clear_draft else None
            record = inbox.admit_input(draft, content, when_busy=when_busy, request_id=request_id)
            if composer is not None:
                composer.value["text"] = ""
        return Submission(self._agent, record)

    async def write(
        self,
        kind: str,
        *,
        model: list[Message] | None = None,
        data: object = None,
        head: int | Literal["self"] | None = None,
        edits: list[EntryEdit] | None = None,
        request_id: str | None = None,
    ) -> Submission:
        """Admit a passive write: an entry appended now, or at the next boundary when busy (spec 8.2, 8.3).

        Raises ValueError for an image that cannot be sent, or another type under the same `request_id`.
        """
        await check_messages(
            [
                *(model or ()),
                *(message for edit in edits or () if edit["action"] == "replace" for message in edit["messages"]),
            ]
        )
        entry: QueuedEntry = {"kind": kind}
        if model is not None:
            entry["model"] = model
        if data is not None:
            entry["data"] = cast("Json", data)
        if head is not None:
            entry["head"] = head
        if edits is not None:
            entry["edits"] = edits
        async with self._agent.session.commit() as tx:
            known = await self._known(tx, request_id, "write")
            if known is not None:
                return known
            draft = await self._agent.conversations.load(tx, self.id)
            if head is not None and draft.head is None:
                draft.head = await self._agent.conversations.active_start(self.id)
            record = inbox.admit_write(draft, entry, request_id=request_id)
        return Submission(self._agent, record)

    async def _known(self, tx: Transaction, request_id: str | None, kind: str) -> Submission | None:
        if request_id is None:
            return None
        record = await tx.submission_by_request(self.id, request_id)
        if record is None:
            return None
        if record["type"] != kind:
            raise ValueError(f"request {request_id!r} was a submission of type {record['type']}, not {kind}")
        return Submission(self._agent, record)

    async def submission(self, request_id: str) -> Submission | None:
        """What was handed in under a request id (spec 8.1); None when nothing was."""
        record = await self._agent.session.storage.submission_by_request(self.id, request_id)
        return Submission(self._agent, record) if record is not None else None

    async def open_inputs(self) -> list[int]:
        """The inputs that a run has taken, then those it will take by itself: queued and not parked. In order."""
        placed = await self._agent.session.storage.submissions(self.id, status="placed")
        queued = [item["id"] for item in await self.queue() if item["mode"] != "write" and not inbox.is_parked(item)]
        return [record["id"] for record in placed if record["type"] == "input"] + queued

    async def newest_input(self) -> Submission | None:
        """The input handed in last, parked ones left out, settled or not; None when there is none."""
        parked = {item["id"] for item in await self.queue() if inbox.is_parked(item)}
        newest: SubmissionRecord | None = None
        after = 0
        while page := await self._agent.session.storage.submissions(self.id, after=after):
            for record in page:
                if record["type"] == "input" and record["id"] not in parked:
                    newest = record
            after = page[-1]["id"]
        return Submission(self._agent, newest) if newest is not None else None

    # -- the queue -----------------------------------------------------------------------------------------------

    async def release(self, submission_id: int | None = None) -> int | None:
        """Un-park an item, or the first parked one; idle, what waits starts (spec 8.5). Returns the item's id.

        Raises InboxItemGone when the named item is not queued any more.
        """
        self._agent.engine.start()
        async with self._agent.session.commit() as tx:
            draft = await self._agent.conversations.load(tx, self.id)
            released: int | None = None
            if submission_id is not None:
                item: QueuedItem | None = draft.items[inbox.find_item(draft, submission_id)]
            else:
                item = next((item for item in draft.items if inbox.is_parked(item)), None)
            if item is not None:
                released = item["id"]
                inbox.release_item(draft, item)
            if not draft.busy:
                if released is None:
                    released = next((item["id"] for item in draft.items if item["mode"] != "write"), None)
                inbox.start_waiting(draft)
        return released

    async def edit_item(self, submission_id: int, content: str | list[UserBlock]) -> None:
        """Change what a queued input says. Raises InboxItemGone when the run took it meanwhile, ValueError as `submit`."""
        if isinstance(content, str) and not content.strip():
            raise ValueError("an input cannot be blank")
        await check_content(content)
        async with self._agent.session.commit() as tx:
            draft = await self._agent.conversations.load(tx, self.id)
            item = draft.items[inbox.find_item(draft, submission_id)]
            if item["mode"] == "write":
                raise ValueError("a queued write cannot be edited")
            item["content"] = content

    async def move_item(self, submission_id: int, index: int) -> None:
        """Move a queued item to another place (0 is the first)."""
        async with self._agent.session.commit() as tx:
            draft = await self._agent.conversations.load(tx, self.id)
            order = list(range(len(draft.items)))
            place = order.pop(inbox.find_item(draft, submission_id))
            order.insert(max(0, min(index, len(order))), place)
            items = [draft.items[old] for old in order]
            draft.inbox_draft.value["items"] = items

    async def promote_item(self, submission_id: int) -> None:
        """Make a queued follow-up a steer: it goes in at the next tool boundary."""
        async with self._agent.session.commit() as tx:
            draft = await self._agent.conversations.load(tx, self.id)
            item = draft.items[inbox.find_item(draft, submission_id)]
            if item["mode"] == "write":
                raise ValueError("a queued write cannot be promoted")
            item["mode"] = "steer"

    async def withdraw(self, submission_id: int) -> str:
        """Withdraw a queued item; see Submission.abort."""
        record = await self._agent.session.storage.submission(submission_id)
        if record is None or record["conversationId"] != self.id:
            raise inbox.InboxItemGone(f"item {submission_id} is not in this conversation")
        return await Submission(self._agent, record).abort()

    # -- ending work ---------------------------------------------------------------------------------------------

    async def stop(self) -> bool:
        """Abort the run and park the queue, in one commit (spec 6.8, 8.5). False when nothing runs."""
        self._agent.engine.start()
        async with self._agent.session.commit() as tx:
            draft = await self._agent.conversations.load(tx, self.id)
            run = draft.live.get("run")
            if run is None:
                return False
            inbox.park_inputs(draft)
            task_id = run["taskId"]
            mark_for_abort(tx, [task_id])
        self._agent.engine.signal_abort([task_id])
        return True

    async def abort(self, *, background: bool = False) -> None:
        """Withdraw the queued inputs, mark all ordinary work for abort, and return when idle (spec 6.8)."""
        engine, session = self._agent.engine, self._agent.session
        engine.start()
        async with session.commit() as tx:
            await self._agent.conversations.load(tx, self.id)
            work = engine.work_of(self.id, background=background)
            # What a completed call still waits for is not marked through that call: its conversations are reached here.
            owned = conversations_below(work, session.conversations, children_of(session.tasks, session.conversations))
            await self._agent.conversations.withdraw_inputs(tx, [self.id, *owned])
            marked = mark_for_abort(tx, work)
        engine.signal_abort(marked)
        await self.wait_for_idle()

    @property
    def idle(self) -> bool:
        """Whether no live ordinary work is reachable; queued items do not count (spec 6.5)."""
        return not self._agent.engine.work_of(self.id)

    async def wait_for_idle(self) -> None:
        """Wait until the conversation is idle; starts scheduling."""
        await self._agent.engine.wait_until(lambda: self.idle)

    # -- looking -------------------------------------------------------------------------------------------------

    def watch(self, tail: int | None = None) -> Watch[ConversationView]:
        """Frames of this conversation: its view now, then one per commit that touches it (spec 13).

        With `tail=N` the view has the newest N entries and everything after; `entries(before=…)` has the older ones.
        """

        return self._watches.conversation(self.id, tail)

    async def queue(self) -> list[QueuedItem]:
        """What waits for a boundary, in order (spec 8)."""
        return list((await self._agent.session.value(INBOX, self.id))["items"])

    async def entry(self, entry_id: int) -> StoredEntry | None:
        """An entry of this conversation by its id, with the commit that wrote it."""
        stored = await self._agent.session.storage.entry(entry_id)
        return stored if stored is not None and stored.record["conversationId"] == self.id else None

    async def entries(self, before: int | None = None, limit: int = 200) -> list[StoredEntry]:
        """The newest entries before an id, in order."""
        page = await self._agent.session.storage.entries(self.id, before=before, limit=limit, reverse=True)
        return page[::-1]

    async def context(self) -> list[Message]:
        """The messages the next request would carry (spec 11)."""
        return (await self._agent.contexts.load(self.id)).messages()

    async def agent(self) -> AgentChoices:
        """The stored choices (spec 17.4)."""
        return await self._agent.session.value(AGENT, self.id)

    async def draft(self) -> str:
        """The text in the composer as last committed."""
        return str((await self._agent.session.value(DRAFT, self.id))["text"])

    # -- changing ------------------------------------------------------------------------------------------------

    async def configure(self, **choices: Unpack[AgentChanges]) -> None:
        """Change choices of the agent by their stored names; None unsets one. Takes effect at the next request."""
        value = agent_value(choices)
        async with self._agent.session.commit() as tx:
            agent = await tx.document(AGENT, self.id)
            stored = cast("dict[str, object]", agent.value)
            for key, choice in choices.items():
                if choice is None:
                    stored.pop(key, None)
            stored.update(value)

    async def set_draft(self, text: str) -> None:
        """Keep the composer's text; stored, but not flushed to the disk at once (spec 4.1, 16)."""
        async with self._agent.session.commit(flush=False) as tx:
            draft = await tx.document(DRAFT, self.id)
            if draft.value["text"] != text:
                draft.value["text"] = text

    def commit(self) -> CommitScope:
        """`async with conversation.commit() as tx`: a commit of the front end's own."""
        return self._agent.session.commit()
