"""Ids from outside can neither leave their folder nor meet another user's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.model.errors import InvalidInput
from memory.model.ids import decode_segment, encode_segment, is_segment, short_hash
from memory.model.scope import Scope

# Surrogates too: they come in through JSON escapes.
anything = st.text(st.characters(), min_size=1, max_size=60)
HOSTILE = [
    *("/", "..", "../../etc/passwd", "%2e%2e", "a\x00b", ".hidden", "x" * 1000, "🧠" * 300, "\ud83d", "a/b", "a=2Fb"),
    *("A", "a", "ä", "a\u0308", " ", "CON", "a.", ".", "a..b"),
]


@given(anything)
def test_a_segment_is_plain_ascii_and_comes_back(raw: str) -> None:
    segment = encode_segment(raw)
    assert is_segment(segment)
    assert not set(segment) & set("/\\%\x00 ")
    assert not segment.startswith(".")
    assert segment not in {".", ".."}
    assert len(segment) <= 160
    if "=h" not in segment:
        assert decode_segment(segment) == raw


@given(anything, anything)
def test_two_ids_never_meet(one: str, other: str) -> None:
    assert (encode_segment(one) == encode_segment(other)) == (one == other)


def test_hostile_ids_are_all_different_and_stay_inside() -> None:
    segments = [encode_segment(raw) for raw in HOSTILE]
    assert len(set(segments)) == len(HOSTILE)
    # A file system that ignores case must not join two of them beyond what differs in case alone.
    assert all(".." not in segment for segment in segments)


def test_long_ids_keep_a_readable_head_and_differ() -> None:
    one, other = encode_segment("x" * 999 + "a"), encode_segment("x" * 999 + "b")
    assert one != other
    assert one.startswith("xxxx")
    assert len(one) <= 160


@pytest.mark.parametrize("bad", ["", "x" * 5000])
def test_empty_and_endless_ids_are_refused_by_name(bad: str) -> None:
    with pytest.raises(InvalidInput, match="user id"):
        Scope.of("acme", bad)


def test_a_scope_of_raw_ids_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"Scope\.of"):
        Scope("acme", "a/b")


def test_the_workflow_id_fits_the_servers_limit() -> None:
    long = [Scope.of(tenant, user) for tenant in ("x" * 4000, "x" * 160, "Ж" * 26) for user in ("🧠" * 4000, "y" * 160, "y" * 159)]
    ids = {scope.post_answer_workflow_id for scope in long}
    assert len(ids) == len(long)
    # The columns for workflow ids in the SQL schemas of the server.
    assert max(len(workflow_id) for workflow_id in ids) <= 255
    assert Scope.of("acme", "a/b").post_answer_workflow_id == "post-answer/acme/a=2Fb"


def test_effect_keys_depend_on_where_the_parts_end() -> None:
    assert short_hash("ab", "c") != short_hash("a", "bc")
