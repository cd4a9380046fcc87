"""Claiming: which turns go together, with which settings, and when none may be handled."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from temporalio.testing import ActivityEnvironment

from memory.model.directory import ConsolidationMode, SpaceSettings
from memory.model.enablement import ReasonCode
from memory.model.steps import FinishInput, Plan, StageUsage
from memory.model.turn import Outcome
from tests.activities.conftest import World
from tests.support.stack import make_turn

NOW = datetime(2026, 6, 17, tzinfo=UTC)


async def record(world: World, *turns: object) -> None:
    for turn in turns:
        await world.tables.log.record_turn(world.scope, turn, now=NOW)  # type: ignore[arg-type]


async def claim(world: World, **changes: object) -> Plan:
    return await ActivityEnvironment().run(world.turns(**changes).claim_turns, world.user)


async def test_nothing_due_is_an_empty_plan(world: World) -> None:
    plan = await claim(world)
    assert (plan.turns, plan.skipped) == ((), ())


async def test_turns_come_in_the_order_of_recording_and_together_up_to_the_limit(world: World) -> None:
    await record(world, *(make_turn(f"fact {n}", turn_id=f"t{n}") for n in range(5)))
    plan = await claim(world, coalesce_max_turns=3)
    assert [ref.turn_id for ref in plan.turns] == ["t0", "t1", "t2"]
    assert plan.more
    assert [ref.ordinal for ref in plan.turns] == [1, 2, 3]


async def test_without_coalescing_one_turn_at_a_time(world: World) -> None:
    await record(world, make_turn("a", turn_id="a"), make_turn("b", turn_id="b"))
    plan = await claim(world, coalesce_max_turns=1)
    assert [ref.turn_id for ref in plan.turns] == ["a"]


@pytest.mark.parametrize(
    "other",
    [{"space_id": "other"}, {"language_model": "openai:x"}, {"web_search": True}, {"user_text": None, "assistant_text": None}],
)
async def test_turns_of_another_kind_wait_for_the_next_batch(world: World, other: dict[str, object]) -> None:
    fields: dict[str, object] = {"user_text": "b", **other}
    await record(world, make_turn("a", turn_id="a"), make_turn(turn_id="b", **fields))  # type: ignore[arg-type]
    plan = await claim(world)
    assert [ref.turn_id for ref in plan.turns] == ["a"]
    assert plan.more


async def test_the_plan_carries_the_settings_of_the_space(world: World) -> None:
    settings = SpaceSettings(
        use_orchestrator_language_model=False,
        language_model="openai:small",
        max_tokens=900,
        consolidation_gate_enabled=False,
        consolidation_mode=ConsolidationMode.EDITS,
        privacy_scrub=True,
        show_update_notice=False,
    )
    await world.tables.directory.save_space("acme", "sales", settings)
    await record(world, make_turn("a", space_id="sales", language_model="openai:large", conversation_id="c1"))
    plan = await claim(world)
    assert (plan.model, plan.max_tokens, plan.gate, plan.mode) == ("openai:small", 900, False, ConsolidationMode.EDITS)
    assert (plan.privacy_scrub, plan.notice, plan.conversation_ids) == (True, False, ("c1",))


async def test_the_turns_own_model_is_used_by_default_and_the_deployments_when_it_names_none(world: World) -> None:
    await record(world, make_turn("a", language_model="openai:large"), make_turn("b"))
    assert (await claim(world)).model == "openai:large"
    await world.tables.log.finish(world.scope, [], now=NOW)
    first = (await claim(world)).turns
    await finish(world, FinishInput(user=world.user, turns=first, outcome=Outcome.NOOP))
    assert (await claim(world)).model == "simulated"


async def finish(world: World, done: FinishInput) -> None:
    await ActivityEnvironment().run(world.turns().finish_turns, done)


async def test_the_root_is_provisioned_on_first_use_and_used_from_then_on(world: World) -> None:
    await record(world, make_turn("a"))
    assert [root.folder for root in await world.tables.directory.roots("acme")] == []
    assert (await claim(world)).root == "user-memory"
    assert [root.folder for root in await world.tables.directory.roots("acme")] == ["user-memory"]


async def test_two_active_roots_skip_the_turn_and_say_so(world: World) -> None:
    for folder in ("user-memory", "old-memory"):
        await world.tables.directory.provision_root("acme", folder)
    await record(world, make_turn("a", turn_id="a"))
    plan = await claim(world)
    assert [ref.turn_id for ref in plan.skipped] == ["a"]
    assert plan.skip_reason == ReasonCode.ROOT_CLASH
    await world.tables.directory.remove_root("acme", "old-memory")
    assert [ref.turn_id for ref in (await claim(world)).turns] == ["a"]


@pytest.mark.parametrize("changes", [{"feature_flag": False}, {"feature_flag": frozenset({"someone-else"})}])
async def test_a_company_without_the_flag_is_skipped(world: World, changes: dict[str, object]) -> None:
    await record(world, make_turn("a"))
    plan = await claim(world, **changes)
    assert (plan.turns, plan.skip_reason) == ((), ReasonCode.FEATURE_FLAG_OFF)


async def test_finishing_records_outcome_tokens_and_times_once(world: World) -> None:
    await record(world, make_turn("a", turn_id="a"), make_turn("b", turn_id="b"))
    plan = await claim(world)
    usage = {"gate": StageUsage(input_tokens=10, output_tokens=1, calls=1)}
    done = FinishInput(
        user=world.user, turns=plan.turns, outcome=Outcome.UPDATED, profile_version=3, usage=usage, durations_ms={"gate": 5}
    )
    await finish(world, done)
    await finish(world, done.model_copy(update={"outcome": Outcome.KEPT}))
    rows = {row.turn_id: row for row in await world.tables.log.summaries(scope=world.scope)}
    assert {row.outcome for row in rows.values()} == {Outcome.UPDATED}
    assert rows["a"].usage["gate"]["input_tokens"] == 10
    assert rows["b"].usage == {}
    assert rows["a"].profile_version == rows["b"].profile_version == 3


async def test_a_space_that_cannot_be_read_keeps_its_turns_and_holds_up_no_other(world: World) -> None:
    from sqlalchemy import text

    await world.tables.directory.save_space("acme", "broken", SpaceSettings(max_tokens=900))
    with world.tables.engine.begin() as connection:
        connection.execute(text('UPDATE space_settings SET settings = \'{"consolidation_mode": "diff"}\''))
    await record(world, make_turn("a", turn_id="a", space_id="broken"), make_turn("b", turn_id="b"))
    plan = await claim(world)
    assert [ref.turn_id for ref in plan.skipped] == ["a"]
    assert (plan.skip_outcome, plan.skip_reason) == (Outcome.KEPT, "invalid_space_settings")
    done = FinishInput(user=world.user, turns=plan.skipped, outcome=plan.skip_outcome, reason=plan.skip_reason)
    following = await ActivityEnvironment().run(world.turns().finish_turns, done)
    assert [ref.turn_id for ref in following.turns] == ["b"]
