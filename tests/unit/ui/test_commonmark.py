"""What our lines say of examples of the CommonMark specification and of GFM, or ones like them, from each section."""

from __future__ import annotations

import pytest

from durable_tui.ui.text.markdown import markdown
from durable_tui.ui.text.runs import Line

RULE = "─" * 40


def lines_of(text: str) -> list[Line]:
    return markdown(text, 80)


def texts(text: str) -> list[str]:
    return [line.text for line in lines_of(text)]


def styles(text: str) -> list[tuple[str, str]]:
    """The runs of all lines that have a style."""
    return [run for line in lines_of(text) for run in line.runs if run[1]]


@pytest.mark.parametrize(
    ("section", "source", "shown"),
    [
        ("Tabs", "\tfoo\tbaz\t\tbim", ["  foo baz     bim"]),
        ("Tabs", "  - foo\n\n\tbar", ["• foo", "", "  bar"]),
        ("Tabs", " - foo\n   - bar\n\t - baz", ["• foo", "  • bar", "    • baz"]),
        ("Backslash escapes", r"\!\"\#\$\%\&\'\(\)\*\+", ["!\"#$%&'()*+"]),
        ("Backslash escapes", "\\*not emphasized*\n\\# not a heading", ["*not emphasized*", "# not a heading"]),
        ("Backslash escapes", "foo\\\nbar", ["foo", "bar"]),
        ("Backslash escapes", r"`` \[\` ``", [r"\[\`"]),
        ("Entity and numeric character references", "&nbsp; &amp; &copy; &AElig;", ["\u00a0 & © Æ"]),
        ("Entity and numeric character references", "&#35; &#1234; &#992; &#0;", ["# Ӓ Ϡ \ufffd"]),
        ("Precedence", "- `one\n- two`", ["• `one", "• two`"]),
        ("Thematic breaks", "***\n---\n___", [RULE, RULE, RULE]),
        ("Thematic breaks", "===", ["==="]),
        ("Thematic breaks", "- foo\n***\n- bar", ["• foo", RULE, "• bar"]),
        ("Thematic breaks", "* Foo\n* * *\n* Bar", ["• Foo", RULE, "• Bar"]),
        ("ATX headings", "#5 bolt\n\n#hashtag", ["#5 bolt", "", "#hashtag"]),
        ("ATX headings", "## foo ##\n  ###   bar    ###", ["foo", "bar"]),
        ("Setext headings", "Foo *bar*\n=========\n\nFoo *bar*\n---------", ["Foo bar", "", "Foo bar"]),
        ("Indented code blocks", "    a simple\n      indented code block", ["  a simple", "    indented code block"]),
        ("Indented code blocks", "Foo\n    bar", ["Foo", "bar"]),
        ("Fenced code blocks", "```\n<\n >\n```", ["  <", "   >"]),
        ("Fenced code blocks", "``\nfoo\n``", ["foo"]),
        ("Fenced code blocks", "```\n\n\n```\nb", ["  ", "  ", "b"]),
        ("Fenced code blocks", "> ```\n> aaa\n\nbbb", ["│   aaa", "", "bbb"]),
        ("Fenced code blocks", " ```\n aaa\naaa\n```", ["  aaa", "  aaa"]),
        ("HTML blocks", "<table><tr><td>\n<pre>\n**Hello**,\n</pre>", ["<table><tr><td>", "<pre>", "**Hello**,", "</pre>"]),
        ("Link reference definitions", '[foo]: /url "title"\n\n[foo]', ["foo (/url)"]),
        ("Link reference definitions", "[foo]\n\n[foo]: url", ["foo (url)"]),
        ("Block quotes", "> # Foo\n> bar\n> baz", ["│ Foo", "│ bar", "│ baz"]),
        ("Block quotes", "> bar\nbaz\n> foo", ["│ bar", "│ baz", "│ foo"]),
        ("Block quotes", ">     code\n\n>    not code", ["│   code", "", "│ not code"]),
        ("Block quotes", "> > > foo\nbar", ["│ │ │ foo", "│ │ │ bar"]),
        ("List items", "1.  A paragraph\n    with two lines.\n\n        indented code\n\n    > A block quote.",
            ["1. A paragraph", "   with two lines.", "", "     indented code", "", "   │ A block quote."]),
        ("List items", "- one\n\n two", ["• one", "", "two"]),
        ("List items", "   > > 1.  one\n>>\n>>     two", ["│ │ 1. one", "│ │ ", "│ │    two"]),
        ("List items", "123456789. ok", ["123456789. ok"]),
        ("List items", "1234567890. not ok", ["1234567890. not ok"]),
        ("List items", "-\n\n  foo", ["• ", "", "foo"]),
        ("List items", "- foo\n-\n- bar", ["• foo", "• ", "• bar"]),
        ("List items", "foo\n*\n\nfoo\n1.", ["foo", "*", "", "foo", "1."]),
        ("List items", "- foo\n  - bar\n    - baz\n      - boo", ["• foo", "  • bar", "    • baz", "      • boo"]),
        ("List items", "- - foo", ["• • foo"]),
        ("Lists", "- foo\n- bar\n+ baz", ["• foo", "• bar", "• baz"]),
        ("Lists", "1. foo\n2. bar\n3) baz", ["1. foo", "2. bar", "3) baz"]),
        ("Lists", "The number of windows in my house is\n14.  The number of doors is 6.",
            ["The number of windows in my house is", "14.  The number of doors is 6."]),
        ("Lists", "1. a\n\n  2. b\n\n   3. c", ["1. a", "", "2. b", "", "3. c"]),
        ("Inlines", "`hi`lo`", ["hilo`"]),
        ("Code spans", "` `` `", ["``"]),
        ("Code spans", "``\nfoo\nbar  \nbaz\n``", ["foo bar   baz"]),
        ("Emphasis and strong emphasis", "a*\"foo\"*", ["a*\"foo\"*"]),
        ("Links", '[link](/uri "title")', ["link (/uri)"]),
        ("Links", "[link](</my uri>)", ["link (/my uri)"]),
        ("Links", "[link](foo(and(bar)))", ["link (foo(and(bar)))"]),
        ("Links", "[foo [bar](/uri)](/uri)", ["[foo bar (/uri)](/uri)"]),
        ("Links", "[foo][bar]\n\n[bar]: /url", ["foo (/url)"]),
        ("Images", '![foo](/url "title")', ["foo"]),
        ("Autolinks", "<http://foo.bar.baz>", ["http://foo.bar.baz"]),
        ("Autolinks", "<foo@bar.example.com>", ["foo@bar.example.com"]),
        ("Raw HTML", "<a><bab><c2c>", ["<a><bab><c2c>"]),
        ("Hard line breaks", "foo  \nbaz", ["foo", "baz"]),
        ("Tables (GFM)", "| foo | bar |\n| --- | --- |\n| baz | bim |", ["foo │ bar", "─────────", "baz │ bim"]),
        ("Tables (GFM)", "| abc | defghi |\n:-: | -----------:\nbar | baz", ["abc │ defghi", "────────────", "bar │    baz"]),
        ("Tables (GFM)", "| f\\|oo  |\n| ------ |\n| b `\\|` az |", ["f|oo", "──────", "b | az"]),
        ("Tables (GFM)", "| abc | def |\n| --- |\n| bar |", ["| abc | def |", "| --- |", "| bar |"]),
        ("Task list items (GFM)", "- [ ] foo\n- [x] bar", ["☐ foo", "☑ bar"]),
        ("Strikethrough (GFM)", "~~Hi~~ Hello, world!", ["Hi Hello, world!"]),
    ],
)  # fmt: skip
def test_an_example_says(section: str, source: str, shown: list[str]) -> None:
    assert texts(source) == shown


@pytest.mark.parametrize(
    ("section", "source", "runs"),
    [
        ("Emphasis and strong emphasis", "*foo bar*", [("foo bar", "italic")]),
        ("Emphasis and strong emphasis", "a * foo bar*", []),
        ("Emphasis and strong emphasis", "foo*bar*", [("bar", "italic")]),
        ("Emphasis and strong emphasis", "5*6*78", [("6", "italic")]),
        ("Emphasis and strong emphasis", "foo_bar_", []),
        ("Emphasis and strong emphasis", "**foo bar**", [("foo bar", "bold")]),
        ("Emphasis and strong emphasis", "foo**bar**", [("bar", "bold")]),
        ("Emphasis and strong emphasis", "_foo __bar__ baz_", [("foo ", "italic"), ("bar", "italic bold"), (" baz", "italic")]),
        ("Emphasis and strong emphasis", "***foo** bar*", [("foo", "italic bold"), (" bar", "italic")]),
        ("Emphasis and strong emphasis", "*foo\nbar*", [("foo", "italic"), ("bar", "italic")]),
        ("Emphasis and strong emphasis", "foo ***", []),
        ("Emphasis and strong emphasis", "**foo**bar**", [("foo", "bold")]),
        ("Emphasis and strong emphasis", "*foo _bar* baz_", [("foo _bar", "italic")]),
        ("Links", "[link *foo **bar** `#`*](/uri)", [
            ("link ", "underline"), ("foo ", "underline italic"), ("bar", "underline italic bold"),
            (" ", "underline italic"), ("#", "underline italic code.inline"), (" (/uri)", "faint"),
        ]),
    ],
)  # fmt: skip
def test_an_example_is_styled(section: str, source: str, runs: list[tuple[str, str]]) -> None:
    assert styles(source) == runs
