"""The script `scripted/tour`: what the demo plays, and what the screen opens on when no model is configured.

It decides from the messages alone, so after any death it goes on where it was, and it says only what the tools said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from durable_tui.models.messages import Message, ToolDescription, ToolResultMessage, message_text

if TYPE_CHECKING:
    from durable_tui.delta import JsonObject
    from durable_tui.models.script import Turn

DEMO_PROMPT = "Read and fix config/dev.json: the port must be a number."
DEMO_FILE = "config/dev.json"

INTRO = (
    "I am a built-in script, not a model: I need no key and no network, and what I do here is fixed beforehand. "
    "The tools I call are real."
)
HOW_TO = (
    "For real answers set a key, such as OPENAI_API_KEY or DEEPSEEK_API_KEY, or start a local server (Ollama, llama.cpp, "
    "LM Studio, vLLM), and choose its model with --model PROVIDER/MODEL or in the palette (Ctrl+P). "
    "`durable-tui doctor` shows what it finds."
)
_TURNS = 12
_WRONG = re.compile(r'("port"\s*:\s*)"(\d+)"(,?)')
_RIGHT = re.compile(r'"port"\s*:\s*\d+')


def tour(messages: Sequence[Message], tools: Sequence[ToolDescription]) -> Turn:
    """The next turn of the tour (a script as `scripted` takes it)."""
    start = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=-1)
    prompt = message_text(messages[start]) if start >= 0 else ""
    since = messages[start + 1 :]
    first = not any(message["role"] == "assistant" for message in messages)
    offered = {tool["name"] for tool in tools}
    results = [message for message in since if message["role"] == "toolResult"]
    if len(results) > _TURNS:
        return {"text": "That is more steps than my script has; I stop here."}
    if DEMO_FILE in prompt and {"read", "edit"} <= offered:
        return _demo(results, first)
    return _look_around(results, first, "bash" in offered)


def _demo(results: Sequence[ToolResultMessage], first: bool) -> Turn:
    if not results:
        text = f"I will read {DEMO_FILE} first."
        return _read(f"{INTRO}\n\n{text}" if first else text)
    last = results[-1]
    text = message_text(last)
    interrupted = any(result.get("isError") and _is_interrupted(result) for result in results)
    if last.get("isError"):
        if _is_interrupted(last):
            return _read("That call was interrupted and may have run in part, so I look at the file before I go on.")
        return {"text": f"I stop here: {last.get('toolName')} failed and said: {_short(text)}"}
    if last.get("toolName") == "edit":
        again = (
            " The first attempt was interrupted and had changed nothing, so I made the edit again."
            if interrupted
            else ""
        )
        return {"text": f"Done: the port in {DEMO_FILE} is a number now.{again}", "delay": 0.4}
    wrong = _WRONG.search(text)
    if wrong is not None:
        edit = {"oldText": wrong.group(), "newText": f"{wrong[1]}{wrong[2]}{wrong[3]}"}
        say = (
            "The file is unchanged, so I make the edit again."
            if interrupted
            else ("The port is a string; it should be a number. I change that one line.")
        )
        return _turn(say, "edit", {"path": DEMO_FILE, "edits": [edit]})
    if _RIGHT.search(text):
        if interrupted:
            return {"text": f"Done: the interrupted edit had already been made; the port in {DEMO_FILE} is a number."}
        return {"text": f"There is nothing to fix: the port in {DEMO_FILE} already is a number."}
    return {"text": f"I find no port in {DEMO_FILE}, so I change nothing."}


def _look_around(results: Sequence[ToolResultMessage], first: bool, can_list: bool) -> Turn:
    intro = f"{INTRO}\n\n" if first else ""
    if not results:
        if not can_list:
            return {"text": f"{intro}{HOW_TO}"}
        return _turn(f"{intro}I list this directory, so that you see a tool at work.", "bash", {"command": "ls"})
    last = results[-1]
    text = message_text(last).strip()
    if last.get("isError"):
        seen = f"The command did not end well: {_short(text)}"
    else:
        lines = [line for line in text.splitlines() if line.strip()]
        seen = (
            f"`ls` printed {len(lines)} line{'' if len(lines) == 1 else 's'}. That is all my script knows to do here."
        )
    return {"text": f"{seen}\n\n{HOW_TO}", "delay": 0.4}


def _read(text: str) -> Turn:
    return _turn(text, "read", {"path": DEMO_FILE})


def _turn(text: str, name: str, arguments: JsonObject) -> Turn:
    return {"text": text, "calls": [{"name": name, "args": arguments}], "delay": 0.6}


def _is_interrupted(result: ToolResultMessage) -> bool:
    return "interrupted" in message_text(result)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 300 else text[:299] + "…"
