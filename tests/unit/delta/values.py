"""Random JSON for the property tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

# Few letters, so that overlaps, equal items and colliding keys are common; some of them outside the basic plane.
texts = st.one_of(
    st.text(alphabet="ab🙂é", max_size=12),
    st.text(alphabet="ab🙂", min_size=40, max_size=90),
    st.text(max_size=6),
)
keys = st.sampled_from(["a", "b", "c", "text", "items", "🙂"])
scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.0, -0.0, 1.0, 0.5]),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
)
json_values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=6), st.dictionaries(keys, inner, max_size=5)),
    max_leaves=25,
)
# Lists whose items repeat, so that equal neighbours and several candidates for one item are the rule.
repetitive: st.SearchStrategy[Any] = st.lists(
    st.sampled_from([0, 1, True, "ab", [1], [True], {"a": 1}, {"a": 1, "b": [1, 1]}]), max_size=9
)
containers = st.one_of(
    repetitive,
    st.dictionaries(keys, repetitive, min_size=1, max_size=3),
    st.lists(json_values, max_size=6),
    st.dictionaries(keys, json_values, max_size=6),
)
