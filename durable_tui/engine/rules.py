"""The rules that decide what becomes of found work, as sentences for people (spec 15, 17.4)."""

from __future__ import annotations

RULES: dict[str, str] = {
    "6.8": "What is marked to be stopped is stopped, also after a crash",
    "6.9": "What cannot go on here is kept as it is, or ended in order",
    "6.11": "A task that keeps dying is parked until a person decides",
    "6.12": "What waits for a time, an answer or a person goes on waiting",
    "10": "An effect that may have happened is never repeated unasked",
    "15": "Unfinished work goes on from its last stored step",
}
UNKNOWN = "A rule this version does not know"


def rule_sentence(rule: str) -> str:
    """Return what a stored rule says, with the section it stands in: `SENTENCE (spec 10)`.

    `rule` is the `rule` of a recovery row: a number, or in older files the word "contract" and a number.
    """
    number = rule.rpartition(" ")[2]
    return f"{RULES.get(number, UNKNOWN)} (spec {number})"
