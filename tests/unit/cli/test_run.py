"""`run --image`: what is sent, and what ends with status 2 (cases T30, T32)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_tui.cli.main import parse
from tests.tools import pictures
from tests.tools.headless import Home, lines

GOOD = pictures.plain("PNG", (30, 20))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    (home.project / "a.png").write_bytes(GOOD)
    (home.project / "wide.png").write_bytes(pictures.plain("PNG", (9000, 40)))
    (home.project / "cut.png").write_bytes(GOOD[:20])
    yield home
    home.wait_gone()


def test_the_option_may_be_repeated_and_stand_anywhere() -> None:
    assert parse(["--image", "run", "run", "x", "--image", "b.png"])[1].images == ["run", "b.png"]
    assert parse(["run", "x"])[1].images == []


def test_t32_images_go_with_the_prompt(home: Home) -> None:
    done = home.run("run", "--json", "what is it", "--image", "a.png", "--image", str(home.project / "wide.png"))
    assert done.status == 0, done
    (user,) = [
        message
        for line in lines(done.stdout)
        if line["type"] == "entry_appended"
        for message in line["entry"].get("model", ())
        if message["role"] == "user"
    ]
    text, first, second = user["content"]
    assert text["text"] == "what is it" and first == pictures.block(GOOD)
    assert pictures.opened(second).size == (2000, 9)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["x", "--image", "cut.png"], "--image cut.png: the PNG image is cut off or damaged"),
        (["x", "--image", "a.png", "--image", "gone.png"], "--image gone.png: no such file"),
        (["--session", "job.sqlite", "--image", "a.png"], "--image needs a prompt"),
    ],
)
def test_t30_a_refused_image_is_status_2_and_makes_no_session(home: Home, words: list[str], says: str) -> None:
    done = home.run("run", *words)
    assert done.status == 2 and says in done.stderr and done.stdout == "", done
    assert list((home.home / "sessions").glob("*.sqlite")) == []
    last = lines(home.run("run", "--json", *words).stdout)[-1]
    assert (last["type"], last["status"]) == ("exit", 2) and says in last["message"]


def test_a_request_repeated_after_its_image_has_gone_goes_on(home: Home) -> None:
    words = home.in_session("--request-id", "r", "--image", "a.png")
    assert home.run(*words).status == 0
    (home.project / "a.png").unlink()
    again = home.run(*words)
    assert (again.status, again.stdout) == (0, "It is done.\n"), again
    other = home.run(*home.in_session("--request-id", "other", "--image", "a.png"))
    assert other.status == 2 and "a.png: no such file" in other.stderr
    shown = json.loads(home.run("show", str(home.session), "--json").stdout)
    assert json.dumps(shown).count('"type": "image"') == 1
