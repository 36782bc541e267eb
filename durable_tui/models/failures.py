"""What a failed attempt means: HTTP answers, error objects inside streams and transport errors become ModelError.

Structured codes decide before texts, and wording of rate limits vetoes an overflow. Sources: the providers' documented
errors and the overflow wordings seen in the wild.
"""

from __future__ import annotations

import email.utils
import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC

from durable_tui.ground.text import one_line
from durable_tui.models.json_text import Wire, WireObject, as_object, as_objects, as_text, decode
from durable_tui.models.messages import Usage
from durable_tui.models.provider import TOO_LONG, ErrorKind, ModelError
from durable_tui.models.redact import redact

_CODES: dict[str, ErrorKind] = {
    "context_length_exceeded": "overflow",
    "exceed_context_size_error": "overflow",
    "model_context_window_exceeded": "overflow",
    "request_too_large": "overflow",
    "insufficient_quota": "quota",
    "billing_error": "quota",
    "billing_hard_limit_reached": "quota",
    "billing_not_active": "quota",
    "insufficient_balance": "quota",
    "insufficient_credits": "quota",
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_error": "rate_limit",
    "too_many_requests": "rate_limit",
    "resource_exhausted": "rate_limit",
    "overloaded": "overloaded",
    "overloaded_error": "overloaded",
    "engine_overloaded": "overloaded",
    "engine_overloaded_error": "overloaded",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "unavailable": "overloaded",
    "unavailable_error": "overloaded",
    "service_unavailable": "overloaded",
    "server_error": "server",
    "api_error": "server",
    "internal": "server",
    "internal_error": "server",
    "internal_server_error": "server",
    "timeout": "timeout",
    "timeout_error": "timeout",
    "authentication_error": "authentication",
    "invalid_api_key": "authentication",
    "permission_error": "authentication",
    "permission_denied": "authentication",
    "unauthenticated": "authentication",
    "unauthorized": "authentication",
    "not_found_error": "not_found",
    "model_not_found": "not_found",
    "content_filter": "refused",
    "content_policy_violation": "refused",
    "tool_use_failed": "malformed",
    "bio_policy": "refused",
    "cyber_policy": "refused",
    "misalignment_policy_violation": "refused",
    "image_content_policy_violation": "refused",
    "data_residency_mismatch": "bad_request",
    "vector_store_timeout": "bad_request",
    "invalid_image": "bad_request",
    "invalid_image_format": "bad_request",
    "invalid_base64_image": "bad_request",
    "invalid_image_url": "bad_request",
    "invalid_image_mode": "bad_request",
    "image_too_large": "bad_request",
    "image_too_small": "bad_request",
    "image_parse_error": "bad_request",
    "image_file_too_large": "bad_request",
    "image_file_not_found": "bad_request",
    "unsupported_image_media_type": "bad_request",
    "empty_image_file": "bad_request",
    "failed_to_download_image": "bad_request",
    "invalid_prompt": "bad_request",
    "invalid_request_error": "bad_request",
    "invalid_argument": "bad_request",
}
# Too general to decide against the status or the text.
_VAGUE = frozenset(
    {"invalid_request_error", "invalid_argument", "api_error", "internal_error", "internal", "server_error"}
)

_OVERFLOW = re.compile(
    "|".join(
        (
            r"context[_ ]length[_ ]exceeded",
            r"maximum context length",
            r"exceeds? the (?:model'?s )?context (?:window|length|size)",
            r"exceeds the available context size",
            r"input tokens exceed the configured limit",
            r"prompt is too long",
            r"prompt contains (?:at least )?\S+ (?:input )?tokens",
            r"input length and `?max_tokens`? exceed context limit",
            r"input is too long for (?:the )?requested model",
            r"input token count.{0,40}exceeds the maximum",
            r"too large for model with \S+ maximum context",
            r"reduce the length of the (?:messages|prompt|input)",
            r"maximum prompt length is \S+",
            r"greater than the context length",
            r"exceeded model token limit",
            r"context window exceeds limit",
            r"token count.{0,40}exceeds the limit of",
            r"current length is \S+ while limit is",
            r"`?inputs`? tokens \+ `?max_new_tokens`? must be",
            r"too many tokens in (?:the )?(?:prompt|input|request)",
        )
    ),
    re.IGNORECASE,
)
_VETO = re.compile(
    r"rate[ _-]?limit|tokens per (?:minute|day|hour)|requests per|too many requests|quota|string_above_max_length"
    r"|\bTP[MD]\b|\bRP[MD]\b|throttl",
    re.IGNORECASE,
)
_BUSY = re.compile(r"overloaded|at capacity|loading model|service unavailable", re.IGNORECASE)
_CREDIT = re.compile(r"credit balance is too low", re.IGNORECASE)  # Anthropic's, told as a bad request
_RATE = re.compile(r"rate[ _-]?limit|too many requests|tokens per minute", re.IGNORECASE)
LONGEST_MESSAGE = 600  # characters of what a server said


@dataclass(slots=True, frozen=True)
class Endpoint:
    """Who failed, for messages: the provider's name, its key and other secrets (never shown), the key's variable, the URL."""

    name: str
    key: str = field(default="", repr=False)
    key_env: str | None = None
    base_url: str = ""
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def fail(
        self,
        text: str,
        kind: ErrorKind,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        usage: Usage | None = None,
    ) -> ModelError:
        """A ModelError whose message starts with the provider's name and holds no secret."""
        message = f"{self.name}: {one_line(redact(text, (self.key, *self.secrets)), LONGEST_MESSAGE)}"
        return ModelError(message, kind, status=status, retry_after=retry_after, usage=usage)


@dataclass(slots=True)
class ErrorBody:
    """Return what an error body says, whatever its shape: text for people, all text for matching, codes, a status in the body,
    and the name of the request, for which the provider's support asks."""

    text: str = ""
    everything: str = ""
    codes: list[str] = field(default_factory=list)
    status: int | None = None
    retry_after: float | None = None
    flagged: bool = False
    request_id: str = ""


def error_in(value: Wire) -> WireObject | None:
    """The error inside a JSON value of a stream or a 200 answer, or None when it carries none."""
    if isinstance(value, list):
        return next((error for item in value if (error := error_in(item)) is not None), None)
    if not isinstance(value, dict):
        return None
    if value.get("error"):
        return value
    if value.get("object") == "error" or value.get("type") == "error":
        return value
    return None


def read_error(body: Wire | bytes) -> ErrorBody:
    """Understand `{error: {...}}`, `{error: "..."}`, `[{error}]`, flat bodies, `{detail}`, JSON in strings, HTML, text."""
    said = ErrorBody()
    value = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    if isinstance(value, str):
        said.everything = value
        try:
            value = decode(value)
        except (ValueError, RecursionError):
            said.text = _plain(said.everything)
            return said
    else:
        try:
            said.everything = json.dumps(value, ensure_ascii=False, default=str)
        except (ValueError, RecursionError):
            said.everything = ""
    _collect(value, said, 0)
    if not said.text:
        said.text = said.everything if said.everything not in ("{}", "[]", "null", '""') else ""
    return said


def _plain(text: str) -> str:
    if re.match(r"\s*<(?:!doctype|html|\?xml)", text, re.IGNORECASE):
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        return title.group(1) if title else "a web page instead of an answer"
    return text


def _collect(value: Wire, said: ErrorBody, depth: int) -> None:
    if depth > 5:
        return
    if isinstance(value, list):
        for item in value[:8]:
            _collect(item, said, depth + 1)
        return
    if isinstance(value, str):
        said.text = said.text or value
        return
    if not isinstance(value, dict):
        return
    for key in ("code", "type", "status"):
        _code(value.get(key), said)
    if isinstance(request_id := value.get("request_id"), str):
        said.request_id = said.request_id or request_id
    message = value.get("message")
    error = value.get("error")
    if isinstance(error, (dict, list)):
        _collect(error, said, depth + 1)
    elif isinstance(error, str) and error:
        said.text = said.text or (f"{error}: {message}" if isinstance(message, str) and message else error)
    if isinstance(message, str) and message:
        said.text = said.text or message
    elif isinstance(message, (dict, list)):
        _collect(message, said, depth + 1)
    for key in ("detail", "msg", "reason"):
        if key in value and not said.text:
            _collect(value[key], said, depth + 1)
    metadata = as_object(value.get("metadata"))
    said.flagged = said.flagged or bool(metadata.get("reasons") or metadata.get("flagged_input"))
    raw = as_text(metadata.get("raw"))
    if raw and raw not in said.text:
        said.text = f"{said.text}: {raw}" if said.text else raw
    for detail in as_objects(value.get("details")):
        if isinstance(delay := detail.get("retryDelay"), str):
            said.retry_after = _seconds(delay.removesuffix("s"))


def _code(code: Wire, said: ErrorBody) -> None:
    if isinstance(code, str) and code.isascii() and code.isdigit():
        code = int(code)
    if isinstance(code, bool) or code is None:
        return
    if isinstance(code, int):
        if 400 <= code < 600:
            said.status = said.status or code
    elif isinstance(code, str):
        said.codes.append(code.lower())


def classify(
    endpoint: Endpoint,
    status: int | None,
    body: Wire | bytes,
    headers: Mapping[str, str] | None = None,
    *,
    usage: Usage | None = None,
    unknown: ErrorKind = "server",
) -> ModelError:
    """The ModelError for an error answer (`status` >= 300) or, with no status or 200, for an error object in a stream.

    `unknown` is the kind of an error that has no status and says nothing that is known.
    """
    headers = headers or {}
    error = read_error(body)
    if status is None or status < 300:
        status = error.status
    wait = retry_after(headers)
    if wait is None:
        wait = error.retry_after
    kind = _kind(status, error, wait, unknown)
    verdict = headers.get("x-should-retry", "").lower()
    if verdict == "true" and kind == "bad_request":
        kind = "server"
    elif verdict == "false" and kind in ("rate_limit", "server", "overloaded", "timeout"):
        kind = "quota" if kind == "rate_limit" else "bad_request"
    text = error.text or _BARE.get(kind, "the request failed")
    request_id = headers.get("request-id") or error.request_id
    notes = [] if status is None else [f"HTTP {status}"]
    if re.fullmatch(r"[\w-]{1,64}", request_id, re.ASCII):
        notes.append(f"request {request_id}")
    if notes:
        text = f"{one_line(text, LONGEST_MESSAGE)} ({', '.join(notes)})"
    if kind == "authentication":
        source = f"the key in {endpoint.key_env}" if endpoint.key_env else "the key"
        text += f"; check {source}" if endpoint.key else f"; {endpoint.key_env or 'a key'} is not set"
    elif kind == "not_found":
        text += "; check the model's name and the base URL"
    elif kind == "overflow":
        text += f"; {TOO_LONG}"
    return endpoint.fail(text, kind, status=status, retry_after=wait, usage=usage)


_BARE: dict[ErrorKind, str] = {
    "overflow": "the request is too large",
    "rate_limit": "too many requests",
    "overloaded": "the server is overloaded",
    "server": "the server failed",
    "timeout": "the server timed out",
    "authentication": "the server refused the key",
    "quota": "no credit left",
    "not_found": "not found",
    "refused": "refused by the provider's filter",
    "configuration": "the server redirects elsewhere; check the base URL",
}


def _kind(status: int | None, error: ErrorBody, wait: float | None, unknown: ErrorKind) -> ErrorKind:
    codes = [code for code in error.codes if code in _CODES]
    for code in codes:
        if code not in _VAGUE:
            return _CODES[code]
    if status == 400 and _CREDIT.search(error.everything):
        return "quota"
    if status == 413:
        return "rate_limit" if _RATE.search(error.everything) else "overflow"
    if status == 429:
        return "rate_limit"
    if status == 402:
        # A limit on requests in flight is reported so by some, with the time to wait.
        return "quota" if wait is None else "rate_limit"
    if status in (401, 403):
        return "refused" if status == 403 and error.flagged else "authentication"
    if status != 404 and _OVERFLOW.search(error.everything) and not _VETO.search(error.everything):
        return "overflow"
    if status is None:
        if _BUSY.search(error.text):
            return "overloaded"
        if _RATE.search(error.text):
            return "rate_limit"
        # Without a status an unknown error is mostly taken for the server's, so it is tried again.
        return next((_CODES[code] for code in codes), unknown)
    if status == 404:
        return "not_found"
    if status in (408, 504):
        return "timeout"
    if status in (503, 529):
        return "overloaded"
    if status >= 500 or status in (409, 425):
        return "server"
    if status < 400:
        return "configuration"
    return "bad_request"


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds to wait as the server gave them (`retry-after-ms`, seconds, or a date); None when absent or garbage."""
    exact = _seconds(headers.get("retry-after-ms"))
    if exact is not None:
        return exact / 1000
    wait = headers.get("retry-after")
    if wait is None:
        return None
    seconds = _seconds(wait)
    if seconds is not None:
        return seconds
    try:
        date = email.utils.parsedate_to_datetime(wait.strip())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, date.timestamp() - (time.time() if now is None else now))


def _seconds(text: str | None) -> float | None:
    if text is None or not re.fullmatch(r"\s*\d+(?:\.\d*)?\s*", text, re.ASCII):
        return None
    value = float(text)
    return value if math.isfinite(value) else None
