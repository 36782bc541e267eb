"""What the header says: title, directory, model, state, context, cost, commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from durable_tui.models.usage import cost_text, total_usage
from durable_tui.ui.adapter import words

if TYPE_CHECKING:
    from durable_tui.models.messages import Usage
    from durable_tui.views.shapes import ConversationView, TaskRow

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


def title_of(view: ConversationView, first_said: str = "") -> str:
    return view["session"].get("title") or first_said or "new session"


def model_of(view: ConversationView) -> str:
    model = view["agent"].get("model")
    return f"{model['provider']}/{model['modelId']}" if model else ""


def thinking_of(view: ConversationView) -> str:
    level = view["agent"].get("thinkingLevel", "off")
    return "" if level == "off" else level


def context_of(view: ConversationView) -> str:
    """`23 % of 128k`, or the tokens alone where the window is not known."""
    context = view.get("context")
    if context is None:
        return ""
    used, window = context["tokens"], context["window"]
    if window:
        return f"{round(100 * used / window)} % of {words.tokens(window)}"
    return f"{words.tokens(used)} tokens"


def cost_of(view: ConversationView, at_least: str = "≥") -> str:
    """The conversation's cost; `cost n/a` when tokens were used at an unknown price."""
    return cost_words(total_usage([view["usage"]]), at_least)


def cost_words(usage: Usage, at_least: str) -> str:
    """A cost that stands alone: `$0.012`, `≥ $0.012`, `cost n/a`, "" when nothing was used."""
    text = cost_text(usage, at_least)
    return f"cost {text}" if text == "n/a" else text


def state_of(
    view: ConversationView,
    tasks: Mapping[int, TaskRow],
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
        task = tasks.get(run["taskId"])
        if stopping or (task is not None and task["abortRequested"]):
            return "stopping"
        generation = view.get("generation")
        if generation is not None and "retry" in generation:
            return "retrying"
        if generation is not None and "deferred" in generation:
            return "waiting"
        return "busy"
    if any(item.get("parked") for item in view["inbox"]["items"]):
        return "parked"
    return "idle"
