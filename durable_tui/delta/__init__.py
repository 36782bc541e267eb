"""Immutable JSON revisions, drafts that record the smallest natural ops, and the ops themselves (spec 5). Pure.

The floor everything else stands on: it reads and writes nothing and knows no record. A frozen value is a `dict` or
`list` that cannot change; a `DraftRoot` is edited like ordinary data and yields the next revision together with the
ops that lead to it, so that `apply_ops(base, ops)` is that revision, always.
"""

from durable_tui.delta.diff import diff
from durable_tui.delta.draft import Draft, DraftClosed, DraftDict, DraftList, DraftRoot, current
from durable_tui.delta.frozen import (
    MAX_DEPTH,
    FrozenDict,
    FrozenList,
    Json,
    JsonError,
    JsonObject,
    clean_text,
    freeze,
    same,
    thaw,
    utf16_length,
)
from durable_tui.delta.json import dumps, loads
from durable_tui.delta.ops import Op, OpError, apply_ops

__all__ = [
    "MAX_DEPTH",
    "Draft",
    "DraftClosed",
    "DraftDict",
    "DraftList",
    "DraftRoot",
    "FrozenDict",
    "FrozenList",
    "Json",
    "JsonError",
    "JsonObject",
    "Op",
    "OpError",
    "apply_ops",
    "clean_text",
    "current",
    "diff",
    "dumps",
    "freeze",
    "loads",
    "same",
    "thaw",
    "utf16_length",
]
