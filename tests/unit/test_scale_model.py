"""Figures of `docs/scale.md`: actions counted from histories, the model's arithmetic, and that the page shows what it gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory

from bench.actions import billable_actions
from bench.load.drive import plan_before, plan_turns
from bench.load.report import quantiles
from bench.load.texts import VOCABULARY, sentences, word
from bench.results import BenchError
from bench.scale_model import DOC, Assumptions, assumed, read_measured, render, shown, tables, written

HISTORIES = Path(__file__).parents[1] / "histories"


def actions(name: str) -> dict[str, int]:
    history = WorkflowHistory.from_json("run", (HISTORIES / f"{name}.json").read_text("utf-8"))
    return dict(billable_actions(history.events))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # The start with its signal is one action, however many markers one workflow task makes is one.
        ("post_answer/noop-by-gate", {"start": 1, "activity": 1, "local activities": 2, "search attributes": 1}),
        ("post_answer/noop-empty-exchange", {"start": 1, "local activities": 1, "search attributes": 1}),
    ],
)
def test_actions_are_counted_as_temporal_cloud_counts_them(name: str, expected: dict[str, int]) -> None:
    assert actions(name) == expected


def test_a_retry_is_an_action_of_its_own() -> None:
    assert actions("post_answer/update-after-rate-limit")["retry"] >= 1


def test_the_arithmetic_is_that_of_the_assumptions() -> None:
    measured = read_measured()
    given = Assumptions(daily_active=0.5, turns_per_day=4, peak=2, update_share=0.25, gate_s=0, rewrite_s=0, extract_s=0)
    lines = {line.what: line for part in tables(measured, given).values() for line in part}
    assert lines["turns per day, millions"].value(1_000_000) == 2
    assert lines["turns per second, peak"].value(1_000_000) == pytest.approx(2e6 / 86_400 * 2)
    per_turn = 0.75 * measured.actions_noop + 0.25 * measured.actions_update + measured.actions_window / 25
    assert lines["billable actions per turn, windows and heartbeats included"].value(1) == pytest.approx(per_turn)
    assert lines["buckets: two of a company"].value(100_000_000) == 200_000
    shards = lines["history shards (`numHistoryShards`)"].value
    assert (shards(1_000), shards(100_000_000).is_integer()) == (512, True)


def test_the_page_shows_what_the_model_gives() -> None:
    page = DOC.read_text("utf-8")
    assert written(page, render(read_measured(), Assumptions())) == page, "run: make scale ARGS=--write"


def test_an_assumption_has_a_name_and_a_number() -> None:
    assert assumed(["peak=8"]).peak == 8
    with pytest.raises(BenchError, match="no assumption pek"):
        assumed(["pek=8"])
    with pytest.raises(BenchError, match="needs a number"):
        assumed(["peak=much"])


def test_figures_have_three_digits_that_count() -> None:
    assert [shown(value) for value in (0, 1234567, 12.345, 0.012345, 5, 0.5)] == ["0", "1,230,000", "12.3", "0.0123", "5", "0.5"]


def test_a_load_is_planned_evenly_and_the_same_each_time() -> None:
    planned = plan_turns(1_000, 100, seed=7)
    assert planned == plan_turns(1_000, 100, seed=7)
    assert {turn.user for turn in planned[:100]} == set(range(100)), "all users before any a second time"
    assert len({turn.turn_id for turn in planned}) == 1_000
    assert 300 < sum(turn.update for turn in planned) < 367


def test_users_begin_at_all_places_of_a_window() -> None:
    before = plan_before(plan_turns(1_000, 400, seed=7), window=20, seed=7)
    assert len(before) == 400
    assert set(before.values()) == set(range(20))


def test_quantiles_are_values_that_were_measured() -> None:
    assert quantiles([]) is None
    assert quantiles(list(range(1, 101))) == {"p50": 50, "p95": 95, "p99": 99, "max": 100}
    assert quantiles([3.0]) == {"p50": 3.0, "p95": 3.0, "p99": 3.0, "max": 3.0}


def test_made_up_words_differ_and_texts_repeat() -> None:
    assert len({word(rank) for rank in range(1, VOCABULARY + 1)}) == VOCABULARY
    assert sentences("a", 30) == sentences("a", 30) != sentences("b", 30)
    assert len(sentences("a", 30).split()) == 30
