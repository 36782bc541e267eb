"""The one registry of what a person can do: it feeds keys, palette, slash commands, help and footer (spec 21).

An action's id is also its name under `[keys]` in the configuration. What it does is the method `do_<id>` of the place
in `commands` that has its scope.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from textual.binding import Binding, BindingType

from durable_tui.ui.matching import Query

Scope = Literal["app", "main", "composer", "transcript", "inbox", "tasks", "recovery", "live", "sessions"]
Tier = Literal["any", "session", "parked"]


@dataclass(slots=True, frozen=True)
class Action:
    """`keys` in Textual's names; `tier` says when it applies: always, with a session, with parked items.

    `slash` takes what follows it when `argument` names it. `footer` is its place there, 0 none.
    """

    id: str
    title: str
    help: str
    keys: str = ""
    scope: Scope = "app"
    tier: Tier = "session"
    slash: str = ""
    argument: str = ""
    footer: int = 0
    short: str = ""
    palette: bool = True
    priority: bool = False


ACTIONS: tuple[Action, ...] = (
    # the program
    Action(
        "palette",
        "Commands",
        "Find anything there is to do",
        "ctrl+p",
        tier="any",
        footer=1,
        short="palette",
        palette=False,
        priority=True,
    ),
    Action(
        "sessions",
        "Sessions",
        "Switch to another session",
        "ctrl+o",
        tier="any",
        slash="sessions",
        footer=7,
        short="sessions",
        priority=True,
    ),
    Action("new", "New session", "Start a session in this directory", tier="any", slash="new"),
    Action("help", "Help", "Keys and commands", "f1", tier="any", slash="help", footer=8, short="help", priority=True),
    Action(
        "model",
        "Choose model",
        "Which model answers from the next request on",
        slash="model",
        argument="PROVIDER/MODEL",
    ),
    Action(
        "thinking",
        "Thinking",
        "How much the model thinks from the next request on",
        "ctrl+r",
        slash="thinking",
        argument="LEVEL",
        priority=True,
    ),
    Action("usage", "Usage", "Tokens and cost of this conversation", slash="usage"),
    Action("rename", "Rename", "Give this session a title", slash="rename", argument="TITLE"),
    Action("theme", "Theme", "Change the colours", tier="any", slash="theme", argument="NAME"),
    Action(
        "quit",
        "Quit",
        "Close in order; work goes on at the next open",
        "ctrl+q",
        tier="any",
        slash="quit",
        priority=True,
    ),
    Action(
        "interrupt",
        "Copy, clear or quit",
        "Copies a selection, else clears the message (Up brings it back), else quits when pressed twice",
        "ctrl+c,super+c",
        tier="any",
        palette=False,
        priority=True,
    ),
    Action("suspend", "Suspend", "Back to the shell; `fg` returns", "ctrl+z", tier="any", palette=False, priority=True),
    # the run
    Action(
        "stop",
        "Stop the run",
        "Stops what runs; what waits is kept, parked",
        "escape",
        scope="main",
        tier="any",
        slash="stop",
        priority=True,
    ),
    Action("release", "Release", "Sends the first parked message on its way", tier="parked", slash="release"),
    Action("resume", "Start", "Starts what was found unfinished (after --paused)", tier="session", slash="resume"),
    Action("retry", "Retry parked tasks", "Lets go on what is parked or waits for you", tier="session", slash="retry"),
    # panels
    Action("live", "Live panel", "What runs right now", "f2", tier="any", footer=2, short="live", priority=True),
    Action("inbox", "Inbox panel", "What waits its turn", "f3", tier="any", footer=3, short="inbox", priority=True),
    Action(
        "tasks",
        "Tasks panel",
        "All tasks and what each waits for",
        "f4",
        tier="any",
        footer=4,
        short="tasks",
        priority=True,
    ),
    Action(
        "recoveries",
        "Recoveries",
        "What was interrupted, and what was decided",
        "f6",
        tier="any",
        slash="recoveries",
        footer=5,
        short="recoveries",
        priority=True,
    ),
    Action(
        "transcript",
        "Transcript",
        "Move in what was said",
        "f7",
        tier="any",
        priority=True,
    ),
    Action("composer", "Composer", "Back to writing", "f8", tier="any", palette=False, priority=True),
    # the composer
    Action(
        "send",
        "Send",
        "Sends; while something runs, steers it at the next step",
        "enter",
        scope="composer",
        palette=False,
    ),
    Action(
        "follow_up",
        "Send as follow-up",
        "Queues for after the answer",
        "alt+enter,ctrl+j",
        scope="composer",
        palette=False,
    ),
    Action(
        "newline",
        "New line",
        "Also a \\ at the end of a line and Enter",
        "shift+enter",
        scope="composer",
        palette=False,
    ),
    Action(
        "edit_last",
        "Edit last queued",
        "Takes the last queued message back for editing",
        "alt+up",
        scope="composer",
        palette=False,
    ),
    Action(
        "history_back",
        "Older message",
        "On the first line: earlier drafts and messages",
        "up",
        scope="composer",
        palette=False,
    ),
    Action(
        "history_forward",
        "Newer message",
        "On the last line: back towards the draft",
        "down",
        scope="composer",
        palette=False,
    ),
    Action(
        "paste_image",
        "Paste image",
        "Attaches the image on the clipboard",
        "alt+v",
        scope="composer",
        slash="paste-image",
    ),
    Action("complete", "Complete", "Takes the suggestion", "tab", scope="composer", palette=False),
    Action(
        "undo",
        "Undo",
        "Undoes the last change of the message",
        "ctrl+underscore,ctrl+shift+minus,ctrl+minus",
        scope="composer",
        palette=False,
    ),
    Action("quit_empty", "Quit", "On an empty message", "ctrl+d", scope="composer", palette=False),
    Action(
        "page_up",
        "Scroll up",
        "Scrolls the transcript while writing",
        "pageup",
        scope="composer",
        palette=False,
    ),
    Action(
        "page_down",
        "Scroll down",
        "Scrolls the transcript while writing",
        "pagedown",
        scope="composer",
        palette=False,
    ),
    # the transcript
    Action("line_up", "Up", "To the tool call above, or one line", "up,k", scope="transcript", palette=False),
    Action("line_down", "Down", "To the tool call below, or one line", "down,j", scope="transcript", palette=False),
    Action(
        "fold", "Fold or unfold", "Shows or hides what a call did", "enter,space", scope="transcript", palette=False
    ),
    Action("fold_all", "Fold all", "Folds all calls, or unfolds those in view", "z", scope="transcript"),
    Action(
        "question_back", "Previous question", "Jumps to what you said before", "left_curly_bracket", scope="transcript"
    ),
    Action("question_on", "Next question", "Jumps to what you said next", "right_curly_bracket", scope="transcript"),
    Action("copy_entry", "Copy entry", "Copies the message or call as it was written", "y", scope="transcript"),
    Action("scroll_up", "Page up", "One screen back", "pageup,ctrl+b", scope="transcript", palette=False),
    Action("scroll_down", "Page down", "One screen on", "pagedown,ctrl+f", scope="transcript", palette=False),
    Action("scroll_top", "Top", "To the oldest that is loaded", "home,g", scope="transcript", palette=False),
    Action("scroll_end", "End", "To the newest; follows again", "end,G", scope="transcript", palette=False),
    # the inbox
    Action("item_send", "Send", "Releases a parked message", "enter", scope="inbox", palette=False),
    Action("item_edit", "Edit", "Takes the message back into the composer", "e", scope="inbox", palette=False),
    Action("item_drop", "Drop", "Withdraws the message", "x,delete", scope="inbox", palette=False),
    Action("item_promote", "Promote", "Makes a follow-up a steer", "p", scope="inbox", palette=False),
    Action("item_up", "Move up", "Earlier in the queue", "K,shift+up", scope="inbox", palette=False),
    Action("item_down", "Move down", "Later in the queue", "J,shift+down", scope="inbox", palette=False),
    # tasks and recoveries
    Action("task_abort", "Stop task", "Marks the task for abort", "x", scope="tasks", palette=False),
    Action("task_retry", "Retry task", "Lets go on what is parked or waits for you", "r", scope="tasks", palette=False),
    Action("why", "Why?", "Explains a verdict", "enter", scope="recovery", palette=False),
    Action("fold_card", "Fold card", "Folds the recovery card to one line", "x", scope="recovery", palette=False),
)

BY_ID = {action.id: action for action in ACTIONS}
SLASHES = {action.slash: action for action in ACTIONS if action.slash}

_NAMES = {
    "ctrl": "Ctrl", "alt": "Alt", "shift": "Shift", "super": "Super", "enter": "Enter", "escape": "Esc", "up": "Up",
    "down": "Down", "pageup": "PgUp", "pagedown": "PgDn", "home": "Home", "end": "End", "space": "Space", "tab": "Tab",
    "delete": "Del", "left_curly_bracket": "{", "right_curly_bracket": "}", "underscore": "_", "minus": "-",
    "question_mark": "?", "backspace": "Backspace",
}  # fmt: skip


def bindings(scope: Scope) -> list[BindingType]:
    """The bindings of a widget or screen; each id is the action's, so that `[keys]` can rebind it."""
    return [
        Binding(
            action.keys, f"app.act('{action.id}')", action.title, show=False, id=action.id, priority=action.priority
        )
        for action in ACTIONS
        if action.scope == scope and action.keys
    ]


def key_label(key: str, *, short: bool = False) -> str:
    """A key for people: `Ctrl+P`, or `^P` when short."""
    *modifiers, last = key.split("+")
    name = _NAMES.get(last, last.upper() if len(last) > 1 or modifiers else last)
    if short and modifiers == ["ctrl"]:
        return f"^{name}"
    return "+".join([*(_NAMES.get(part, part) for part in modifiers), name])


def keys_of(action: Action, keymap: dict[str, str] | None = None) -> list[str]:
    """The keys in force, the configuration's before ours."""
    return [key.strip() for key in (keymap or {}).get(action.id, action.keys).split(",") if key.strip()]


def first_key(name: str, keymap: dict[str, str] | None = None) -> str:
    """How the first key in force of an action is called, "" when it has none."""
    return next((key_label(key) for key in keys_of(BY_ID[name], keymap)), "")


def action_of(key: str, scope: Scope, keymap: dict[str, str]) -> Action | None:
    """What a key does in a place; one the configuration gave to an action is taken from the others."""
    found = [action for action in ACTIONS if action.scope == scope and key in keys_of(action, keymap)]
    return next((action for action in found if action.id in keymap), found[0] if found else None)


def check_keymap(keymap: dict[str, str]) -> list[str]:
    """What is wrong with the `[keys]` of a configuration, one sentence each."""
    problems = []
    for name, keys in keymap.items():
        if name not in BY_ID:
            problems.append(f"keys.{name}: no action is called that; known are {', '.join(sorted(BY_ID))}")
        elif not str(keys).strip() or keys != str(keys):
            problems.append(f'keys.{name}: must be a text such as "ctrl+p"')
    return problems


def slash(text: str) -> tuple[Action, str] | None:
    """(action, argument) when the text is a slash command we know; None for anything else."""
    if not text.startswith("/") or "\n" in text.strip():
        return None
    name, _, argument = text[1:].strip().partition(" ")
    action = SLASHES.get(name)
    return (action, argument.strip()) if action else None


def complete_slash(text: str) -> list[Action]:
    """The commands a half-typed `/na` may become."""
    if not text.startswith("/") or " " in text or "\n" in text:
        return []
    return [action for name, action in sorted(SLASHES.items()) if name.startswith(text[1:])]


def fuzzy(query: str, actions: Iterable[Action]) -> list[Action]:
    """Actions whose title holds the characters of the query, or whose title, help or slash name holds every word of it."""
    words, typed = query.lower().split(), Query(query)
    return [
        action
        for action in actions
        if typed.matches(action.title)
        or all(word in f"{action.title} {action.help} /{action.slash}".lower() for word in words)
    ]
