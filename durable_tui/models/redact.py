"""Secrets kept out of every text a provider hands on."""

from __future__ import annotations

import re
from collections.abc import Iterable

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


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without the given secrets and without anything that looks like a key or a password in a URL."""
    for secret in secrets:
        if len(secret) >= 4 and secret.lower() not in _DUMMIES:
            text = text.replace(secret, MARK)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
