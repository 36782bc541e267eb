"""The environment variables a command gets: the owner's without provider keys, with marks to find it again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

TASK_MARK = "DURABLE_TUI_TASK"
SESSION_MARK = "DURABLE_TUI_SESSION"
RUN_MARK = "DURABLE_TUI_RUN"  # one command's own
MARKS = (TASK_MARK, SESSION_MARK, RUN_MARK)

# The known providers (spec 20), and the names their keys go by.
_PROVIDERS = (
    "OPENAI|AZURE_OPENAI|ANTHROPIC|CLAUDE|DEEPSEEK|OPENROUTER|GROQ|MISTRAL|GEMINI|GOOGLE|GOOGLE_GENAI|GOOGLE_GENERATIVE_AI|"
    "XAI|GROK|OLLAMA|LLAMA|LLAMA_CPP|LLAMACPP|LMSTUDIO|LM_STUDIO|VLLM"
)
_PROVIDER_KEY = re.compile(rf"(?:{_PROVIDERS})_(?:[A-Z0-9]+_)*(?:API_KEY|APIKEY|TOKEN)")

_FIXED = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",  # a password prompt could never be answered
    "TERM": "dumb",
}


def is_provider_key(name: str) -> bool:
    """Whether a variable holds a known provider's key."""
    return _PROVIDER_KEY.fullmatch(name.upper()) is not None


def command_variables(
    inherited: Mapping[str, str],
    *,
    cwd: str,
    marks: Mapping[str, str],
    secrets: Iterable[str] = (),
) -> dict[str, str]:
    """Return the variables a command sees. `secrets` names more variables to leave out (configured key variables)."""
    hidden = {name.upper() for name in secrets}
    variables = {
        name: value
        for name, value in inherited.items()
        if name.upper() not in hidden and not is_provider_key(name) and name not in MARKS
    }
    return {**variables, **_FIXED, "PWD": cwd, **marks}
