"""The golden set: every case with the simulated model through the real extraction and the real stores, and under misbehaviour."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from bench.evaluate import Report, as_json, main, throw_away_stores
from bench.evaluate import evaluate as evaluate_cases
from bench.golden import Case, load_cases, scores
from memory.categories import REGISTRY
from memory.llm.factory import build_models
from memory.llm.simulated_extraction_faults import INVENTED
from memory.model.category import Category
from memory.settings import Settings, load_settings

CASES = load_cases()


def settings(faults: str = "") -> Settings:
    return load_settings().model_copy(update={"embedder": "none", "simulated_faults": faults, "simulated_latency_ms": 0.0})


async def evaluated(faults: str = "") -> Report:
    chosen = settings(faults)
    models = build_models(chosen)
    try:
        async with throw_away_stores(chosen) as stores:
            return await evaluate_cases(models.model("simulated"), CASES, stores, simulated=True)
    finally:
        await models.aclose()


def told(report: Report) -> list[str]:
    """What is not as expected, for the message of a failing test."""
    return [
        f"{one.case.name}: missing {one.missing}, too much {one.extra}, forbidden {one.forbidden}, {one.error}"
        for one in report.failed
    ]


async def test_the_simulated_model_gets_every_case_right() -> None:
    report = await evaluated()
    assert told(report) == []
    for by in ("category", "language"):
        assert all(score.precision in (None, 1.0) and score.recall in (None, 1.0) for _, score in scores(report.verdicts, by=by))


@pytest.mark.parametrize(
    "faults", ["hallucinated=1", "double_handled=0.5,duplicated=0.5", "fenced=0.4,preamble=0.3,think=0.3"], ids=lambda plan: plan
)
async def test_a_misbehaving_model_stores_the_same(faults: str) -> None:
    """Made-up, repeated and handled items are kept out, whatever stands around the reply is taken off."""
    report = await evaluated(faults)
    assert told(report) == []
    assert INVENTED.split()[0] not in json.dumps(as_json(report), ensure_ascii=False)


async def test_a_broken_section_costs_that_section_at_most() -> None:
    """The second answer may be broken as well: then the category fails and something is missing, but nothing wrong is stored."""
    report = await evaluated("broken_section=0.5")
    assert not any(one.forbidden for one in report.verdicts)
    assert all(one.missing for one in report.verdicts if one.extra)
    assert all(one.error.startswith("MalformedOutput") for one in report.verdicts if one.error)
    assert len(report.failed) < len(CASES) / 2


def test_the_set_is_wide_enough() -> None:
    assert len(CASES) >= 48
    assert {"en", "de", "zh", "ja", "ko", "ar", "th", "fr"} <= {case.language for case in CASES}
    traps = {case.trap for case in CASES if case.trap}
    assert {
        "echo", "shield", "other_manager", "contradiction", "correction", "addition", "reassignment", "until_march",
        "near_duplicate", "how_to", "secret", "duty", "remember_that",
        "nameless_organisation", "name_learned_later", "merge_without_evidence",
        "empty_chunk", "prompt_text", "language_kept", "cjk", "right_to_left", "no_spaces", "emoji", "long_message",
    } <= traps  # fmt: skip


@pytest.mark.parametrize("category", [spec.category for spec in REGISTRY])
def test_every_category_of_the_registry_has_golden_cases(category: Category) -> None:
    """A new category comes with one case at least that expects something of it, and one that expects nothing."""
    asked = [case for case in CASES if category in case.categories]
    assert any(case.expect.get(category) for case in asked)
    assert any(not case.expect.get(category) for case in asked)


def test_what_the_simulated_model_cannot_do_is_said_and_is_little() -> None:
    """A real model is measured against the true expectation."""
    excused: list[Case] = [case for case in CASES if case.simulated]
    assert all(case.expectation(simulated=False) == case.expect != case.expectation(simulated=True) for case in excused)
    assert Counter(case.language for case in excused).keys().isdisjoint({"en", "de", "zh"})


def test_the_command_writes_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "report.json"
    assert main(["--only", "until_march", "--json", str(target)]) == 0
    written = json.loads(target.read_text(encoding="utf-8"))
    assert written["by_category"]["knowledge"]["recall"] == 1.0
    assert "precision" in capsys.readouterr().out


def test_the_command_fails_when_the_simulated_model_misses_a_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = {
        "name": "impossible", "about": "nobody said it", "language": "en", "categories": ["knowledge"],
        "windows": [[{"from": "user", "text": "Hello there."}]], "expect": {"knowledge": [{"words": ["the moon"]}]},
    }  # fmt: skip
    (tmp_path / "one.json").write_text(json.dumps([case]), encoding="utf-8")
    assert main(["--golden", str(tmp_path)]) == 1
    assert "MISSED impossible" in capsys.readouterr().out
    assert main(["--golden", str(tmp_path / "nowhere")]) == 2
    assert main(["--golden", str(tmp_path), "--model", "nobody:x"]) == 2
