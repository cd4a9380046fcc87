"""Uploads, saves and roll-backs: compare-and-swap, and the same effect however often they run."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from memory.model.errors import StoreUnavailable
from memory.model.profile import parse_body
from memory.model.steps import (
    EditInput,
    EditRequest,
    Plan,
    RollbackInput,
    RollbackRequest,
    TurnRef,
    UploadInput,
    WriteReply,
    WriteStatus,
)
from tests.activities.conftest import World

NOW = datetime(2026, 6, 17, tzinfo=UTC)
ROOT = "user-memory"
PLAN = Plan(turns=(TurnRef(turn_id="t1", attempt=0, ordinal=1),), root=ROOT)


async def stage(world: World, body: str) -> UploadInput:
    await world.profiles.prepare("acme")
    await world.tables.directory.provision_root("acme", ROOT)
    base = await world.profiles.read(world.scope, ROOT)
    document = world.profiles.compose(base, parse_body(body), scope=world.scope, rewrite=True, now=NOW)
    candidate = await world.profiles.stage(world.scope, document)
    return UploadInput(user=world.user, plan=PLAN, candidate=candidate, base_etag=base.etag, base_version=base.version)


async def upload(world: World, argument: UploadInput) -> WriteReply:
    return await ActivityEnvironment().run(world.profile.upload_profile, argument)


async def save(world: World, body: str, etag: str | None, edit_id: str = "e1") -> WriteReply:
    await world.profiles.prepare("acme")
    candidate = await world.profiles.stage(world.scope, body)
    request = EditRequest(edit_id=edit_id, candidate=candidate, expected_etag=etag)
    return await ActivityEnvironment().run(world.profile.edit_profile, EditInput(user=world.user, request=request))


async def body(world: World) -> str:
    return (await world.profiles.read(world.scope, ROOT)).document.body


async def versions(world: World) -> int:
    return len(await world.profiles.history(world.scope, ROOT))


async def test_an_upload_that_is_repeated_is_one_version(world: World) -> None:
    argument = await stage(world, "## Identity\n- Name: Ada\n")
    first, second = await upload(world, argument), await upload(world, argument)
    assert (first.status, first.version) == (WriteStatus.SAVED, 1)
    assert (second.status, second.version) == (WriteStatus.SAVED, 1)
    assert await versions(world) == 1


async def test_an_upload_whose_reply_was_lost_recognises_its_own_write(world: World) -> None:
    argument = await stage(world, "## Identity\n- Name: Ada\n")
    world.store.fail_next("put", StoreUnavailable("reply lost"), applied=True)
    try:
        first: WriteReply | str = await upload(world, argument)
    except ApplicationError as error:
        first = error.message
    second = await upload(world, argument)
    assert first == "reply lost" or isinstance(first, WriteReply)
    assert second.status is WriteStatus.SAVED
    assert await versions(world) == 1


async def test_an_upload_over_another_write_is_a_conflict_and_changes_nothing(world: World) -> None:
    argument = await stage(world, "## Identity\n- Name: Ada\n")
    await save(world, "## Identity\n- Mine\n", None)
    reply = await upload(world, argument)
    assert (reply.status, reply.version) == (WriteStatus.CONFLICT, 1)
    assert "Mine" in await body(world)


async def test_opting_out_while_the_turn_was_processed_leaves_the_profile_alone(world: World) -> None:
    argument = await stage(world, "## Identity\n- Name: Ada\n")
    await world.tables.directory.set_preference(world.scope, allow_user_memory=False)
    reply = await upload(world, argument)
    assert (reply.status, reply.reason) == (WriteStatus.OPTED_OUT, "user_opted_out")
    assert await versions(world) == 0
    assert await world.profiles.read_staged(world.scope, argument.candidate) is None


async def test_an_upload_that_was_done_before_the_user_opted_out_is_recorded_as_done(world: World) -> None:
    argument = await stage(world, "## Identity\n- Name: Ada\n")
    await upload(world, argument)
    await world.tables.directory.set_preference(world.scope, allow_user_memory=False)
    repeated = await upload(world, argument)
    assert (repeated.status, repeated.version) == (WriteStatus.SAVED, 1)
    assert await versions(world) == 1


async def test_a_root_that_changed_meanwhile_is_not_written_to(world: World) -> None:
    argument = await stage(world, "## Identity\n- Name: Ada\n")
    await world.tables.directory.provision_root("acme", "second")
    reply = await upload(world, argument)
    assert (reply.status, reply.reason) == (WriteStatus.FAILED, "root_changed")


async def test_an_edit_id_that_is_used_again_for_another_text_is_another_save(world: World) -> None:
    first = await save(world, "## Identity\n- One\n", None, "same")
    other = await save(world, "## Identity\n- Two\n", first.etag, "same")
    assert (first.status, other.status) == (WriteStatus.SAVED, WriteStatus.SAVED)
    assert "Two" in await body(world)


async def test_a_candidate_that_is_gone_keeps_the_profile(world: World) -> None:
    argument = await stage(world, "## Identity\n- Name: Ada\n")
    await world.profiles.drop_staged(world.scope, argument.candidate)
    reply = await upload(world, argument)
    assert (reply.status, reply.reason) == (WriteStatus.FAILED, "candidate_missing")


async def test_a_save_is_written_strictly_redacted_and_keeps_unknown_frontmatter(world: World) -> None:
    await upload(world, await stage(world, "## Identity\n- Name: Ada\n"))
    key = world.profiles.key(world.scope, ROOT)
    stored = await world.store.get(world.profiles.bucket("acme"), key)
    assert stored is not None
    foreign = stored.data.replace(b"schema_version: 1", b"schema_version: 1\ncolour: green")
    await world.store.put(world.profiles.bucket("acme"), key, foreign)
    etag = (await world.profiles.read(world.scope, ROOT)).etag
    secret = "ghp_" + "a1B2c3D4e5" * 4
    reply = await save(world, f"# My notes\n## identity\n* Name: Ada Lovelace\n\n## Hobbies\n- Chess\n- token {secret}\n", etag)
    now = await world.store.get(world.profiles.bucket("acme"), key)
    assert now is not None
    text = now.data.decode()
    assert reply.status is WriteStatus.SAVED
    assert "colour: green" in text
    assert "- Name: Ada Lovelace" in text
    assert "Chess" in text
    assert secret not in text
    assert text.count("\n## ") == 6


async def test_a_save_that_is_repeated_is_one_and_a_stale_one_is_refused(world: World) -> None:
    first = await save(world, "## Identity\n- One\n", None, "e1")
    again = await save(world, "## Identity\n- One\n", None, "e1")
    stale = await save(world, "## Identity\n- Two\n", None, "e2")
    same = await save(world, "## Identity\n- One\n", first.etag, "e3")
    assert (first.status, again.status) == (WriteStatus.SAVED, WriteStatus.SAVED)
    assert first.version == again.version == 1
    assert (stale.status, stale.etag) == (WriteStatus.CONFLICT, first.etag)
    assert same.status is WriteStatus.UNCHANGED
    assert await versions(world) == 1


async def test_a_roll_back_makes_the_old_text_the_newest_version(world: World) -> None:
    one = await save(world, "## Identity\n- One\n", None, "e1")
    two = await save(world, "## Identity\n- Two\n", one.etag, "e2")

    async def roll_back(to: int, edit_id: str, etag: str | None = None) -> WriteReply:
        request = RollbackRequest(edit_id=edit_id, to_version=to, expected_etag=etag)
        return await ActivityEnvironment().run(world.profile.rollback_profile, RollbackInput(user=world.user, request=request))

    done = await roll_back(1, "r1")
    repeated = await roll_back(1, "r1")
    missing = await roll_back(99, "r2")
    stale = await roll_back(2, "r3", two.etag)
    assert (done.status, done.version) == (WriteStatus.SAVED, 3)
    assert (repeated.status, repeated.version) == (WriteStatus.SAVED, 3)
    assert missing.status is WriteStatus.NOT_FOUND
    assert stale.status is WriteStatus.CONFLICT
    assert "One" in await body(world)
    assert await versions(world) == 3


async def test_what_turns_the_profile_holds_survives_saves_and_roll_backs(world: World) -> None:
    await upload(world, await stage(world, "## Identity\n- Name: Ada\n"))
    held = (await world.profiles.read(world.scope, ROOT)).applied_turns
    etag = (await world.profiles.read(world.scope, ROOT)).etag
    await save(world, "## Identity\n- Mine\n", etag)
    assert held
    assert (await world.profiles.read(world.scope, ROOT)).applied_turns == held


async def put_foreign(world: World, text: str) -> None:
    await world.profiles.prepare("acme")
    await world.store.put(world.profiles.bucket("acme"), world.profiles.key(world.scope, ROOT), text.encode())


async def roll_back(world: World, to: int, edit_id: str) -> WriteReply:
    request = RollbackRequest(edit_id=edit_id, to_version=to)
    return await ActivityEnvironment().run(world.profile.rollback_profile, RollbackInput(user=world.user, request=request))


async def stored_bytes(world: World) -> bytes:
    stored = await world.store.get(world.profiles.bucket("acme"), world.profiles.key(world.scope, ROOT))
    assert stored is not None
    return stored.data


async def test_a_roll_back_to_a_file_of_another_program_brings_no_secret_back(world: World) -> None:
    await put_foreign(world, "## Identity\n- Ada\n- Passwort: geheim-Krokodil7\n")
    foreign = await world.profiles.read(world.scope, ROOT)
    await save(world, "## Identity\n- Ada\n", foreign.etag)
    done = await roll_back(world, 1, "r1")
    assert (done.status, done.version) == (WriteStatus.SAVED, 3)
    assert b"Krokodil" not in await stored_bytes(world)


async def test_saving_what_was_shown_of_a_file_with_secrets_takes_them_out_of_the_store(world: World) -> None:
    await put_foreign(world, "## Identity\n- Ada\n- Passwort: geheim-Krokodil7\n")
    shown = await world.profiles.read(world.scope, ROOT)
    saved = await save(world, shown.document.body, shown.etag)
    assert (saved.status, saved.version) == (WriteStatus.SAVED, 2)
    assert b"Krokodil" not in await stored_bytes(world)


@pytest.mark.parametrize("way", ["edit", "empty edit", "roll-back", "stale edit"])
async def test_out_of_a_file_that_is_too_large(world: World, way: str) -> None:
    first = await save(world, "## Identity\n- Ada\n", None)
    await put_foreign(world, "- x\n" * 600_000)
    huge = await world.profiles.read(world.scope, ROOT, to_overwrite=True)
    if way == "stale edit":
        reply = await save(world, "## Identity\n- Ada L.\n", first.etag, "e2")
        assert (reply.status, reply.version, reply.etag) == (WriteStatus.CONFLICT, 2, huge.etag)
        return
    if way == "roll-back":
        reply = await roll_back(world, 1, "r1")
    else:
        reply = await save(world, "" if way == "empty edit" else "## Identity\n- Ada L.\n", huge.etag, "e2")
    assert (reply.status, reply.version) == (WriteStatus.SAVED, 3)
    assert ("Ada" in await body(world)) is (way != "empty edit")


async def test_a_roll_back_id_that_is_used_again_for_another_version_is_another_roll_back(world: World) -> None:
    one = await save(world, "## Identity\n- One\n", None, "e1")
    two = await save(world, "## Identity\n- Two\n", one.etag, "e2")
    await save(world, "## Identity\n- Three\n", two.etag, "e3")
    for version, says in ((1, "One"), (2, "Two")):
        assert (await roll_back(world, version, "same")).status is WriteStatus.SAVED
        assert says in await body(world)
