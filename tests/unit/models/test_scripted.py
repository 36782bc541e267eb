"""The scripted provider and the tour (spec 20)."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from durable_tui.models import Deferred, Finished, ModelError, ModelRequest, Models, ScriptedProvider, register_script
from durable_tui.models.provider import BlockDelta, Model
from durable_tui.models.scripted import PAST_THE_END, script_names
from durable_tui.models.tour import DEMO_PROMPT, INTRO, tour

TOOLS = [{"name": name, "description": "", "parameters": {}} for name in ("read", "write", "edit", "bash")]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text, "timestamp": 1}


def result(call: dict[str, Any], text: str, error: bool = False) -> dict[str, Any]:
    return {"role": "toolResult", "toolCallId": call["id"], "toolName": call["name"], "content": [{"type": "text", "text": text}],
            "isError": error}  # fmt: skip


async def ask(
    provider: ScriptedProvider, messages: list[dict[str, Any]], script: str = "s"
) -> tuple[dict[str, Any], list[Any]]:
    request = ModelRequest(Model(provider.name, script, "scripted"), "sys", messages, TOOLS, session_id="x")
    events = [event async for event in provider.stream(request)]
    assert isinstance(events[-1], Finished)
    return dict(events[-1].message), events


def calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for block in message["content"] if block["type"] == "toolCall"]


def text(message: dict[str, Any]) -> str:
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


async def test_turns_follow_the_answers_since_the_last_input() -> None:
    script = [
        {"thinking": "hm", "text": "I look at it.", "calls": [{"name": "read", "args": {"path": "a"}}]},
        {"text": "Done."},
    ]
    provider = ScriptedProvider(scripts={"s": script})
    messages = [user("one")]
    first, events = await ask(provider, messages)
    assert first["stopReason"] == "toolUse" and [b["type"] for b in first["content"]] == [
        "thinking",
        "text",
        "toolCall",
    ]
    assert calls(first)[0]["arguments"] == {"path": "a"} and len([e for e in events if isinstance(e, BlockDelta)]) > 4
    assert "".join(e.text for e in events if isinstance(e, BlockDelta) and e.index == 1) == "I look at it."
    assert first["usage"]["input"] > 0 and "cost" not in first["usage"]
    messages += [first, result(calls(first)[0], "x")]
    second, _ = await ask(provider, messages)
    assert (text(second), second["stopReason"]) == ("Done.", "stop")
    failed = {**second, "stopReason": "error"}
    assert text((await ask(provider, [*messages, failed]))[0]) == "Done."
    messages.append(second)
    assert text((await ask(provider, messages))[0]) == PAST_THE_END
    again, _ = await ask(provider, [*messages, user("two")])
    assert text(again) == "I look at it." and calls(again)[0]["id"] != calls(first)[0]["id"]


async def test_the_same_request_makes_the_same_calls_and_ids_differ_in_a_turn() -> None:
    provider = ScriptedProvider(scripts={"s": [{"calls": [{"name": "bash"}, {"name": "bash"}]}]})
    one, two = (await ask(provider, [user("u")]))[0], (await ask(provider, [user("u")]))[0]
    assert [c["id"] for c in calls(one)] == [c["id"] for c in calls(two)]
    assert len({c["id"] for c in calls(one)}) == 2 and calls(one)[0]["arguments"] == {}


async def test_errors_come_after_the_text_and_at_every_attempt() -> None:
    error = {"message": "busy", "kind": "rate_limit", "status": 429, "retry_after": 2}
    provider = ScriptedProvider(scripts={"s": [{"text": "par tial", "error": error}], "t": [{"error": "broken"}]})
    for _ in range(2):
        seen = []
        with pytest.raises(ModelError) as caught:
            async for event in provider.stream(ModelRequest(Model("scripted", "s", "scripted"), "", [user("u")])):
                seen.append(event)
        assert (caught.value.kind, caught.value.status, caught.value.retry_after) == ("rate_limit", 429, 2)
        assert len(seen) == 3
    with pytest.raises(ModelError, match="broken") as caught:
        await ask(provider, [user("u")], "t")
    assert caught.value.kind == "server"


async def test_delay_is_spread_over_the_turn() -> None:
    provider = ScriptedProvider(scripts={"s": [{"text": "a b c d", "delay": 0.2}], "t": [{"delay": 0.1}]})
    for name, least in (("s", 0.19), ("t", 0.09)):
        start = time.monotonic()
        await ask(provider, [user("u")], name)
        assert time.monotonic() - start >= least


async def test_a_script_from_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "turns.json"
    path.write_text(json.dumps([{"text": "one"}]))
    models = Models.from_env({}, {"local": {"api": "scripted", "script": "turns.json"}}, home=tmp_path)
    assert models.problem("local/any") is None
    request = ModelRequest(models.resolve("local/any"), "", [user("u")])
    assert [e async for e in models.stream(request)][-1].message["content"][0]["text"] == "one"  # type: ignore[union-attr]
    path.write_text(json.dumps([{"text": "second"}]))
    assert [e async for e in models.stream(request)][-1].message["content"][0]["text"] == "second"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "content",
    [
        None,
        "{",
        "{}",
        '[{"txt": "a"}]',
        '[{"text": 1}]',
        '[{"delay": -1}]',
        '[{"calls": [{}]}]',
        '[{"error": {"kind": "x"}}]',
        "[3]",
    ],
)
def test_a_bad_script_is_a_configuration_error_that_says_why(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "turns.json"
    if content is not None:
        path.write_text(content)
    problem = Models.from_env({}, {"local": {"api": "scripted", "script": str(path)}}).problem("local/x")
    assert problem is not None and str(path) in problem


def test_scripts_are_registered_by_name() -> None:
    register_script("mine-for-a-test", [{"text": "x"}])
    assert {"tour", "mine-for-a-test"} <= set(script_names())
    models = Models.from_env({})
    assert models.problem("scripted/mine-for-a-test") is None
    assert "tour" in (models.problem("scripted/none") or "")
    with pytest.raises(ValueError, match="unknown key"):
        register_script("bad", [{"says": "x"}])


def play(messages: list[dict[str, Any]], turn: dict[str, Any], *results: tuple[str, bool]) -> list[dict[str, Any]]:
    made = [{"type": "toolCall", "id": f"{len(messages)}{i}", "name": c["name"], "arguments": c["args"]}
            for i, c in enumerate(turn.get("calls", []))]  # fmt: skip
    messages = [*messages, {"role": "assistant", "content": [{"type": "text", "text": turn["text"]}, *made]}]
    return messages + [result(call, *given) for call, given in zip(made, results, strict=True)]


async def test_a_deferred_turn_is_made_in_the_background_and_another_process_can_ask_on() -> None:
    script = [{"text": "made", "calls": [{"name": "read"}], "defer": {"polls": 2, "after": 1.5}}]
    handle: dict[str, Any] = {}
    seen = []
    for step in ("stream", "poll", "poll", "poll"):
        models = Models([ScriptedProvider(scripts={"s": script})])  # a new one each time, as after a death
        request = ModelRequest(models.resolve("scripted/s"), "", [user("go")], TOOLS)
        events = models.stream(request) if step == "stream" else models.poll(request, handle)
        seen.append([event async for event in events])
        if isinstance(seen[-1][-1], Deferred):
            assert seen[-1] == [seen[-1][-1]] and seen[-1][-1].after == 1.5
            handle = json.loads(json.dumps(seen[-1][-1].handle))
        await models.cancel("scripted", handle)
    assert [isinstance(events[-1], Deferred) for events in seen] == [True, True, True, False]
    at_once = [{key: value for key, value in turn.items() if key != "defer"} for turn in script]
    message, events = await ask(ScriptedProvider(scripts={"s": at_once}), [user("go")])
    assert text(seen[-1][-1].message) == text(message) == "made" and len(seen[-1]) == len(events)


WRONG = '{\n  "host": "localhost",\n  "port": "8080",\n  "debug": true\n}'
RIGHT = WRONG.replace('"8080"', "8080")
INTERRUPTED = "<harness>\n[error] Tool edit was interrupted and may have partially run\n</harness>"


def test_the_tour_reads_edits_and_reports() -> None:
    messages = [user(DEMO_PROMPT)]
    turn = tour(messages, TOOLS)
    assert INTRO in turn["text"] and turn["calls"] == [{"name": "read", "args": {"path": "config/dev.json"}}]
    messages = play(messages, turn, (WRONG, False))
    turn = tour(messages, TOOLS)
    assert turn["calls"][0]["args"] == {
        "path": "config/dev.json", "edits": [{"oldText": '"port": "8080",', "newText": '"port": 8080,'}],
    }  # fmt: skip
    turn = tour(play(messages, turn, ("Edited", False)), TOOLS)
    assert "Done" in turn["text"] and "calls" not in turn and "interrupted" not in turn["text"]


@pytest.mark.parametrize(("found", "edits"), [(WRONG, True), (RIGHT, False)])
def test_after_an_interrupted_edit_the_tour_looks_before_it_goes_on(found: str, edits: bool) -> None:
    messages = play([user(DEMO_PROMPT)], tour([user(DEMO_PROMPT)], TOOLS), (WRONG, False))
    messages = play(messages, tour(messages, TOOLS), (INTERRUPTED, True))
    turn = tour(messages, TOOLS)
    assert turn["calls"][0]["name"] == "read"
    messages = play(messages, turn, (found, False))
    turn = tour(messages, TOOLS)
    if edits:
        assert turn["calls"][0]["name"] == "edit" and "unchanged" in turn["text"]
        turn = tour(play(messages, turn, ("Edited", False)), TOOLS)
    assert "interrupted" in turn["text"] and "calls" not in turn and "Done" in turn["text"]


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [(RIGHT, False, "nothing to fix"), ("{}", False, "no port"), ("No such file", True, "No such file")],
)
def test_the_tour_says_what_it_found(answer: str, error: bool, says: str) -> None:
    messages = play([user(DEMO_PROMPT)], tour([user(DEMO_PROMPT)], TOOLS), (answer, error))
    turn = tour(messages, TOOLS)
    assert says in turn["text"] and "calls" not in turn


def test_the_tour_ends_even_if_everything_is_interrupted() -> None:
    messages = [user(DEMO_PROMPT)]
    for _ in range(40):
        turn = tour(messages, TOOLS)
        if not turn.get("calls"):
            break
        messages = play(messages, turn, (INTERRUPTED, True))
    assert not turn.get("calls")


@pytest.mark.parametrize(("output", "error"), [("a\nb\n", False), ("", False), ("boom", True)])
def test_any_other_prompt_lists_the_directory_and_says_how_to_get_a_model(output: str, error: bool) -> None:
    messages = [user("hello")]
    turn = tour(messages, TOOLS)
    assert turn["calls"] == [{"name": "bash", "args": {"command": "ls"}}] and INTRO in turn["text"]
    messages = play(messages, turn, (output, error))
    turn = tour(messages, TOOLS)
    assert "--model" in turn["text"] and "calls" not in turn
    assert INTRO not in tour([*messages, {"role": "assistant", "content": []}, user("again")], TOOLS)["text"]
    assert "calls" not in tour([user("hello")], [])


async def test_the_tour_is_a_model() -> None:
    models = Models.from_env({})
    assert models.problem("scripted/tour") is None
    request = ModelRequest(models.resolve("scripted/tour"), "", [user(DEMO_PROMPT)], TOOLS)
    message = [event async for event in models.stream(request)][-1].message  # type: ignore[union-attr]
    assert calls(dict(message))[0]["name"] == "read"
