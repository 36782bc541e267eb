"""Tool calls put together from the fragments of a Chat Completions stream, as servers really send them.

A fragment belongs to the call at its index. A new id or a new name at an occupied index begins a new call; without an
index the place in the list counts; without an id one is made up. Ids come out unique and not empty.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from durable_tui.ground.text import replace_surrogates
from durable_tui.models.arguments import CUT, bounded, is_complete_object, parse_arguments
from durable_tui.models.json_text import Wire, WireObject, as_object, as_text, strict
from durable_tui.models.messages import ToolCallBlock

if TYPE_CHECKING:
    from durable_tui.delta import Json

UNNAMED = "unnamed_tool"


@dataclass(slots=True)
class Call:
    """One call in the making. `given_id` is the server's, `id` ours; `index` is the content block's, once announced."""

    given_id: str = ""
    id: str = ""
    name: str = ""
    raw: str = ""
    index: int | None = None
    pending: str = ""
    extra: WireObject = field(default_factory=dict)
    function_extra: WireObject = field(default_factory=dict)


class CallAssembler:
    """`taken` are ids that the conversation already uses."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.calls: list[Call] = []
        self._taken = set(taken)
        self._places: dict[int, list[Call]] = {}

    def add(self, fragment: Wire, position: int) -> Call | None:
        """Take in one fragment at `position` of its list; the call it went to, its new text in `pending`."""
        if not isinstance(fragment, dict):
            return None
        function = as_object(fragment.get("function"))
        given_id = as_text(fragment.get("id"))
        name = as_text(function.get("name"))
        raw = _arguments(function.get("arguments"))
        if not (given_id or name or raw):
            return None
        call = self._find(fragment.get("index"), position, given_id, name, raw)
        if not call.given_id and call.index is None:
            call.given_id = given_id
        call.name = call.name or name
        if raw and not (raw == call.raw and is_complete_object(raw)):
            call.raw += raw
            call.pending += raw
        call.extra |= _unknown(fragment, ("index", "id", "type", "function"))
        call.function_extra |= _unknown(function, ("name", "arguments"))
        return call

    def settle_id(self, call: Call) -> str:
        """The call's final id: the server's unless it is empty or already used."""
        if not call.id:
            call.id = self.unique(call.given_id)
        return call.id

    def unique(self, id: str) -> str:
        """`id`, or when it is empty or taken a new one; taken from now on."""
        candidate = id or f"call_{uuid.uuid4().hex[:24]}"
        number = 2
        while candidate in self._taken:
            candidate = f"{id}_{number}"
            number += 1
        self._taken.add(candidate)
        return candidate

    def _find(self, index: Wire, position: int, given_id: str, name: str, raw: str) -> Call:
        number = _index(index)
        place = self._places.setdefault(position if number is None else number, [])
        if given_id:
            same = next((call for call in reversed(place) if call.given_id == given_id), None)
            if same is None and number is None:
                same = next((call for call in reversed(self.calls) if call.given_id == given_id), None)
            if same is not None and not _restarts(same, name, raw):
                return same
            if same is None and place and not _another(place[-1], given_id, name, raw):
                return place[-1]
        elif place and not _another(place[-1], given_id, name, raw):
            return place[-1]
        call = Call()
        place.append(call)
        self.calls.append(call)
        return call


def _index(value: Wire) -> int | None:
    """A fragment's own index, also one written as text; None when it has none."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _another(current: Call, given_id: str, name: str, raw: str) -> bool:
    """Whether a fragment at the place of `current` begins another call."""
    if name and current.name and name != current.name:
        return True
    if given_id and current.given_id and given_id != current.given_id:
        # An id alone, while the arguments are open, is a server that makes up an id for every fragment.
        return bool(name) or is_complete_object(current.raw)
    return _restarts(current, name, raw)


def _restarts(current: Call, name: str, raw: str) -> bool:
    """Whether a named fragment opens a second object where the first is complete (another call without an id)."""
    if not name or not raw.lstrip().startswith("{") or raw == current.raw:
        return False
    return is_complete_object(current.raw)


def finish_call(call: Call, cut: bool) -> ToolCallBlock:
    """The block to keep. With `cut` (a length-limited turn) no arguments are trusted."""
    block: ToolCallBlock = {
        "type": "toolCall",
        "id": call.id,
        "name": replace_surrogates(call.name) or UNNAMED,
        "arguments": {},
    }
    parsed = parse_arguments(call.raw)
    error = CUT if cut else parsed.error if call.name else "the call names no tool"
    extra: dict[str, Json] = {}
    if error is None:
        block["arguments"] = parsed.value
    else:
        extra["invalid"] = {"error": error, "raw": bounded(call.raw)}
    if call.extra:
        extra["wire"] = call.extra
    if call.function_extra:
        extra["wireFunction"] = call.function_extra
    if extra:
        block["providerExtra"] = extra
    return block


def _arguments(value: Wire) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(strict(value), ensure_ascii=False)


def _unknown(source: WireObject, protocol: tuple[str, ...]) -> WireObject:
    """What a server added to the keys of the protocol."""
    return {key: strict(value) for key, value in source.items() if key not in protocol and value is not None}
