"""The providers known without any configuration, and how each departs from the protocol it speaks. Data only."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, TypedDict

OPENAI_CHAT = "openai-chat"
OPENAI_RESPONSES = "openai-responses"
ANTHROPIC = "anthropic"
SCRIPTED = "scripted"
APIS = (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC)

Auth = Literal["bearer", "x-api-key", "api-key"]


@dataclass(slots=True, frozen=True)
class Effort:
    """For models whose id matches `models` (a regular expression): what each thinking level is called there.

    Without a name for `off` the field is left out, and the model thinks as it does by itself.
    """

    models: str
    levels: dict[str, str]


@dataclass(slots=True, frozen=True)
class Thinking:
    """Anthropic's thinking for models whose id matches `models`: `budget` in tokens by level, or `adaptive` effort names.

    The effort of `off` is the least of models that always think. Else `off` says how they are told not to: `omit` sends
    nothing to those that do not think by themselves; None sends nothing and what follows is unknown. `sampling` says
    whether temperature and top_p are taken. `bound` models check that nothing changed before thinking that comes back.
    """

    models: str
    budget: dict[str, int] | None = None
    adaptive: dict[str, str] | None = None
    off: Literal["omit", "disabled", "between_tools"] | None = None
    sampling: bool = True
    bound: bool = False


_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 32768}
_BUDGET = Thinking(r".", budget=_BUDGETS)


@dataclass(slots=True, frozen=True)
class Quirks:
    """Departures from the plain protocol. The defaults suit an unknown compatible server.

    Chat Completions: `max_tokens_field` names the limit of output tokens; `stream_usage` sends `stream_options`;
    `echo_reasoning` says when reasoning goes back to the provider it came from (`calls`: always on messages with tool
    calls, empty if unknown); `filler_after_tool` puts an assistant message between a tool result and a user message;
    `thought_signatures` marks calls from elsewhere so that Gemini accepts them; `effort_field` is where the thinking
    level goes (`reasoning` = an object); `cache_control` marks the prompt's stable parts for models that match.
    Responses: `encrypted_reasoning` asks for reasoning that can be sent back, `reasoning_summary` for one to show.
    Anthropic: `thinking` by model; `binding` says what becomes of thinking that is bound to a changed prompt, and
    `echo_thinking` sends signed thinking back.
    All: `call_ids` is the form that ids must have; `session_field` and `session_header` carry the session id;
    `auth` is the header with the key; `read_timeout` is in seconds.
    """

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_usage: bool = True
    echo_reasoning: Literal["same", "calls", "never"] = "same"
    call_ids: Literal["plain", "alnum9"] = "plain"
    filler_after_tool: bool = False
    thought_signatures: bool = False
    effort: tuple[Effort, ...] = ()
    effort_field: Literal["reasoning_effort", "reasoning"] = "reasoning_effort"
    cache_control: str | None = None
    encrypted_reasoning: bool = True
    reasoning_summary: bool = True
    thinking: tuple[Thinking, ...] = (_BUDGET,)
    binding: bool = True
    echo_thinking: bool = True
    session_field: Literal["prompt_cache_key"] | None = None
    session_header: str | None = None
    auth: Auth = "bearer"
    read_timeout: float | None = None

    def key_header(self, key: str) -> dict[str, str]:
        """The header that a key goes in; none without a key."""
        if not key:
            return {}
        return {"authorization": f"Bearer {key}"} if self.auth == "bearer" else {self.auth: key}

    def effort_for(self, model_id: str, level: str) -> str | None:
        """Return the name of a thinking level for a model; None when it is not to be sent."""
        for effort in self.effort:
            if re.search(effort.models, model_id):
                return effort.levels.get(level)
        return None

    def thinking_for(self, model_id: str) -> Thinking | None:
        """Return how a model of the Anthropic protocol is told to think."""
        return next((thinking for thinking in self.thinking if re.search(thinking.models, model_id)), None)


class QuirkChanges(TypedDict, total=False):
    """Those fields of `Quirks` that a refusal can change."""

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"]
    stream_usage: bool
    echo_reasoning: Literal["same", "calls", "never"]
    effort: tuple[Effort, ...]
    encrypted_reasoning: bool
    reasoning_summary: bool
    binding: bool
    echo_thinking: bool


@dataclass(slots=True, frozen=True)
class Refusal:
    """A request refused (400) in words that match `wording` is sent again with other quirks; `note` tells what is new."""

    wording: str
    quirks: QuirkChanges
    note: str


REFUSALS: dict[str, tuple[Refusal, ...]] = {
    OPENAI_CHAT: (
        Refusal(r"reasoning_content.{0,60}must be", {"echo_reasoning": "calls"}, "with earlier reasoning"),
        Refusal(r"reasoning_(?:content|details)", {"echo_reasoning": "never"}, "without earlier reasoning"),
        Refusal(r"stream_options", {"stream_usage": False}, "without a wish for usage"),
        Refusal(r"max_completion_tokens.{0,3} instead", {"max_tokens_field": "max_completion_tokens"}, "with its limit"),
        Refusal(r"reasoning[_ ]effort", {"effort": ()}, "without a thinking level"),
    ),
    OPENAI_RESPONSES: (
        # Reasoning that cannot be read any more, as after a change of keys, or of a model that has none.
        Refusal(r"encrypted[ _]content", {"encrypted_reasoning": False}, "without earlier reasoning"),
        # OpenAI gives them to verified organizations only.
        Refusal(r"reasoning summar|reasoning\.summary", {"reasoning_summary": False}, "without summaries"),
    ),
    ANTHROPIC: (
        # Gateways may know the plain protocol only.
        Refusal(r"block_binding|thinking-binding|anthropic-beta", {"binding": False}, "without bound thinking"),
        Refusal(r"(?:signature|modified).{0,80}thinking|thinking.{0,80}(?:signature|modified)",
                {"echo_thinking": False}, "without earlier thinking"),
    ),
}  # fmt: skip


@dataclass(slots=True, frozen=True)
class Known:
    """A provider that works from its key variable, or from its usual local port without one.

    `api_elsewhere` is what a server at another base URL is taken to speak; `start` starts a local one.
    """

    name: str
    base_url: str
    default_model: str | None
    key_env: str
    base_url_env: str
    api: str = OPENAI_CHAT
    api_elsewhere: str | None = None
    local: bool = False
    start: str = ""
    quirks: Quirks = field(default_factory=Quirks)


def _levels(minimal: str, low: str, medium: str, high: str, xhigh: str, off: str | None = None) -> dict[str, str]:
    levels = {"minimal": minimal, "low": low, "medium": medium, "high": high, "xhigh": xhigh}
    return levels if off is None else {**levels, "off": off}


_THREE = _levels("low", "low", "medium", "high", "high")
_FOUR = _levels("low", "low", "medium", "high", "xhigh")
_THREE_OR_NONE = _levels("low", "low", "medium", "high", "high", off="none")
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
            api=OPENAI_RESPONSES,
            api_elsewhere=OPENAI_CHAT,  # gateways and compatible servers mostly know only that
            quirks=Quirks(
                max_tokens_field="max_completion_tokens",
                effort=(
                    Effort(r"^gpt-5(?:\.\d+)?-pro", {}),  # one effort only, which varies
                    Effort(r"^gpt-5\.\d+-codex", _FOUR),
                    Effort(r"^gpt-5\.1", _THREE_OR_NONE),
                    Effort(r"^gpt-(?:5\.[2-9]|[6-9])", _levels("low", "low", "medium", "high", "xhigh", off="none")),
                    Effort(r"^gpt-5", _levels("minimal", "low", "medium", "high", "high", off="minimal")),
                    Effort(r"^o\d", _THREE),
                ),
                session_field="prompt_cache_key",
            ),
        ),
        Known(
            "anthropic",
            "https://api.anthropic.com",
            "claude-sonnet-5-5",
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL",
            api=ANTHROPIC,
            quirks=Quirks(
                auth="x-api-key",
                thinking=(
                    Thinking(
                        r"claude-(?:[a-z]+-)?4[-.]6(?!\d)",
                        adaptive=_levels("low", "low", "medium", "high", "max"),
                        off="omit",
                    ),
                    Thinking(r"claude-(?:[a-z]+-)?4[-.][78](?!\d)", adaptive=_FOUR, off="omit", sampling=False),
                    Thinking(
                        r"claude-(?:opus|sonnet)-5(?![-.]\d(?!\d))", adaptive=_FOUR, off="disabled", sampling=False
                    ),
                    Thinking(r"claude-sonnet-5[-.]5", adaptive=_FOUR, off="between_tools", sampling=False, bound=True),
                    Thinking(r"claude-haiku-5", adaptive=_FOUR, off="disabled", sampling=False, bound=True),
                    Thinking(
                        r"claude-(?:[a-z]+-)?(?:4[-.]9|[5-9])(?!\d)",
                        adaptive={**_FOUR, "off": "low"},
                        sampling=False,
                        bound=True,
                    ),
                    Thinking(r"claude-(?:3-(?!7)|2|instant)"),  # these do not think
                    Thinking(r"claude", budget=_BUDGETS, off="omit"),
                    _BUDGET,
                ),
            ),
        ),
        Known(
            "deepseek",
            "https://api.deepseek.com/v1",
            "deepseek-flash",
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
            quirks=Quirks(
                effort=(
                    Effort(r".", _levels("minimal", "low", "medium", "high", "xhigh")),
                ),  # some refuse to turn it off
                effort_field="reasoning",
                cache_control=r"^anthropic/",
            ),
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
            "gemini-3.8-flash",
            "GEMINI_API_KEY",
            "GEMINI_BASE_URL",
            quirks=Quirks(
                effort=(
                    Effort(r"gemini-2\.5-flash", _THREE_OR_NONE),
                    Effort(r"gemini-(?:2\.5|[3-9])", _THREE),
                ),
                echo_reasoning="never",
                thought_signatures=True,
            ),
        ),
        Known(
            "xai",
            "https://api.x.ai/v1",
            "grok-4.7",
            "XAI_API_KEY",
            "XAI_BASE_URL",
            quirks=Quirks(
                effort=(Effort(r"^grok-3-mini", _levels("low", "low", "high", "high", "high")),),
                session_header="x-grok-conv-id",
            ),
        ),
        # Ollama cuts a prompt that is too long without a word. Its counts leave out what it had cached, so nothing can be
        # concluded from them either: the window (num_ctx) is best set large there, and in `models` here.
        Known(
            "ollama",
            "http://127.0.0.1:11434/v1",
            None,
            "OLLAMA_API_KEY",
            "OLLAMA_BASE_URL",
            local=True,
            start="ollama serve",
            quirks=_LOCAL,
        ),
        Known(
            "llama.cpp",
            "http://127.0.0.1:8080/v1",
            None,
            "LLAMA_CPP_API_KEY",
            "LLAMA_CPP_BASE_URL",
            local=True,
            start="llama-server -m MODEL.gguf",
            quirks=_LOCAL,
        ),
        Known(
            "lmstudio",
            "http://127.0.0.1:1234/v1",
            None,
            "LMSTUDIO_API_KEY",
            "LMSTUDIO_BASE_URL",
            local=True,
            start="lms server start",
            quirks=_LOCAL,
        ),
        Known(
            "vllm",
            "http://127.0.0.1:8000/v1",
            None,
            "VLLM_API_KEY",
            "VLLM_BASE_URL",
            local=True,
            start="vllm serve MODEL",
            quirks=_LOCAL,
        ),
    )
}

KEY_VARIABLES: frozenset[str] = frozenset(known.key_env for known in KNOWN.values())
