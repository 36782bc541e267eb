"""The providers known without any configuration, and how each departs from OpenAI's Chat Completions. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

OPENAI_CHAT = "openai-chat"
SCRIPTED = "scripted"
APIS_LATER = frozenset({"openai-responses", "anthropic"})


@dataclass(slots=True, frozen=True)
class Effort:
    """For models whose id matches `models` (a regular expression): what each thinking level is called there."""

    models: str
    levels: dict[str, str]


@dataclass(slots=True, frozen=True)
class Quirks:
    """Departures from plain Chat Completions. The defaults suit an unknown compatible server.

    `max_tokens_field` names the limit of output tokens; `stream_usage` sends `stream_options`; `echo_reasoning` says when
    reasoning goes back to the provider it came from (`calls`: always on messages with tool calls, empty if unknown);
    `call_ids` is the form that ids must have; `filler_after_tool` puts an assistant message between a tool result and
    a user message; `thought_signatures` marks calls from elsewhere so that Gemini accepts them; `effort_field` is where
    the thinking level goes (`reasoning` = an object); `session_field` and `session_header` carry the session id.
    """

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_usage: bool = True
    echo_reasoning: Literal["same", "calls", "never"] = "same"
    call_ids: Literal["plain", "alnum9"] = "plain"
    filler_after_tool: bool = False
    thought_signatures: bool = False
    effort: tuple[Effort, ...] = ()
    effort_field: Literal["reasoning_effort", "reasoning"] = "reasoning_effort"
    session_field: str | None = None
    session_header: str | None = None
    read_timeout: float | None = None


@dataclass(slots=True, frozen=True)
class Known:
    """A provider that works from its key variable, or from its usual local port without one."""

    name: str
    base_url: str
    default_model: str | None
    key_env: str
    base_url_env: str
    api: str = OPENAI_CHAT
    local: bool = False
    quirks: Quirks = field(default_factory=Quirks)


def _levels(minimal: str, low: str, medium: str, high: str, xhigh: str) -> dict[str, str]:
    return {"minimal": minimal, "low": low, "medium": medium, "high": high, "xhigh": xhigh}


_THREE = _levels("low", "low", "medium", "high", "high")
_OPEN_WEIGHT = (Effort(r"gpt-oss", _THREE),)
# A local server may read a long prompt for minutes before its first byte.
_LOCAL = Quirks(effort=_OPEN_WEIGHT, read_timeout=900.0)

KNOWN: dict[str, Known] = {
    known.name: known
    for known in (
        Known(
            "openai",
            "https://api.openai.com/v1",
            "gpt-5.2",
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            quirks=Quirks(
                max_tokens_field="max_completion_tokens",
                effort=(
                    Effort(r"^gpt-5\.[2-9]", _levels("low", "low", "medium", "high", "xhigh")),
                    Effort(r"^(?:gpt-5|o\d)", _THREE),
                ),
                session_field="prompt_cache_key",
            ),
        ),
        Known(
            "anthropic",
            "https://api.anthropic.com",
            "claude-sonnet-4-5",
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL",
            api="anthropic",
        ),
        Known(
            "deepseek",
            "https://api.deepseek.com/v1",
            "deepseek-chat",
            "DEEPSEEK_API_KEY",
            "DEEPSEEK_BASE_URL",
            quirks=Quirks(echo_reasoning="calls"),
        ),
        Known(
            "openrouter",
            "https://openrouter.ai/api/v1",
            "openrouter/auto",
            "OPENROUTER_API_KEY",
            "OPENROUTER_BASE_URL",
            quirks=Quirks(effort=(Effort(r".", _THREE),), effort_field="reasoning"),
        ),
        Known(
            "groq",
            "https://api.groq.com/openai/v1",
            "openai/gpt-oss-120b",
            "GROQ_API_KEY",
            "GROQ_BASE_URL",
            quirks=Quirks(effort=_OPEN_WEIGHT),
        ),
        Known(
            "mistral",
            "https://api.mistral.ai/v1",
            "mistral-large-latest",
            "MISTRAL_API_KEY",
            "MISTRAL_BASE_URL",
            # Refuses every field it does not know, stream_options and reasoning_content included.
            quirks=Quirks(stream_usage=False, echo_reasoning="never", call_ids="alnum9", filler_after_tool=True),
        ),
        Known(
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            "gemini-2.5-flash",
            "GEMINI_API_KEY",
            "GEMINI_BASE_URL",
            quirks=Quirks(
                effort=(Effort(r"gemini-(?:2\.5|[3-9])", _THREE),), echo_reasoning="never", thought_signatures=True
            ),
        ),
        Known(
            "xai",
            "https://api.x.ai/v1",
            "grok-4",
            "XAI_API_KEY",
            "XAI_BASE_URL",
            quirks=Quirks(
                effort=(Effort(r"^grok-3-mini", _levels("low", "low", "high", "high", "high")),),
                session_header="x-grok-conv-id",
            ),
        ),
        Known(
            "ollama", "http://127.0.0.1:11434/v1", None, "OLLAMA_API_KEY", "OLLAMA_BASE_URL", local=True, quirks=_LOCAL
        ),
        Known(
            "llama.cpp",
            "http://127.0.0.1:8080/v1",
            None,
            "LLAMA_CPP_API_KEY",
            "LLAMA_CPP_BASE_URL",
            local=True,
            quirks=_LOCAL,
        ),
        Known(
            "lmstudio",
            "http://127.0.0.1:1234/v1",
            None,
            "LMSTUDIO_API_KEY",
            "LMSTUDIO_BASE_URL",
            local=True,
            quirks=_LOCAL,
        ),
        Known("vllm", "http://127.0.0.1:8000/v1", None, "VLLM_API_KEY", "VLLM_BASE_URL", local=True, quirks=_LOCAL),
    )
}

KEY_VARIABLES: frozenset[str] = frozenset(known.key_env for known in KNOWN.values())
