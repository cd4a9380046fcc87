"""Lines that show the entries of a loop to a person."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memory.model.knowledge_loop import Entry, EntryKind
from starter.cli.operations import attach_command
from starter.loop_view import SHOWN_CHARS, entry_lines


def lines(kind: EntryKind, step: int = 3, **body: Any) -> list[str]:
    return [line for line, _ in entry_lines(Entry("key", kind, step, body))]


def result(content: Any, *, is_error: bool = False) -> str:
    (line,) = lines(EntryKind.RESULT, name="filter", content=json.dumps(content), is_error=is_error)
    return line.strip()


def test_calls_are_shown_one_a_line_with_the_thought_before() -> None:
    calls = [{"name": "filter", "arguments": {"tables": ["Ä"], "limit": 5}}, {"name": "reduce", "arguments": None, "raw": "{"}]
    assert lines(EntryKind.MODEL, text="Let me look.\nNow.", calls=calls) == [
        "     Let me look. Now.",
        '  3  filter(tables=["Ä"], limit=5)',
        "  3  reduce(…)",
    ]
    assert lines(EntryKind.MODEL, text="Three.", calls=[]) == ["  3  answers"]


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ({"A": [], "B": []}, "→ A: 0 rows, B: 0 rows"),
        ({"A": [{"row_id": 0, "name": "x"}], "B": []}, '→ A: 1 row, B: 0 rows; row_id=0, name="x"'),
        ([{"x": None}, {"x": 1}], "→ 2 rows; x=null"),
        (12, "→ 12"),
        ({"2023": 5}, '→ {"2023": 5}'),
    ],
)
def test_what_a_tool_gave(content: Any, shown: str) -> None:
    assert result(content) == shown


def test_an_error_is_its_code_and_message() -> None:
    assert result({"error": "unknown_table", "message": "there is no T"}, is_error=True) == "→ unknown_table: there is no T"
    assert result("broken", is_error=True) == '→ "broken"'


def test_nothing_reaches_the_terminal_as_a_control_sequence_and_lines_are_bounded() -> None:
    (line,) = lines(EntryKind.NOTICE, text="a\x1b[31mb\u202e" + "x" * 1_000)
    assert "\x1b" not in line
    assert "\u202e" not in line
    assert len(line) <= SHOWN_CHARS + 5


@pytest.mark.parametrize(
    ("tenant", "user", "data_dir", "shown"),
    [
        ("demo", "me", None, "afterturn knowledge attach l1"),
        ("demo", "sue", None, "afterturn knowledge attach l1 -u sue"),
        ("acme", "o'neil x", Path("/a b"), "afterturn --data-dir '/a b' knowledge attach l1 -t acme -u 'o'\"'\"'neil x'"),
    ],
)
def test_what_follows_a_loop_again_names_its_user(tenant: str, user: str, data_dir: Path | None, shown: str) -> None:
    assert attach_command("l1", tenant, user, data_dir) == shown


@pytest.mark.parametrize("kind", list(EntryKind))
def test_every_kind_of_entry_is_shown(kind: EntryKind) -> None:
    assert lines(kind, text="t", question="q", content="c", calls=[], reason="r")
