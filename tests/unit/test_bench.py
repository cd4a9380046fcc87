"""The benchmark's own rules: the form of its rows, how they are kept, and that the token measure counts what it says."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench import __main__ as bench_main
from bench.measures import tokens
from bench.results import KEYS, BenchError, Reach, Row, ratio_row, read_results, skipped, write_results
from bench.scripted_model import MODEL_NAME, UPDATE_MARK, EveryNth, PromptCache, ScriptedModel, bullet_text, marked, with_bullet
from memory import prompts
from memory.llm.tokens import counter_for
from memory.model.directory import ConsolidationMode
from memory.model.profile import EMPTY_PROFILE, SECTIONS, Profile, parse_body, render_body
from memory.model.turn import Turn
from memory.ports import ChatMessage, ChatRequest, PromptPart

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)


def exchanges(count: int) -> list[Turn]:
    return [
        Turn(
            turn_id=str(number),
            user_text=f"I moved the review of plan {number} to Thursday.",
            assistant_text="Then the texts are due on Wednesday.",
            occurred_at=START + timedelta(minutes=number),
        )
        for number in range(count)
    ]


# ---------------------------------------------------------------------------------------------------------------- rows


def test_a_row_has_the_agreed_keys_and_is_judged_by_its_reach() -> None:
    slow = ratio_row("load p50", [3.0, 5.0, 4.0], [2.0, 2.0, 2.0], compared_with="x", reach=Reach(most=1.5), unit_of_both="ms")
    row = slow.to_json("load")
    assert list(row)[: len(KEYS)] == list(KEYS)
    assert (row["value"], row["unit"], row["reach"], row["ok"]) == (2.0, "ratio", "≤ 1.5", False)
    assert (row["ours"], row["theirs"], row["rounds"], row["group"]) == (4.0, 2.0, [1.5, 2.5, 2.0], "load")
    json.dumps(row)


@pytest.mark.parametrize(
    ("row", "ok"),
    [
        (Row("m", 1.5, "ratio", "x", Reach(most=1.5)), True),
        (Row("m", 0.99, "ratio", "x", Reach(least=1.0)), False),
        (Row("m", 1.0, "ratio", "x", Reach(least=1.0)), True),
        (Row("m", 7.0, "MB", "x"), None),
        (skipped("m", "tokens", "x", "no data", Reach(most=1)), None),
        (Row("m", None, "", "", failed=True), False),
    ],
)
def test_ok_is_null_where_nothing_was_measured_or_nothing_is_demanded(row: Row, ok: bool | None) -> None:
    assert row.ok is ok
    assert row.to_json("g")["ok"] is ok


def test_a_reach_has_exactly_one_bound() -> None:
    for bounds in ({}, {"most": 1.0, "least": 1.0}):
        with pytest.raises(ValueError, match="either an upper or a lower"):
            Reach(**bounds)


def test_details_cannot_hide_a_key_of_the_row() -> None:
    with pytest.raises(ValueError, match="ok"):
        Row("m", 1.0, "ratio", "x", details={"ok": True}).to_json("g")


def test_a_run_of_one_measure_replaces_its_own_rows_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.json"
    order = ("tokens", "load")

    def row(measure: str, value: float, group: str) -> dict[str, object]:
        return Row(measure, value, "ratio", "x", Reach(most=1)).to_json(group)

    write_results(path, [row("load a", 1, "load"), row("load b", 2, "load"), row("tokens", 3, "tokens")], order=order)
    write_results(path, [row("load a", 4, "load")], order=order)
    kept = read_results(path)
    assert [(one["measure"], one["value"]) for one in kept] == [("tokens", 3), ("load a", 4)]
    write_results(path, [], order=("load",))
    assert [one["group"] for one in read_results(path)] == ["load"], "a measure that is no more has no rows"


@pytest.mark.parametrize("content", ["{", "{}", "[1]", '[{"measure": "m"}]'])
def test_a_foreign_results_file_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(content)
    with pytest.raises(BenchError, match="remove it"):
        write_results(path, [], order=("load",))
    assert path.read_text() == content


# ------------------------------------------------------------------------------------------------------------- command


def test_an_unknown_measure_is_named_together_with_those_that_exist() -> None:
    result = CliRunner().invoke(bench_main.app, ["--only", "lod"])
    assert result.exit_code == 2
    assert "lod" in result.output
    assert "after_answer" in result.output


def test_a_measure_that_breaks_is_a_row_and_an_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def breaks() -> list[Row]:
        raise BenchError("no engine")

    async def misses() -> list[Row]:
        return [Row("load p50", 2.0, "ratio", "x", Reach(most=1.5))]

    out = tmp_path / "results.json"
    monkeypatch.setitem(bench_main.MEASURES, "load", bench_main.Measure(misses, "load"))
    command = ["--only", "load", "--out", str(out)]
    assert CliRunner().invoke(bench_main.app, command).exit_code == 0
    assert CliRunner().invoke(bench_main.app, [*command, "--strict"]).exit_code == 1
    monkeypatch.setitem(bench_main.MEASURES, "load", bench_main.Measure(breaks, "load"))
    result = CliRunner().invoke(bench_main.app, command)
    assert result.exit_code == 1
    assert "no engine" in result.output
    (row,) = json.loads(out.read_text())
    assert (row["value"], row["ok"], row["note"]) == (None, False, "failed: no engine")


# ------------------------------------------------------------------------------------------------------ scripted model


def test_bullets_have_fifteen_words_and_are_never_alike() -> None:
    bullets = [bullet_text(number) for number in range(200)]
    assert {len(bullet.split()) for bullet in bullets} == {15}
    assert len(set(bullets)) == 200
    assert bullets == [bullet_text(number) for number in range(200)]
    assert bullet_text(1, seed=1) != bullet_text(1, seed=2)


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("profile", [EMPTY_PROFILE, Profile.of({name: [f"{name} one", "two"] for name in SECTIONS})])
def test_a_bullet_goes_to_the_end_of_its_section_and_nothing_else_changes(profile: Profile, section: str) -> None:
    text = render_body(profile).removeprefix("# User Memory").strip()
    changed = parse_body(with_bullet(text, section, "a new one"))
    assert [bullet.text for bullet in changed.section(section)] == [*(b.text for b in profile.section(section)), "a new one"]
    for name in SECTIONS:
        if name != section:
            assert changed.section(name) == profile.section(name)


async def test_the_mark_of_a_turn_decides_not_that_of_the_profile() -> None:
    profile = Profile.of({"Identity": [f"says {UPDATE_MARK} a lot"]})
    turns = exchanges(1)
    assert not marked(prompts.gate_request(profile, turns, reasoning=False, timeout_s=1).messages[0].text)
    told = [turns[0].model_copy(update={"user_text": f"{UPDATE_MARK} I moved."})]
    assert marked(prompts.gate_request(profile, told, reasoning=False, timeout_s=1).messages[0].text)


async def test_a_stage_that_the_script_does_not_have_is_an_error() -> None:
    request = ChatRequest("scrub", (PromptPart("x"),), (ChatMessage("user", (PromptPart("y"),)),), 10, 1.0)
    with pytest.raises(BenchError, match="scrub"):
        await ScriptedModel().complete(request)


def request_of(*parts: tuple[str, bool]) -> ChatRequest:
    return ChatRequest(
        "gate", (PromptPart(*parts[0]),), (ChatMessage("user", tuple(PromptPart(*part) for part in parts[1:])),), 10, 1.0
    )


def test_a_cache_serves_what_is_equal_up_to_a_mark() -> None:
    counter = counter_for("simulated", "")
    cache = PromptCache(counter)
    task, profile = ("Decide whether this matters.", True), ("- lives in Porto\n", True)
    assert cache.served(request_of(task, profile, ("hello", False))) == (0, 0, 0)
    by_mark, by_prefix, from_minimum = cache.served(request_of(task, profile, ("good day", False)))
    assert by_mark == counter.count(task[0] + profile[0])
    assert by_prefix >= by_mark
    assert from_minimum == 0, "too short for any provider's cache"
    by_mark, by_prefix, _ = cache.served(request_of(task, ("- lives in Lyon\n", True), ("good day", False)))
    assert by_mark == counter.count(task[0])
    assert by_prefix > by_mark, "the changed profile begins as the old one did"


# --------------------------------------------------------------------------------------------------------------- tokens


@pytest.mark.parametrize("mode", ConsolidationMode)
async def test_tokens_add_up_over_stages_and_parts(mode: ConsolidationMode) -> None:
    spent = await tokens.spend(exchanges(9), mode)
    assert (spent.turns, spent.updates) == (9, 3)
    assert {stage: one.calls for stage, one in spent.stages.items()} == {"gate": 9, "consolidate": 3}
    for one in spent.stages.values():
        assert one.input == sum(one.by_part.values())
        assert 0 < one.cached_by_mark <= one.cached_by_prefix < one.input
        assert all(one.by_part[part] > 0 for part in ("instructions", "profile", "exchange"))
    assert ("schema" in spent.stages["consolidate"].by_part) is (mode is ConsolidationMode.EDITS)
    assert spent.profile.bullet_count == 3
    incoming, outgoing, cached = (row.to_json("tokens") for row in tokens.rows_of(mode, spent))
    assert incoming["value"] == pytest.approx(sum(incoming["by_stage"].values()), abs=0.01)
    assert incoming["value"] == pytest.approx(sum(incoming["by_part"].values()), abs=0.01)
    assert outgoing["value"] == pytest.approx(sum(outgoing["by_stage"].values()), abs=0.01)
    assert 0 < cached["value"] < 1


async def test_both_modes_learn_the_same_profile_and_edits_say_less() -> None:
    rewrite, edits = [await tokens.spend(exchanges(12), mode, update_every=2) for mode in ConsolidationMode]
    assert rewrite.profile == edits.profile
    assert edits.stages["consolidate"].output < rewrite.stages["consolidate"].output
    assert edits.stages["gate"] == rewrite.stages["gate"]


async def test_a_run_that_leaves_the_script_is_not_measured() -> None:
    # The budget is soon full: the pipeline condenses, which is not what is to be counted.
    with pytest.raises(BenchError, match="condense"):
        await tokens.spend(exchanges(12), ConsolidationMode.REWRITE, update_every=1, max_tokens=150)


def test_the_gate_says_update_at_every_nth_question() -> None:
    every_third = EveryNth(3)
    assert [every_third("") for _ in range(6)] == [False, False, True, False, False, True]
    assert ScriptedModel().name == MODEL_NAME


def test_who_speaks_first_is_the_user_and_an_exchange_begins_with_the_user() -> None:
    def line(speaker: str, text: str, caption: str | None = None) -> dict[str, str]:
        return {"speaker": speaker, "text": text} | ({"blip_caption": caption} if caption else {})

    talk = {
        "speaker_a": "Ben",
        "speaker_b": "Ada",
        "session_1_date_time": "11:01 am on 17 December, 2025",
        "session_1": [line("Ada", "Hi!"), line("Ben", "Hello."), line("Ada", "Look.", "a red kite"), line("Ada", "Nice?")],
        "session_2_date_time": "12:24 am on 7 January, 2026",
        "session_2": [line("Ben", "Back again."), line("Ada", "Good."), line("Ben", "Yes."), line("Ben", "Very.")],
    }
    turns = tokens.turns_of(talk)
    assert [(turn.user_text, turn.assistant_text) for turn in turns] == [
        ("Hi!", "Hello."),
        ("Look. [photo: a red kite]\nNice?", None),
        ("Good.", "Yes.\nVery."),
    ]
    assert [turn.conversation_id for turn in turns] == ["1", "1", "2"]
    assert turns[2].occurred_at == datetime(2026, 1, 7, 0, 24, tzinfo=UTC)
    assert len({turn.turn_id for turn in turns}) == 3


async def test_without_the_data_the_rows_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "DATA", tmp_path / "locomo-dev.json")
    rows = [row.to_json("tokens") for row in await tokens.measure()]
    assert len(rows) == 6
    assert all(row["value"] is None and row["ok"] is None and row["note"].startswith("skipped: ") for row in rows)


@pytest.mark.parametrize("content", ["{", "[]", '[{"sample_id": "conv-41", "conversation": {"session_1": [{}]}}]'])
async def test_data_of_another_form_is_an_error_in_one_line(tmp_path: Path, content: str) -> None:
    path = tmp_path / "locomo-dev.json"
    path.write_text(content)
    with pytest.raises(BenchError, match="conv-41"):
        tokens.read_turns(path, "conv-41", 10)
