"""The example of docs/changing.md holds what it says: which code goes on with which history."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from starter.replay import replay_files
from tests.replay.example import before, careless, deprecated, patched

ROOT = Path(__file__).parents[2]
HISTORIES = Path(__file__).parent / "example" / "histories"
CODE: dict[str, type] = {
    "before": before.DigestWorkflow,
    "careless": careless.DigestWorkflow,
    "patched": patched.DigestWorkflow,
    "deprecated": deprecated.DigestWorkflow,
}


def told() -> dict[tuple[str, str], bool]:
    """The document's table: (history, code) → replays."""
    text = (ROOT / "docs" / "changing.md").read_text("utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]
    start = next(number for number, row in enumerate(rows) if row[0] == "history of")
    names = rows[start][1:]
    table = {
        (row[0], name): {"replays": True, "stops": False}[cell]
        for row in rows[start + 1 :]
        if len(row) == len(names) + 1 and row[0] in CODE
        for name, cell in zip(names, row[1:], strict=True)
    }
    assert len(table) == 12
    return table


@pytest.mark.parametrize("code", CODE)
async def test_each_history_goes_on_with_the_code_that_the_document_says(code: str) -> None:
    report = await replay_files(HISTORIES, workflows=(CODE[code],))
    found = {(result.name.removesuffix(".json"), code): result.ok for result in report.results}
    assert found == {place: ok for place, ok in told().items() if place[1] == code}
    assert all(result.ok or result.diverged for result in report.results)


def test_the_code_in_the_document_is_the_code_that_is_tested() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "changing.md").read_text("utf-8"), re.DOTALL)
    for block, module in zip(blocks, (before, patched, deprecated), strict=True):
        assert block in inspect.getsource(module), module.__name__
