"""Generation, tools and context (spec 9 to 12, 14) as a whole run shows them."""

from __future__ import annotations

import dataclasses

import pytest

from durable_tui.agent.extension import Extension, Section, tool
from durable_tui.models.provider import ModelError
from tests.scenarios.conftest import Open
from tests.tools.effects import Text
from tests.tools.scenario import FAST, Rig, codes, derived
from tests.tools.strict_provider import Turn, call, say


async def _run(rig: Rig, text: str = "go") -> object:
    settled = await (await rig.root.submit(text)).wait()
    await rig.idle()
    return settled


async def test_spec_9_a_plain_answer(opened: Open) -> None:
    rig = await opened([say("hello there", chunks=5)])
    settled = await _run(rig)
    assert settled.status == "done"  # type: ignore[attr-defined]
    assert await rig.transcript() == ["user: go", "ai: hello there"]
    await rig.check(idle=True)


async def test_spec_9_parallel_calls_run_at_the_same_time_and_results_are_in_call_order(opened: Open) -> None:
    rig = await opened([call(("gate", {"text": "a"}), ("gate", {"text": "b"}), ("note", {"text": "c"})), say("done")])
    submission = await rig.root.submit("go")
    await rig.effects.wait_started("gate", 2)
    await rig.effects.wait_started("note")
    rig.effects.gate("b").set()
    rig.effects.gate("a").set()
    await submission.wait()
    sent = [m["content"][0]["text"] for m in rig.provider.requests[-1].messages if m["role"] == "toolResult"]
    assert sent == ["through a", "through b", "noted c"]
    await rig.check(idle=True)


async def test_spec_9_one_sequential_tool_makes_the_round_sequential(opened: Open) -> None:
    rig = await opened([call(("gate", {"text": "a"}), ("seq", {"text": "b"}), ("note", {"text": "c"})), say("done")])
    submission = await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    tasks = [task for task in await rig.storage.live_tasks() if task["kind"] == "pi.tool"]
    assert len(tasks) == 1
    generation = next(task for task in await rig.storage.live_tasks() if task["kind"] == "pi.generation")
    assert len(generation["state"]["checkpoint"]["pending"]) == 2
    rig.effects.gate("a").set()
    await submission.wait()
    assert rig.effects.texts() == ["a", "b", "c"]
    await rig.check(idle=True)


async def test_spec_9_the_answer_the_tasks_the_slots_and_the_wait_are_one_commit(opened: Open) -> None:
    rig = await opened([call(("gate", {"text": "a"}), ("gate", {"text": "b"})), say("done")], record=True)
    submission = await rig.root.submit("go")
    await rig.effects.wait_started("gate", 2)
    entry = next(entry for entry in await rig.root.entries() if entry.record["kind"] == "pi.assistant")
    if rig.backend == "memory":
        batch = next(batch for batch in rig.storage.log if batch.seq == entry.seq)
        assert [task["kind"] for task in batch.tasks].count("pi.tool") == 2
        assert any(task["state"]["status"] == "waiting" for task in batch.tasks)
    rig.effects.gate("a").set()
    rig.effects.gate("b").set()
    await submission.wait()
    await rig.check(idle=True)


async def test_spec_18_a_tool_round_is_about_five_commits(opened: Open) -> None:
    rounds = 6
    script = [call(("note", {"text": str(number)})) for number in range(rounds)]
    rig = await opened([*script, say("done")], settings=dataclasses.replace(FAST, partial_interval=10.0))
    before = len(await rig.storage.commits())
    await _run(rig)
    commits = len(await rig.storage.commits()) - before
    assert commits <= 5 * rounds + 5, commits
    await rig.check(idle=True)


@pytest.mark.parametrize(
    ("turn", "code"),
    [
        (call(("nosuch", {})), "tool_unavailable"),
        (call(("note", {"text": ["no", "text"]})), "invalid_arguments"),
        (call(("bug", {"text": "b"})), "tool_error"),
        (call(("boom", {"text": "b"})), "tool_error"),
        (call(("unasked", {"text": "b"})), "tool_error"),
    ],
    ids=["unavailable", "invalid", "bug", "boom", "unasked cancellation (6.3)"],
)
async def test_spec_10_a_call_that_goes_wrong_has_an_error_result_and_the_run_goes_on(
    opened: Open, turn: Turn, code: str
) -> None:
    rig = await opened([turn, say("done")])
    settled = await _run(rig)
    assert settled.status == "done"  # type: ignore[attr-defined]
    assert codes(await rig.entries()) == [code]
    assert [line for line in await rig.transcript() if line.startswith("error")]
    await rig.check(idle=True)


async def test_spec_10_a_returned_error_is_completed_a_raise_is_failed(opened: Open) -> None:
    rig = await opened([call(("wrong", {"text": "w"}), ("boom", {"text": "b"})), say("done")])
    await _run(rig)
    outcomes = [task["state"]["outcome"]["status"] for task in await rig.storage.tasks() if task["kind"] == "pi.tool"]
    assert outcomes == ["completed", "failed"]
    await rig.check(idle=True)


async def test_p23_an_empty_result_is_sent_with_something_in_it(opened: Open) -> None:
    rig = await opened([call(("empty", {"text": "e"})), say("done")])
    settled = await _run(rig)
    assert settled.status == "done"  # type: ignore[attr-defined]
    await rig.check(idle=True)


@pytest.mark.parametrize(
    "turn",
    [Turn(), Turn(text="\n"), Turn(thinking="hm"), Turn(text="  ", calls=[("note", {"text": "n"})])],
    ids=["empty", "blank", "thinking only", "blank with a call"],
)
async def test_p23_blank_answers_never_come_back(opened: Open, turn: Turn) -> None:
    rig = await opened(lambda request, index: turn if len(request.messages) == 1 else say("fine"))
    await _run(rig)
    settled = await _run(rig, "again")
    assert settled.status == "done", settled  # type: ignore[attr-defined]
    await rig.check(idle=True)


async def test_p15_doubled_and_empty_call_ids_are_made_unique(opened: Open) -> None:
    turn = call(*(("note", {"text": text}) for text in "abcd"), ids=["t1", "t2", "t2", ""])
    rig = await opened(lambda request, index: turn if index == 0 else say("done"))
    settled = await _run(rig)
    assert settled.status == "done"  # type: ignore[attr-defined]
    assert sorted(rig.effects.texts("note")) == list("abcd")
    await rig.check(idle=True)


async def test_p15_an_id_used_again_in_a_later_turn_is_made_unique(opened: Open) -> None:
    turn = call(("note", {"text": "a"}), ids=["same"])
    rig = await opened(lambda request, index: turn if index < 3 else say("done"))
    settled = await _run(rig)
    assert settled.status == "done"  # type: ignore[attr-defined]
    assert rig.effects.texts("note") == ["a"] * 3
    await rig.check(idle=True)


async def test_spec_9_terminate_settles_with_the_calling_message(opened: Open) -> None:
    rig = await opened([call(("terminate", {"text": "t"})), say("never")])
    settled = await _run(rig)
    assert settled.status == "done"  # type: ignore[attr-defined]
    assert len(rig.provider.requests) == 1
    answer = await rig.storage.entry(settled.answer)  # type: ignore[attr-defined]
    assert answer.record["model"][0]["stopReason"] == "toolUse"
    await rig.check(idle=True)


async def test_spec_9_a_stream_without_its_end_is_a_failed_attempt(opened: Open) -> None:
    """case P06: nothing of it runs; it is asked again."""
    cut = call(("note", {"text": "half"}), cut=1)
    served = []

    def script(request: object, index: int) -> Turn:
        served.append(index)
        return cut if len(served) == 1 else call(("note", {"text": "whole"})) if index == 0 else say("done")

    rig = await opened(script)
    settled = await _run(rig)
    assert settled.status == "done"  # type: ignore[attr-defined]
    assert rig.effects.texts("note") == ["whole"]
    await rig.check(idle=True)


@pytest.mark.parametrize(
    ("kind", "requests"),
    [
        ("network", 4),
        ("overloaded", 4),
        ("rate_limit", 4),
        ("quota", 1),
        ("authentication", 1),
        ("bad_request", 1),
        ("overflow", 1),
    ],
)
async def test_spec_9_which_errors_are_tried_again(opened: Open, kind: str, requests: int) -> None:
    rig = await opened([say("x", error=ModelError(f"it was {kind}", kind))])  # type: ignore[arg-type]
    settled = await _run(rig)
    assert (settled.status, settled.reason) == ("unanswered", "model_error")  # type: ignore[attr-defined]
    assert f"it was {kind}" in settled.detail  # type: ignore[attr-defined]
    assert len(rig.provider.requests) == requests
    await rig.check(idle=True)


async def test_spec_9_no_model(opened: Open) -> None:
    rig = await opened([say("x")])
    other = await rig.harness.create_conversation(agent={"cwd": "."})
    settled = await (await other.submit("go")).wait()
    assert (settled.status, settled.reason) == ("unanswered", "no_model")
    await rig.idle()
    await rig.check(idle=True)


async def test_p14_the_calls_of_a_length_cut_answer_never_run(opened: Open) -> None:
    rig = await opened([call(("note", {"text": "cut"}), stop="length"), say("done")])
    await _run(rig)
    assert rig.effects.texts("note") == []
    settled = await _run(rig, "again")
    assert settled.status == "done"  # type: ignore[attr-defined]
    await rig.check(idle=True)


async def test_spec_14_usage_is_added_up_failed_attempts_too(opened: Open) -> None:
    rig = await opened([call(("note", {"text": "a"})), say("done")])
    await _run(rig)
    usage = (await rig.document("pi.usage"))["models"]["strict/m"]
    assert usage["totalTokens"] == 30 and abs(usage["cost"]["total"] - 0.006) < 1e-9
    await rig.check(idle=True)


async def test_spec_20_the_limit_of_turns_ends_the_run(opened: Open) -> None:
    rig = await opened(
        lambda request, index: call(("note", {"text": str(index)})), settings=dataclasses.replace(FAST, limit_turns=3)
    )
    settled = await _run(rig)
    assert (settled.status, settled.reason) == ("unanswered", "limit")  # type: ignore[attr-defined]
    assert len(rig.provider.requests) == 3
    await rig.check(idle=True)


async def test_spec_9_prompt_changes_append_system_entries_only_for_what_changed(opened: Open) -> None:
    words = ["one"]
    rig = await opened(
        [say("a"), say("b"), say("c")],
        extensions=[
            Extension(
                "words",
                sections=[Section("fixed", lambda context: "always"), Section("words", lambda context: words[0])],
            )
        ],
    )
    for word in ("one", "one", "two"):
        words[0] = word
        await _run(rig, word)
    systems = [entry["model"][0] for entry in await rig.entries() if entry["kind"] == "pi.system"]
    assert len(systems) == 2
    assert set(systems[0]["sections"]) >= {"fixed", "words"} and systems[1]["sections"] == {"words": "two"}
    assert "two" in rig.provider.requests[-1].system and "always" in rig.provider.requests[-1].system
    assert "one" in rig.provider.requests[0].system
    await rig.check(idle=True)


async def test_spec_12_later_extensions_override_and_a_missing_name_is_skipped(opened: Open) -> None:
    @tool
    async def note(args: Text, call: object) -> str:
        """Another note."""
        return f"other {args.text}"

    rig = await opened([call(("note", {"text": "a"})), say("done")], extensions=[Extension("other", tools=[note])])
    await rig.root.configure(tools=["note", "absent"])
    await _run(rig)
    assert "result note: other a" in await rig.transcript()
    assert [offered["name"] for offered in rig.provider.requests[0].tools] == ["note"]
    await rig.check(idle=True)


async def test_spec_12_a_raising_before_tool_hook_blocks_others_are_skipped(opened: Open) -> None:
    async def refuse(value: object) -> None:
        raise RuntimeError("not that")

    rig = await opened(
        [call(("note", {"text": "a"})), say("done")], extensions=[Extension("guard", hooks={"beforeTool": refuse})]
    )
    await _run(rig)
    assert codes(await rig.entries()) == ["blocked"] and rig.effects.texts() == []
    await rig.check(idle=True)

    other = await opened(
        [call(("note", {"text": "a"})), say("done")],
        extensions=[
            Extension(
                "guard",
                hooks={"afterTool": refuse, "beforeRequest": refuse, "afterResponse": refuse, "afterTools": refuse},
            )
        ],
    )
    settled = await _run(other)
    assert settled.status == "done" and other.effects.texts() == ["a"]  # type: ignore[attr-defined]
    await other.check(idle=True)


async def test_spec_11_the_derived_request_is_sound_at_rest(opened: Open) -> None:
    rig = await opened([call(("note", {"text": "a"}), ("boom", {"text": "b"})), say("done")])
    assert await derived(rig.root) == []
    await _run(rig)
    assert await derived(rig.root) == []
