"""HTTP bodies read so that an abort at any moment leaves the pool whole.

Cancelling a task twice while the HTTP library closes a connection leaks its slot. So each exchange runs in a task of its
own that is cancelled at most once, however often its reader is.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from durable_tui.models.failures import Endpoint
from durable_tui.models.provider import ModelError

if TYPE_CHECKING:
    import httpx

_DRAIN = 2.0
_WAIT = 0.2


@dataclass(slots=True, frozen=True)
class HttpSettings:
    """Timeouts in seconds. `read` is for each piece of a body, `progress` for the time with nothing but comments,
    `linger` for what may follow a finish reason. `max_connections` of None is no limit."""

    connect: float = 10.0
    read: float = 120.0
    write: float = 30.0
    pool: float = 10.0
    progress: float = 900.0
    linger: float = 5.0
    max_connections: int | None = None


@dataclass(slots=True, frozen=True)
class Head:
    """Status and headers (names in lower case) of an answer."""

    status: int
    headers: dict[str, str]


class Exchange:
    """One request and its streamed answer: `open`, then `piece` until None, and in any case `close`.

    It is in `running` until its connection is closed or given back.
    """

    def __init__(self, client: httpx.AsyncClient, request: httpx.Request, running: set[Exchange]) -> None:
        self._client = client
        self._request = request
        self._running = running
        self._queue: asyncio.Queue[Head | bytes | Exception | None] = asyncio.Queue(64)
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self._released = False

    async def open(self) -> Head:
        """Send the request and wait for the head. Raises what the transport raises."""
        self._task = asyncio.create_task(self._pump(), name="model exchange")
        self._running.add(self)
        self._task.add_done_callback(lambda _: self._running.discard(self))
        head = await self._queue.get()
        if isinstance(head, Exception):
            raise head
        assert isinstance(head, Head)
        return head

    async def piece(self, timeout: float | None = None) -> bytes | None:
        """The next piece of the body, None at its end. Raises TimeoutError and what the transport raises."""
        async with asyncio.timeout(timeout):
            item = await self._queue.get()
        if isinstance(item, Exception):
            raise item
        assert not isinstance(item, Head)
        return item

    def stop(self) -> None:
        """Cancel the exchange, once; its connection is closed soon, whatever happens to the caller."""
        if self._task is not None and not self._stopped:
            self._stopped = True
            self._task.cancel()

    async def join(self, timeout: float) -> None:
        """Wait until the exchange is over, at most `timeout` seconds."""
        if self._task is not None and not self._task.done():
            await asyncio.wait({self._task}, timeout=timeout)

    async def close(self) -> None:
        """Stop, unless released, and give the connection a moment to be closed."""
        if not self._released:
            self.stop()
            await self.join(_WAIT)

    def release(self) -> None:
        """The answer is whole: what is left (little) is read aside, so that the connection can be used again."""
        self._released = True
        while not self._queue.empty():
            self._queue.get_nowait()
        if self._task is not None and not self._task.done():
            asyncio.get_running_loop().call_later(_DRAIN, self.stop)

    async def _pump(self) -> None:
        try:
            response = await self._client.send(self._request, stream=True)
            try:
                headers = {name.lower(): value for name, value in response.headers.items()}
                await self._put(Head(response.status_code, headers))
                async for piece in response.aiter_bytes():
                    await self._put(piece)
            finally:
                await response.aclose()
            await self._put(None)
        except Exception as error:  # noqa: BLE001 - whatever it is, the reader raises it
            await self._put(error)

    async def _put(self, item: Head | bytes | Exception | None) -> None:
        if not self._released:
            await self._queue.put(item)


def transport_error(endpoint: Endpoint, error: Exception, opened: bool, settings: HttpSettings) -> ModelError:
    """The ModelError for what the transport raised; `opened` when the head had come."""
    import httpx

    where = endpoint.base_url
    text = str(error) or type(error).__name__
    if isinstance(error, httpx.ConnectTimeout):
        return endpoint.fail(f"no connection to {where} within {settings.connect:g} s", "timeout")
    if isinstance(error, (httpx.ReadTimeout, httpx.WriteTimeout, TimeoutError)):
        return endpoint.fail(f"no sign of life from {where} for {settings.read:g} s", "timeout")
    if isinstance(error, httpx.PoolTimeout):
        return endpoint.fail("no free connection", "network")
    if isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError)):
        return endpoint.fail(f"the base URL {where} or a header cannot be used: {text}", "configuration")
    if isinstance(error, httpx.ConnectError):
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return endpoint.fail(f"the certificate of {where} is not trusted: {text}", "configuration")
        return endpoint.fail(f"cannot connect to {where} ({text}); is the server running?", "network")
    if isinstance(error, httpx.RemoteProtocolError):
        if opened:
            return endpoint.fail(f"the answer was cut off ({text})", "truncated")
        return endpoint.fail(f"the connection was closed without an answer ({text})", "network")
    if isinstance(error, httpx.DecodingError):
        return endpoint.fail(f"the answer cannot be decoded ({text})", "malformed")
    return endpoint.fail(f"the connection broke ({text})", "network")
