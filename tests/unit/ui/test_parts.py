"""Heights, themes, actions, clipboard, files and input patches."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from textual import events
from textual._xterm_parser import XTermParser

from durable_tui.ui import patches, themes
from durable_tui.ui.actions import (
    ACTIONS,
    BY_ID,
    Action,
    bindings,
    check_keymap,
    complete_slash,
    fuzzy,
    key_label,
    slash,
)
from durable_tui.ui.clipboard import LIMIT, sequence
from durable_tui.ui.commands.registry import PLACES, bind
from durable_tui.ui.styles import VARIABLES, Styles
from durable_tui.ui.widgets.heights import Heights


def test_heights_agree_with_plain_sums() -> None:
    dice = random.Random(7)
    plain: list[int] = []
    heights = Heights()
    for _ in range(3000):
        choice = dice.random()
        if choice < 0.5 or not plain:
            plain.append(dice.randint(0, 9))
            heights.append(plain[-1])
        elif choice < 0.8:
            index, value = dice.randrange(len(plain)), dice.randint(0, 9)
            assert heights.set(index, value) == value - plain[index]
            plain[index] = value
        elif choice < 0.9:
            plain.pop()
            heights.pop()
        else:
            index = dice.randint(0, len(plain))
            assert heights.offset(index) == sum(plain[:index])
            line = dice.randint(0, sum(plain) + 2)
            block, inner = heights.find(line)
            if line < sum(plain):
                assert sum(plain[:block]) + inner == line and inner < plain[block]
            else:
                assert (block, inner) == (len(plain), 0)
    assert heights.total == sum(plain)


def luminance(colour: str) -> float:
    values = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in values)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


SHIPPED, PROBLEMS = themes.load_all([themes.shipped_folder()])


def test_shipped_themes_load() -> None:
    assert PROBLEMS == []
    assert {"ink", "paper", "terminal", "plain"} <= set(SHIPPED)


@pytest.mark.parametrize("name", ["ink", "paper"])
def test_text_has_a_contrast_of_four_and_a_half(name: str) -> None:
    theme = SHIPPED[name].theme
    grounds = [theme.background, theme.surface, theme.variables["token-ground"]]
    for token in VARIABLES:
        colour = theme.variables["token-" + token.replace(".", "-")]
        for ground in grounds:
            assert contrast(colour, str(ground)) >= 4.5, (token, ground)
        if token != "faint":
            assert contrast(colour, theme.variables["token-cursor-line"]) >= 4.5, token
    assert contrast(str(theme.foreground), str(theme.panel)) >= 7
    assert contrast(theme.variables["token-dim"], str(theme.panel)) >= 4.5
    assert contrast(str(theme.foreground), theme.variables["token-selected"]) >= 4.5


def test_ui_t07_the_plain_theme_has_no_colour() -> None:
    assert SHIPPED["plain"].plain
    styles = Styles({}, plain=True)
    assert styles.style("bold attention ansi.red").color is None
    assert styles.style("bold attention").bold


def test_ui_t07_no_color_and_poor_terminals_choose_for_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("COLORTERM", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert themes.choose(None, SHIPPED) == "ink"
    assert themes.choose("paper", SHIPPED) == "paper"
    assert themes.choose("nope", SHIPPED) == "ink"
    monkeypatch.setenv("TERM", "linux")
    assert themes.choose(None, SHIPPED) == "terminal"
    monkeypatch.setenv("NO_COLOR", "1")
    assert themes.choose("paper", SHIPPED) == "plain"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = ", "cannot be read"),
        ('primary = "#fff"\nfoo = 1', "foo"),
        ("dark = true", "primary"),
        ('primary = "nocolour"', "no colour"),
        ('primary = "#fff"\n[tokens]\nbad = "#fff"', "tokens.bad"),
    ],
)
def test_a_broken_theme_names_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    found, problems = themes.load_all([tmp_path, tmp_path / "missing"])
    assert found == {}
    assert len(problems) == 1 and str(path) in problems[0] and said in problems[0]


def test_a_users_theme_replaces_a_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "ink.toml").write_text('primary = "#123456"')
    found, _ = themes.load_all([themes.shipped_folder(), tmp_path])
    assert found["ink"].theme.primary == "#123456"


class Desk:
    """Enough of an app for commands that are bound and not run."""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda actions: [*actions, replace(BY_ID["help"], id="fly")], "0 commands of scope app do the action fly"),
        (lambda actions: [replace(a, scope="inbox") if a.id == "fold" else a for a in actions], "0 commands of scope"),
        (lambda actions: [action for action in actions if action.id != "fold"], "no action has these commands: fold"),
    ],
)
def test_an_action_without_its_command_and_a_command_without_its_action_are_errors_at_the_start(
    change: Callable[[Sequence[Action]], Sequence[Action]], words: str
) -> None:
    with pytest.raises(LookupError, match=words):
        bind(change(ACTIONS), [place(Desk()) for place in PLACES])


def test_an_action_that_two_places_do_is_an_error_at_the_start() -> None:
    places = [place(Desk()) for place in (*PLACES, PLACES[0])]
    with pytest.raises(LookupError, match="2 commands of scope app do the action"):
        bind(ACTIONS, places)


def test_every_action_has_its_command_and_keys_do_not_clash_in_a_scope() -> None:
    places = [place(Desk()) for place in PLACES]
    assert set(bind(ACTIONS, places)) == set(BY_ID)
    for action in ACTIONS:
        assert action.title and action.help, action.id
    for scope in {action.scope for action in ACTIONS}:
        keys = [key for action in ACTIONS if action.scope == scope for key in action.keys.split(",") if key]
        assert len(keys) == len(set(keys)), scope
    assert {binding.id for binding in bindings("app")} <= set(BY_ID)  # type: ignore[union-attr]
    slashes = [action.slash for action in ACTIONS if action.slash]
    assert len(slashes) == len(set(slashes))


def test_slash_commands() -> None:
    found = slash("/rename  a new title ")
    assert found is not None and found[0].id == "rename" and found[1] == "a new title"
    assert slash("/tmp/x is broken") is None
    assert slash("/new\nmore") is None
    assert slash("text /new") is None
    assert [action.slash for action in complete_slash("/re")] == ["recoveries", "release", "rename", "resume", "retry"]
    assert complete_slash("/rename x") == []
    assert fuzzy("open elsewhere", ACTIONS) == []
    assert BY_ID["quit"] in fuzzy("close order", ACTIONS)


def test_keys_are_named_for_people_and_checked() -> None:
    assert key_label("ctrl+p") == "Ctrl+P" and key_label("ctrl+p", short=True) == "^P"
    assert key_label("left_curly_bracket") == "{" and key_label("f2") == "F2" and key_label("x") == "x"
    assert check_keymap({"sessions": "ctrl+e"}) == []
    assert "nothing" in check_keymap({"nothing": "x"})[0]


def test_ui_c02_ui_c04_clipboard_is_wrapped_and_bounded() -> None:
    code, count, cut = sequence("héllo", {})
    assert code.startswith("\x1b]52;c;") and count == 6 and not cut
    assert sequence("x", {"TMUX": "1"})[0].startswith("\x1bPtmux;\x1b\x1b]52")
    _, count, cut = sequence("漢" * LIMIT, {})
    assert cut and count <= LIMIT


def keys(data: str) -> list[str]:
    parser = XTermParser()
    found = list(parser.feed(data))
    time.sleep(0.12)
    found += list(parser.tick())
    return [event.key if isinstance(event, events.Key) else type(event).__name__ for event in found]


def test_ui_i03_legacy_alt_enter_is_decoded() -> None:
    patches.apply()
    assert keys("\x1b\r") == ["alt+enter"]
    assert keys("\r") == ["enter"]


def test_ui_i05_a_broken_mouse_report_is_dropped() -> None:
    patches.apply()
    assert keys("\x1b[<NaN;NaN;NaNMx") == ["x"]
    assert keys("\x1b[<0;NaN;3mab") == ["a", "b"]
    assert keys("\x1b[<0;10;3M") == ["MouseDown"]


def test_ui_i06_lock_keys_do_not_break_matching() -> None:
    assert keys("\x1b[97;65u") == ["a"]
    assert keys("\x1b[99;69u") == ["ctrl+c"]


def test_ui_l07_a_paste_without_marks_is_one_event() -> None:
    patches.apply()
    assert patches.is_burst("x" * 60) and not patches.is_burst("x" * 20) and not patches.is_burst("\x1b[A" * 30)
    assert keys("line one is here\rline two is here\rline three is here\r") == ["Paste"]
    marked = XTermParser()
    found = list(marked.feed("\x1b[200~" + "y" * 10))
    found += list(marked.feed("z" * 100))
    found += list(marked.feed("\x1b[201~"))
    assert [event.text for event in found if isinstance(event, events.Paste)] == ["y" * 10 + "z" * 100]


def test_ui_l08_the_end_of_a_paste_that_ended_itself_is_told() -> None:
    patches.apply()
    parser = XTermParser()
    found = list(parser.feed("\x1b[200~a\x1b[201~"))
    found += list(parser.feed("b\r\x1b[201~"))
    assert [event.text for event in found if isinstance(event, events.Paste)] == ["a", ""]
    again = list(parser.feed("\x1b[200~whole\x1b[201~"))
    assert [event.text for event in again if isinstance(event, events.Paste)] == ["whole"]


@pytest.mark.parametrize(
    ("reads", "pastes"),
    [
        (["\x1b[200~a\x1b[201~b\r\x1b[201~"], ["ab\r"]),
        (["\x1b[200~a", "\x1b[201~b\r\x1b[201~"], ["ab\r"]),
        (["\x1b[200~a\x1b[201~b\r\x1b[201~c\r\x1b[201~"], ["ab\rc\r"]),
        (["\x1b[200~a\x1b[201~\x1b[200~b\x1b[201~"], ["a", "b"]),
        (["\x1b[200~a\x1b[31m\rmore\x1b[201~"], ["a\rmore"]),
        (["\x1b[200~a\x1b[200~b\x1bc\x1b[201~"], ["ab"]),
        (["\x1b[2", "00~a\x1b[20", "1~"], ["a"]),
        (["\x1b", "[200~a\x1b", "[201", "~"], ["a"]),
        *[
            (["\x1b[200~"[:cut], "\x1b[200~"[cut:] + "y" * 60, "\rz\x1b[201~"], ["y" * 60 + "\rz"])
            for cut in range(1, 6)
        ],
        (["\x1b[200~a\x1b[20", "0~\rb\x1b[201~"], ["a\rb"]),
    ],
)
def test_ui_l08_an_end_inside_a_paste_that_one_read_brings_whole_ends_nothing(
    reads: list[str], pastes: list[str]
) -> None:
    patches.apply()
    parser = XTermParser()
    found = [event for read in reads for event in parser.feed(read)]
    assert [event.text for event in found if isinstance(event, events.Paste)] == pastes
    assert not [event for event in found if isinstance(event, events.Key)]
