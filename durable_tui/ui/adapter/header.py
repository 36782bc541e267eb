"""What the header says: title, directory, model, state, context, cost, commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from durable_tui.models.usage import cost_text, total_usage
from durable_tui.ui.adapter import words

State = Literal["opening", "idle", "busy", "waiting", "retrying", "stopping", "parked", "paused", "reading", "problem"]

STATES: dict[State, tuple[str, str, str]] = {  # glyph, word, tone
    "opening": ("busy", "opening", "live"),
    "idle": ("clean", "ready", "dim"),
    "busy": ("running", "running", "good"),
    "waiting": ("running", "waiting", "good"),
    "retrying": ("running", "retrying", "attention"),
    "stopping": ("running", "stopping", "attention"),
    "parked": ("interrupted", "parked", "attention"),
    "paused": ("interrupted", "paused", "attention"),
    "reading": ("clean", "read-only", "attention"),
    "problem": ("failed", "not saved", "failed"),
}


@dataclass(slots=True, frozen=True)
class Header:
    """Texts ready to show; "" leaves a part out."""

    title: str = ""
    cwd: str = ""
    model: str = ""
    thinking: str = ""  # not when it is off
    state: State = "opening"
    context: str = ""
    cost: str = ""
    seq: int = 0


def title_of(view: Mapping[str, Any], first_said: str = "") -> str:
    title = (view.get("session") or {}).get("title")
    return str(title) if title else (first_said or "new session")


def model_of(view: Mapping[str, Any]) -> str:
    model = (view.get("agent") or {}).get("model")
    if isinstance(model, Mapping):
        return f"{model.get('provider', '')}/{model.get('modelId', '')}"
    return str(model or "")


def thinking_of(view: Mapping[str, Any]) -> str:
    level = (view.get("agent") or {}).get("thinkingLevel")
    return "" if level in (None, "off") else str(level)


def context_of(view: Mapping[str, Any]) -> str:
    """`23 % of 128k`, or the tokens alone where the window is not known."""
    context = view.get("context") or {}
    used = context.get("tokens")
    if used is None:
        return ""
    window = context.get("window")
    if window:
        return f"{round(100 * used / window)} % of {words.tokens(int(window))}"
    return f"{words.tokens(int(used))} tokens"


def cost_of(view: Mapping[str, Any], at_least: str = "≥") -> str:
    """The conversation's cost; `cost n/a` when tokens were used at an unknown price."""
    return cost_words(total_usage([view.get("usage")]), at_least)


def cost_words(usage: Mapping[str, Any], at_least: str) -> str:
    """A cost that stands alone: `$0.012`, `≥ $0.012`, `cost n/a`, "" when nothing was used."""
    text = cost_text(usage, at_least)
    return f"cost {text}" if text == "n/a" else text


def state_of(
    view: Mapping[str, Any],
    tasks: Mapping[int, Mapping[str, Any]],
    *,
    paused: bool = False,
    problem: bool = False,
    reading: bool = False,
    stopping: bool = False,
) -> State:
    """What the conversation is doing, the worst thing first."""
    if problem:
        return "problem"
    run = view.get("run")
    if reading and not run:
        return "reading"
    if paused:
        return "paused"
    if run:
        task = tasks.get(run.get("taskId", 0), {})
        if stopping or task.get("abortRequested"):
            return "stopping"
        generation = view.get("generation") or {}
        if generation.get("retry"):
            return "retrying"
        if generation.get("deferred"):
            return "waiting"
        return "busy"
    if any(item.get("parked") for item in (view.get("inbox") or {}).get("items") or ()):
        return "parked"
    return "idle"
