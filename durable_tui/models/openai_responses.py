"""OpenAI Responses over HTTP: answers that stream, and answers made in the background that are asked for (`poll`).

A background answer is stored at the provider, which keeps it for polling for about ten minutes after its end.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import TYPE_CHECKING, Unpack
from urllib.parse import urlencode

from durable_tui.ground.clock import now_ms
from durable_tui.models.answer import Answer
from durable_tui.models.failures import classify, retry_after
from durable_tui.models.http_provider import EndpointOptions, HttpProvider
from durable_tui.models.json_text import WireObject, as_text
from durable_tui.models.known_providers import OPENAI_RESPONSES
from durable_tui.models.provider import Deferred, ModelError, ModelRequest, StreamEvent
from durable_tui.models.responses_request import Body, build_request, included
from durable_tui.models.responses_stream import ResponsesStream

if TYPE_CHECKING:
    from durable_tui.delta import JsonObject

_UNFINISHED = ("queued", "in_progress")
_FIRST_WAIT, _GROWTH, _LONGEST_WAIT = 2.0, 1.5, 15.0  # seconds between polls
_GROWS = 10  # polls
_ASKED_WAIT = (1.0, 600.0)  # seconds that a server may ask for
# One segment of a path, and nothing that means anything in a URL.
_ID = re.compile(r"[A-Za-z0-9_\-][A-Za-z0-9_.=\-]{0,511}")
_ENDED = re.compile(
    r"already|completed|cancell?ed|finished|terminal|cannot (?:be )?cancel|not (?:be )?cancell?able", re.IGNORECASE
)


class ResponsesProvider(HttpProvider):
    """One endpoint that speaks Responses. With `background`, answers are made there and asked for.

    A handle is `{responseId, createdAt, polls}`: the provider's id, milliseconds, and how often it was asked for.
    """

    api = OPENAI_RESPONSES

    def __init__(
        self, name: str, base_url: str, *, background: bool = False, **options: Unpack[EndpointOptions]
    ) -> None:
        super().__init__(name, base_url, **options)
        self._background = background

    def path(self) -> str:
        return "/responses"

    def build(self, request: ModelRequest) -> Body:
        return build_request(request, self.quirks_of(request.model), background=self._background)

    def answer(self, request: ModelRequest) -> Answer:
        return ResponsesStream(request, self._endpoint, self.api)

    def attempt(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        return self._begin(request) if self._background else super().attempt(request)

    async def poll(self, request: ModelRequest, handle: JsonObject) -> AsyncIterator[StreamEvent]:
        """Ask once for an answer made in the background (see BackgroundProvider)."""
        path = self._path_of(handle)
        if include := included(request.model, self.quirks_of(request.model)):
            path += "?" + urlencode([("include[]", name) for name in include])
        try:
            head, raw = await self.call("GET", path, None, self._request_headers(request))
            value = self._response(raw)
        except ModelError as error:
            if error.status in (404, 410):
                text = "the provider no longer has this answer; it keeps one only for a while"
                raise self._endpoint.fail(text, "not_found", status=error.status) from None
            error.polled = True
            raise
        for event in self._events(request, value, head.headers, {**handle, "polls": _polls(handle) + 1}):
            yield event

    async def cancel(self, handle: JsonObject) -> None:
        """End an answer. One that the provider does not know or that has ended needs no end. Raises ModelError."""
        try:
            await self.call("POST", f"{self._path_of(handle)}/cancel")
        except ModelError as error:
            if error.status in (404, 410) or (error.status in (400, 409, 422) and _ENDED.search(str(error))):
                return
            raise

    async def _begin(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Ask for an answer to be made. The key lets a server that takes one give the same answer to a second asking."""
        headers = self._request_headers(request)
        if request.key:
            headers["idempotency-key"] = request.key
        head, raw = await self.call("POST", self.path(), self.build(request), headers)
        value = self._response(raw)
        handle: WireObject = {"responseId": value.get("id"), "createdAt": now_ms(), "polls": 0}
        for event in self._events(request, value, head.headers, handle):
            yield event

    def _response(self, raw: bytes) -> WireObject:
        """The Response in a body. Raises ModelError for anything else, errors told with status 200 among it."""
        value = self.parsed(raw)
        if ResponsesStream.is_answer(value):
            return value
        raise classify(self._endpoint, None, value)

    def _events(
        self, request: ModelRequest, value: WireObject, headers: Mapping[str, str], handle: JsonObject
    ) -> list[StreamEvent]:
        """Return what follows from a Response: another wait, or the answer's events. Raises ModelError when it failed."""
        if value.get("status") in _UNFINISHED:
            self._path_of(handle)
            return [Deferred(handle, _wait(headers, _polls(handle)))]
        answer = self.answer(request)
        return [*answer.body(value), *answer.finish()]

    def _path_of(self, handle: JsonObject) -> str:
        """Return the path where an answer is asked for. Raises ModelError for an id that is not fit for a URL."""
        id = as_text(handle.get("responseId"))
        if not _ID.fullmatch(id):
            raise self._endpoint.fail(
                f"gave an answer made in the background an unusable id: {id!r:.80}", "bad_request"
            )
        return f"{self.path()}/{id}"


def _polls(handle: JsonObject) -> int:
    polls = handle.get("polls")
    return polls if isinstance(polls, int) and polls >= 0 else 0


def _wait(headers: Mapping[str, str], polls: int) -> float:
    """Seconds until the next poll: what the server asks for (OpenAI's own header is in milliseconds), else ever more."""
    asked = retry_after({"retry-after-ms": headers.get("openai-poll-after-ms", "")})
    asked = retry_after(headers) if asked is None else asked
    if asked is not None:
        return min(max(asked, _ASKED_WAIT[0]), _ASKED_WAIT[1])
    return min(_FIRST_WAIT * _GROWTH ** min(polls, _GROWS), _LONGEST_WAIT)
