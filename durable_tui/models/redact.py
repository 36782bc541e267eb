"""Secrets and noise kept out of every text a provider hands on."""

from __future__ import annotations

import re
from collections.abc import Iterable

from durable_tui.models.json_text import replace_surrogates

MARK = "***"
# Words that people put where a server wants some key but checks none; blanking them would only garble messages.
_DUMMIES = frozenset(
    {"none", "null", "dummy", "empty", "test", "ollama", "lm-studio", "lmstudio", "not-needed", "no-key"}
)
_PATTERNS = (
    (re.compile(r"(?i)\b(bearer)\s+[^\s\"',;]{4,}"), r"\1 " + MARK),
    (re.compile(r"\b(Basic)\s+[A-Za-z0-9+/]{12,}={0,2}"), r"\1 " + MARK),
    (re.compile(r"\b(?:sk|pk|rk|gsk|xai|csk|nvapi|ghp|gho|hf)[-_][A-Za-z0-9_*.\-]{8,}"), MARK),
    (re.compile(r"\bAIza[0-9A-Za-z_\-]{16,}"), MARK),
    (re.compile(r"(?i)(api[-_ ]?key[\"']?\s*[=:]\s*[\"']?)[^\s\"',;&]{4,}"), r"\1" + MARK),
    (re.compile(r"(?i)([?&](?:key|api[-_]?key|token|access_token)=)[^\s&\"']+"), r"\1" + MARK),
    (re.compile(r"(?<=://)[^/\s@\"']+@"), MARK + "@"),
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without the given secrets and without anything that looks like a key or a password in a URL."""
    for secret in secrets:
        if len(secret) >= 4 and secret.lower() not in _DUMMIES:
            text = text.replace(secret, MARK)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def one_line(text: str, limit: int = 600) -> str:
    """For a person: one line without control characters, cut at `limit` characters."""
    text = replace_surrogates(_CONTROL.sub(" ", text)).strip()
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"
