"""Restoring from backups as deploy/RUNBOOK.md says it: what comes back by itself, what by which step, and what does not."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from memory.model.erasure import ErasureState
from memory.model.scope import Scope
from memory.model.turn import Outcome
from memory.settings import Settings
from starter.engines import S3Server, TemporalServer
from starter.schedules import ensure_schedules
from tests.support.fleet import migrated_file, new_namespace, world_settings
from tests.support.stack import Stack, running_stack
from tests.support.waiting import until

ANN, BEN, CAY = Scope.of("acme", "ann"), Scope.of("acme", "ben"), Scope.of("acme", "cay")
SWEEPS_SOON = {"sweep_interval_s": 1, "sweep_grace_s": 0, "forget_settle_s": 0.2}


@pytest.fixture
def settings(tmp_path: Path, s3_server: S3Server) -> Settings:
    return world_settings(tmp_path / "data", migrated_file(tmp_path), s3_server.settings, **SWEEPS_SOON)


def database(settings: Settings) -> Path:
    return settings.data_dir / "afterturn.db"


def back_up(settings: Settings, to: Path) -> None:
    with sqlite3.connect(database(settings)) as source, sqlite3.connect(to) as copy:
        source.backup(copy)
    source.close()
    copy.close()


def put_back(settings: Settings, backup: Path) -> None:
    for left in settings.data_dir.glob("afterturn.db*"):
        left.unlink()
    shutil.copyfile(backup, database(settings))


async def body(world: Stack, scope: Scope) -> tuple[int, str]:
    profile = await world.memory.get_profile(scope)
    return profile.version, profile.body


async def forget(world: Stack, scope: Scope) -> None:
    begun = await world.memory.forget(scope)

    async def emptied() -> bool:
        receipt = await world.memory.erasure(begun.tenant, begun.erasure_id)
        return receipt is not None and receipt.state is not ErasureState.RUNNING

    await until(emptied, within_s=60, what="all stores are emptied")


async def test_an_older_database_with_younger_profiles_without_temporal_and_vectors(
    tmp_path: Path, settings: Settings, temporal_server: TemporalServer
) -> None:
    backup = tmp_path / "backup.db"
    lost = await new_namespace(temporal_server.address)
    async with running_stack(lost, settings) as world:
        await world.say(ANN, "My name is Ann and I work at Globex.", turn_id="before")
        await world.say(BEN, "My name is Ben and I live in Porto.", turn_id="ben")
        await world.settle(ANN, BEN)
    async with running_stack(lost, settings, workers=False) as world:
        # Nobody works now: this turn is in the backup without an outcome.
        await world.say(ANN, "I live in Lisbon.", turn_id="pending")
        await world.memory.add_facts(ANN, ["The permit is valid until March."])
        back_up(settings, backup)
    async with running_stack(lost, settings) as world:
        await world.settle(ANN)
        await world.say(ANN, "I have a dog called Rex.", turn_id="after")
        await world.settle(ANN)
        await world.memory.add_facts(ANN, ["The site opens on 4 May."])
        await world.memory.set_preference(CAY, allow_user_memory=False)
        await forget(world, BEN)
        newest = await body(world, ANN)
        assert "Lisbon" in newest[1]

    # The database comes back as it was; Temporal and the vectors begin anew; the profiles are as they were last.
    put_back(settings, backup)
    shutil.rmtree(settings.data_dir / "vectors")
    async with running_stack(await new_namespace(temporal_server.address), settings) as world:
        assert (await world.parts.index.reindex())["facts"] == 1, "the fact of after the backup is gone, with its row"
        assert await world.memory.search_facts(ANN, "permit")
        await ensure_schedules(world.client, settings)

        # Nobody signals: the sweep starts what is due in the ledger.
        async def settled() -> bool:
            return (await world.ledger(ANN))["pending"].outcome is not None

        await until(settled, within_s=60, what="the sweep starts the turn that was pending")
        ledger = await world.ledger(ANN)
        assert set(ledger) == {"before", "pending"}, "a turn of after the backup is no longer in the ledger"
        assert ledger["pending"].outcome is Outcome.UPDATED
        assert "already_applied" in ledger["pending"].flags, "the profile names the turns that it holds"
        assert await body(world, ANN) == newest, "and keeps what the lost turn had taught"

        # What persons had decided after the backup comes back undone.
        assert (await world.memory.enablement(CAY)).active
        assert await world.ledger(BEN), "a forgotten user's rows are back"
        assert not (await world.memory.get_profile(BEN)).body.strip()
        await forget(world, BEN)
        assert not await world.ledger(BEN)


async def test_older_profiles_with_a_younger_database_are_repaired_by_nothing(
    settings: Settings, temporal_server: TemporalServer
) -> None:
    async with running_stack(await new_namespace(temporal_server.address), settings) as world:
        await world.say(ANN, "My name is Ann and I work at Globex.", turn_id="one")
        await world.settle(ANN)
        await world.say(ANN, "I live in Lisbon.", turn_id="two")
        await world.settle(ANN)
        # The object store comes back as it was before the second turn.
        profiles = world.parts.profiles
        ((bucket, _), versions), *_ = (await profiles.left_of(ANN)).items()
        assert len(versions) == 2
        newest = next(one for one in versions if one.is_latest)
        await world.parts.profiles._store.delete(bucket, newest.key, newest.version_id)
        profiles.forget_recent(ANN)
        assert "Lisbon" not in (await body(world, ANN))[1]
        assert (await world.ledger(ANN))["two"].outcome is Outcome.UPDATED
        assert not (await world.memory.rerun(scope=ANN)).reopened, "for the ledger it was done"
        # The messages are there still, and can be handed over as a new turn.
        assert await world.memory.search_events(ANN, "Lisbon")
        await world.say(ANN, "I live in Lisbon.", turn_id="two, again")
        await world.settle(ANN)
        assert "Lisbon" in (await body(world, ANN))[1]
