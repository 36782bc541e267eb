"""Replacing text in bytes: cases T01-T15, and the rule that every byte outside a replaced span stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_tui.tools.editing import EditRefused, apply_edits, splice, to_bytes
from durable_tui.tools.file_diff import compare, of_replacements


def edited(original: bytes, *edits: tuple[str, str]) -> bytes:
    return splice(original, apply_edits(original, edits))


def refused(original: bytes, *edits: tuple[str, str]) -> str:
    with pytest.raises(EditRefused) as found:
        apply_edits(original, edits)
    return str(found.value)


def test_t01_crlf_is_kept() -> None:
    assert edited(b"one\r\ntwo\r\nthree", ("one\ntwo", "1\n2")) == b"1\r\n2\r\nthree"
    assert edited(b"one\r\ntwo\r\nthree", ("two", "2\n2b")) == b"one\r\n2\r\n2b\r\nthree"
    assert edited(b"one\r\ntwo\r\nthree", ("three", "3\n4")) == b"one\r\ntwo\r\n3\r\n4"
    assert edited(b"one\ntwo\n", ("one\r\ntwo", "1\n2")) == b"1\n2\n"
    assert "not found" in refused(b"one\r\ntwo\r\nthree", ("one\nthree", "x"))


def test_t02_mixed_line_ends_stay_outside_and_inside() -> None:
    assert edited(b"a\r\nb\nc\r\nd\n", ("c", "C")) == b"a\r\nb\nC\r\nd\n"
    assert edited(b"a\r\nb\nc\r\nd\n", ("a\nb\nc\nd", "a\nb\nX\nd")) == b"a\r\nb\nX\r\nd\n"
    assert edited(b"a\r\nb\nc\r\nd\n", ("a\nb\nc", "a\nnew\nb\nc")) == b"a\r\nnew\r\nb\nc\r\nd\n"
    assert edited(b"a\r\nb\nc\r\nd\n", ("b\nc\n", "")) == b"a\r\nd\n"


def test_line_ends_given_on_purpose_are_taken_by_the_byte() -> None:
    assert edited(b"a\r\nb\r\n", ("a\r\n", "a\n")) == b"a\nb\r\n"
    assert edited(b"a\r\nb\r\n", ("a\r\nb", "x\r\ny\r\nz")) == b"x\r\ny\r\nz\r\n"
    # returns in the old text alone do not make a file's ends mixed
    assert edited(b"a\r\nb\r\n", ("a\r\nb", "x\ny\nz")) == b"x\r\ny\r\nz\r\n"


def test_t03_the_byte_order_mark_stays() -> None:
    original = b"\xef\xbb\xbfimport os\nx = 1\n"
    assert edited(original, ("import os\n", "import sys\n")) == b"\xef\xbb\xbfimport sys\nx = 1\n"
    assert edited(original, ("\ufeffimport os", "\ufeffimport sys")) == b"\xef\xbb\xbfimport sys\nx = 1\n"


LOOSE = 'keep   \nsay \u201chi\u201d \u2014 ok\ncost\u00a0=\u00a05\nname = "Ann"  \n'.encode()


def test_t04_a_loose_match_is_refused_with_its_place() -> None:
    message = refused(LOOSE, ("name = \u201cAnn\u201d", 'name = "Bob"'))
    assert "line 4" in message and "quotes" in message
    assert "line 3" in refused(LOOSE, ("cost = 5", "x"))
    assert edited(LOOSE, ('"Ann"', '"Bob"')) == LOOSE.replace(b"Ann", b"Bob")
    assert "upper and lower case" in refused(b"Hello there\n", ("hello there", "x"))


def test_t06_bytes_that_are_no_utf8_stay() -> None:
    original = b"flag = 0\n# d\xe9j\xe0 vu\n"
    assert edited(original, ("flag = 0", "flag = 1")) == b"flag = 1\n# d\xe9j\xe0 vu\n"
    assert "UTF-8" in refused(original, ("d\ufffdj\ufffd vu", "x"))


def test_t07_no_second_encoding_comes_into_a_file() -> None:
    original = b"\x93\xfa\x96\x7b\nv=1\n"
    assert "UTF-8" in refused(original, ("v=1", "v=1  # 日本"))
    assert edited(original, ("v=1", "v=2")).decode("shift_jis") == "日本\nv=2\n"
    # the second byte of 本 looks like "{"
    assert "UTF-8" in refused(original, ("{", "x"))


@pytest.mark.parametrize("original", ["\ufeffa\n".encode("utf-16-le"), "\ufeffa\n".encode("utf-16-be")])
def test_utf16_is_refused(original: bytes) -> None:
    assert "UTF-16" in refused(original, ("a", "b"))


def test_binary_content_is_refused() -> None:
    assert "binary" in refused(b"abc\0def", ("abc", "x"))


def test_t09_empty_unchanged_and_absent_are_refused() -> None:
    assert "empty" in refused(b"abc", ("", "-"))
    assert "no change" in refused(b"abc", ("abc", "abc"))
    assert "file is empty" in refused(b"", ("x", "y"))
    assert "no change" in refused(b"a\nb", ("a\nb", "a\r\nb"))
    assert "no edits" in refused(b"abc")


@pytest.mark.parametrize("new", [r"D:\tmp\notes", r"\2 and \g<0>", "$& $$ $'", "%s {0}"])
def test_t10_new_text_lands_literally(new: str) -> None:
    assert edited(b"p = OLD\n", ("OLD", new)) == f"p = {new}\n".encode()


def test_t13_a_final_newline_that_the_last_line_lacks() -> None:
    assert edited(b"hello", ("hello\n", "bye\n")) == b"bye"
    assert edited(b"a\nb", ("b\n", "c\n")) == b"a\nc"
    assert edited(b"a\r\nb", ("a\nb\n", "c\nd\n")) == b"c\r\nd"
    assert "no change" in refused(b"a", ("a\n", "a"))


def test_t14_copied_line_numbers() -> None:
    assert edited(b"foo\nbar\n", ("   12: foo", "   12: new")) == b"new\nbar\n"
    assert edited(b"foo\nbar\n", ("   12: foo", "new")) == b"new\nbar\n"
    assert edited(b"   12: foo\n", ("   12: foo", "x")) == b"x\n"
    assert edited(b"a\n  b\n", ("1\ta\n2\t  b\n", "1\ta\n2\t  c\n")) == b"a\n  c\n"
    assert "not found" in refused(b"foo\nbar\n", ("   12: foo\nbar", "x"))  # not on every line
    assert "not found" in refused(b"foo\nbar\n", ("12: foo\n99: bar", "x"))  # not in order
    assert "not found" in refused(b"foo\nbar\n", ("1: foo\n2: bar", "1: x\ny"))  # a guess


def test_t15_all_edits_match_the_original_and_none_overlap() -> None:
    assert edited(b"AAA BBB\n", ("AAA", "BBB"), ("BBB", "CCC")) == b"BBB CCC\n"
    assert "overlap" in refused(b"alpha beta gamma\n", ("alpha beta", "x"), ("beta gamma", "y"))
    assert "overlap" in refused(b"abc\n", ("abc", "x"), ("abc", "y"))
    assert edited(b"abcd", ("ab", "1"), ("cd", "2")) == b"12"
    assert "edit 2" in refused(b"abc\n", ("a", "x"), ("z", "y"))


def test_an_ambiguous_target_is_refused_with_its_count() -> None:
    assert "2 times" in refused(b"x = 1\nx = 1\n", ("x = 1", "x = 2"))
    assert "2 times" in refused(b"aaa", ("aa", "b"))
    assert "1000 times or more" in refused(b"a" * 5000, ("a", "b"))
    assert "2 times" in refused(b"a\r\nb\na\nb\n", ("a\nb", "x"))


def test_surrogates() -> None:
    assert to_bytes("\ud83d\ude00", "content") == "😀".encode()
    with pytest.raises(EditRefused, match="surrogate"):
        to_bytes("a\ud83d", "content")
    assert "surrogate" in refused(b"abc", ("a", "\ud83d"))


PIECES = st.lists(st.sampled_from(["a", "b", "é", "日", " ", "\n", "\r\n", "\r", "\t"]), max_size=30).map("".join)


@given(before=PIECES, after=PIECES, new=PIECES)
def test_every_byte_outside_the_span_stays(before: str, after: str, new: str) -> None:
    original = f"{before}<<MARK\r\nMARK>>{after}".encode()
    replacements = apply_edits(original, [("<<MARK\nMARK>>", new)])
    found = splice(original, replacements)
    assert found.startswith(before.encode()) and found.endswith(after.encode())
    middle = found[len(before.encode()) : len(found) - len(after.encode())]
    assert middle.replace(b"\r\n", b"\n") == new.replace("\r\n", "\n").encode()


@given(lines=st.lists(st.sampled_from(["x", "y", "z", ""]), max_size=12), cuts=st.lists(st.integers(0, 11), max_size=4))
def test_the_diff_turns_old_into_new(lines: list[str], cuts: list[int]) -> None:
    old = "\n".join(f"{n} {line}" for n, line in enumerate(lines)).encode()
    edits = [(f"{n} {lines[n]}", f"new{n}\nmore") for n in sorted(set(cuts)) if n < len(lines) and n > 1]
    edits = [(a, b) for a, b in edits if old.count(a.encode()) == 1]
    if not edits:
        return
    replacements = apply_edits(old, edits)
    new = splice(old, replacements)
    for diff in (of_replacements(old, replacements), compare(old, new)):
        assert patched(old.decode(), diff.text) == new.decode()


def patched(old: str, diff: str) -> str:
    """Apply a unified diff, the plain way."""
    source = old.splitlines(keepends=True)
    out: list[str] = []
    at = 0
    rows = diff.split("\n")
    for index, row in enumerate(rows):
        end = "" if index + 1 < len(rows) and rows[index + 1].startswith("\\") else "\n"
        if row.startswith("@@"):
            start, _, count = row.split()[1][1:].partition(",")
            first = int(start) - (0 if count == "0" else 1)
            out += source[at:first]
            at = first
        elif row.startswith("\\"):
            continue
        elif row.startswith("+"):
            out.append(row[1:] + end)
        else:
            assert source[at] == row[1:] + end
            out += source[at : at + 1] if row.startswith(" ") else []
            at += 1
    return "".join(out + source[at:])


def test_t04_the_diff_is_of_the_real_bytes() -> None:
    replacements = apply_edits(LOOSE, [('"Ann"', '"Bob"')])
    diff = of_replacements(LOOSE, replacements)
    assert diff.text.split("\n") == [
        "@@ -1,4 +1,4 @@",
        " keep   ",
        " say \u201chi\u201d \u2014 ok",
        " cost\u00a0=\u00a05",
        '-name = "Ann"  ',
        '+name = "Bob"  ',
    ]
    assert (diff.added, diff.removed) == (1, 1)


def test_a_diff_of_nothing_but_line_ends_shows_them() -> None:
    diff = compare(b"a\r\nb\r\n", b"a\nb\r\n")
    assert "-a␍" in diff.text and "+a" in diff.text.split("\n")


def test_a_diff_is_bounded() -> None:
    old = b"".join(b"%d\n" % n for n in range(100_000))
    diff = compare(old, old.replace(b"7", b"seven"))
    assert len(diff.text) < 20_000
    assert diff.text.endswith("not shown")
    long = compare(b"a" * 100_000, b"b" * 100_000)
    assert len(long.text) < 2_000
    assert (long.added, long.removed) == (1, 1)


def test_a_new_and_an_emptied_file() -> None:
    assert compare(b"", b"a\nb\n").text == "@@ -0,0 +1,2 @@\n+a\n+b"
    assert compare(b"a\n", b"").text == "@@ -1 +0,0 @@\n-a"
    assert compare(b"a\n", b"a\n").text == ""
    assert compare(b"a", b"a\n").text == "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a"
