"""Profiles over an object store: on the in-memory store and on a real S3 server."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from itertools import combinations

import pytest

from memory.model.errors import InvalidInput, ProfileConflict, StoreUnavailable, UnreadableProfile
from memory.model.ids import encode_segment
from memory.model.profile import EMPTY_PROFILE, SECTIONS, Bullet, Profile
from memory.model.scope import Scope
from memory.ports import ObjectStore, PreconditionFailed
from memory.profiles import MAX_DOCUMENT_BYTES, Profiles, ProfileSnapshot, Written, candidate_name
from memory.stores.objects.memory import MemoryObjectStore
from memory.stores.objects.minio import MinioObjectStore
from tests.contract.test_object_store import HOSTILE_IDS
from tests.support.engines import unique_bucket_prefix

ROOT = "user-memory"
NOW = datetime(2026, 6, 17, 12, 0, tzinfo=UTC)
SCOPE = Scope.of("acme", "user_123")


@pytest.fixture(params=["memory", "s3"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[ObjectStore]:
    if request.param == "memory":
        yield MemoryObjectStore()
        return
    adapter = MinioObjectStore.from_settings(request.getfixturevalue("s3_settings")())
    yield adapter
    await adapter.aclose()


@pytest.fixture
def profiles(store: ObjectStore) -> Profiles:
    return Profiles(store, bucket_prefix=unique_bucket_prefix())


def saying(*bullets: str) -> Profile:
    return Profile.of({"Identity": bullets})


def said(snapshot: ProfileSnapshot | None) -> list[str]:
    assert snapshot is not None
    return [bullet.text for bullet in snapshot.document.profile.section("Identity")]


async def write(
    profiles: Profiles,
    base: ProfileSnapshot,
    *bullets: str,
    key: str,
    scope: Scope = SCOPE,
    cause: str = "turns",
    turns: tuple[str, ...] = (),
) -> Written:
    document = profiles.compose(base, saying(*bullets), scope=scope, rewrite=cause == "turns", now=NOW)
    return await profiles.commit(
        scope,
        ROOT,
        document,
        base_etag=base.etag,
        base_version=base.version,
        write_key=key,
        cause=cause,
        applied_turns=turns,
    )


async def grow(profiles: Profiles, count: int) -> list[Written]:
    written: list[Written] = []
    for number in range(1, count + 1):
        written.append(await write(profiles, await profiles.read(SCOPE, ROOT), f"fact {number}", key=f"w{number}"))
    return written


# ------------------------------------------------------------------------------------------------------------------ reading


async def test_without_a_profile_reading_is_empty_and_creates_nothing(profiles: Profiles, store: ObjectStore) -> None:
    snapshot = await profiles.read(SCOPE, ROOT)
    assert (snapshot.exists, snapshot.version, snapshot.etag, snapshot.write_key) == (False, 0, None, None)
    assert snapshot.document.profile == EMPTY_PROFILE
    assert snapshot.document.frontmatter.user_id == "user_123"
    assert await profiles.history(SCOPE, ROOT) == []
    assert await profiles.read_version(SCOPE, ROOT, 1) is None
    assert await profiles.read_staged(SCOPE, "0" * 64) is None
    with pytest.raises(StoreUnavailable):  # there is still no bucket
        await store.put(profiles.bucket(SCOPE.tenant), "k", b"")


async def test_a_write_is_read_back_with_all_that_is_known_of_it(profiles: Profiles) -> None:
    written = await write(profiles, await profiles.read(SCOPE, ROOT), "Ada, Berlin 🧠", key="k1", turns=("t1", "t2"))
    snapshot = await profiles.read(SCOPE, ROOT)
    assert said(snapshot) == ["Ada, Berlin 🧠"]
    assert (snapshot.exists, snapshot.version, snapshot.etag) == (True, 1, written.etag)
    assert snapshot.version_id == written.version_id
    assert (snapshot.write_key, snapshot.cause, snapshot.applied_turns) == ("k1", "turns", ("t1", "t2"))
    assert snapshot.modified_at is not None
    assert abs(snapshot.modified_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert not written.repeated


async def test_a_profile_is_read_by_one_request() -> None:
    store = MemoryObjectStore()
    profiles = Profiles(store, bucket_prefix="afterturn")
    await grow(profiles, 3)
    store.calls.clear()
    await profiles.read(SCOPE, ROOT)
    assert store.calls == {"get": 1}


async def test_the_object_is_where_the_contract_says_and_marked(profiles: Profiles, store: ObjectStore) -> None:
    await grow(profiles, 1)
    stored = await store.get(profiles.bucket("acme"), "user-memory/user_123/memory.md")
    assert stored is not None
    assert stored.data.startswith(b"---\nuser_id: user_123\n")
    assert stored.info.metadata["hidden-from-chat"] == "true"
    assert stored.info.metadata["no-ingestion"] == "true"


async def test_a_root_is_unused_until_a_profile_lies_under_it(profiles: Profiles, store: ObjectStore) -> None:
    assert await profiles.is_unused("acme", ROOT)
    await grow(profiles, 1)
    assert not await profiles.is_unused("acme", ROOT)
    assert await profiles.is_unused("acme", "user")
    assert await profiles.is_unused("other", ROOT)
    await store.delete(profiles.bucket("acme"), profiles.key(SCOPE, ROOT))
    assert await profiles.is_unused("acme", ROOT)
    with pytest.raises(InvalidInput):
        await profiles.is_unused("acme", "../x")


async def test_a_missing_user_reads_empty_beside_others(profiles: Profiles) -> None:
    await grow(profiles, 1)
    assert not (await profiles.read(Scope.of("acme", "user_12"), ROOT)).exists
    assert not (await profiles.read(Scope.of("other", "user_123"), ROOT)).exists
    assert not (await profiles.read(SCOPE, "other-root")).exists


# -------------------------------------------------------------------------------------------------------- files of others


async def put_foreign(profiles: Profiles, store: ObjectStore, data: bytes, metadata: dict[str, str] | None = None) -> None:
    await profiles.prepare(SCOPE.tenant)
    await store.put(profiles.bucket(SCOPE.tenant), profiles.key(SCOPE, ROOT), data, metadata=metadata)


async def test_a_file_of_another_tool_is_read_and_can_be_written_over(profiles: Profiles, store: ObjectStore) -> None:
    await put_foreign(profiles, store, b"\xef\xbb\xbf## Identity\r\n- Ada\r\n\r\n## Notes\r\n- likes tea\r\n")
    snapshot = await profiles.read(SCOPE, ROOT)
    assert said(snapshot)[0] == "Ada"
    assert "likes tea" in [line for name in SECTIONS for bullet in snapshot.document.profile.section(name) for line in bullet.lines]
    assert (snapshot.exists, snapshot.version, snapshot.write_key, snapshot.applied_turns) == (True, 1, None, ())
    written = await write(profiles, snapshot, "Ada L.", key="k")
    assert written.version == 2
    assert [info.version for info in await profiles.history(SCOPE, ROOT)] == [2, 1]


async def test_versions_go_on_over_a_write_of_another_tool(profiles: Profiles, store: ObjectStore) -> None:
    await grow(profiles, 3)
    await put_foreign(profiles, store, b"## Identity\n- by hand\n")
    await put_foreign(profiles, store, b"## Identity\n- by hand again\n")
    snapshot = await profiles.read(SCOPE, ROOT)
    assert (snapshot.version, snapshot.write_key, said(snapshot)) == (5, None, ["by hand again"])
    assert (await write(profiles, snapshot, "next", key="k")).version == 6
    assert [info.version for info in await profiles.history(SCOPE, ROOT)] == [6, 5, 4, 3, 2, 1]
    assert said(await profiles.read_version(SCOPE, ROOT, 4)) == ["by hand"]
    assert said(await profiles.read_version(SCOPE, ROOT, 3)) == ["fact 3"]


async def test_copied_metadata_does_not_pass_for_our_write(profiles: Profiles, store: ObjectStore) -> None:
    await write(profiles, await profiles.read(SCOPE, ROOT), "one", key="w1", turns=("t1",))
    ours = await store.head(profiles.bucket(SCOPE.tenant), profiles.key(SCOPE, ROOT))
    assert ours is not None
    await put_foreign(profiles, store, b"## Identity\n- edited in place\n", dict(ours.metadata))
    snapshot = await profiles.read(SCOPE, ROOT)
    assert (snapshot.version, snapshot.write_key, snapshot.cause) == (2, None, None)
    assert snapshot.applied_turns == ("t1",)
    assert said(snapshot) == ["edited in place"]


@pytest.mark.parametrize("version", ["", "x", "-1", "²", "9" * 40])
async def test_a_version_number_that_is_none_is_counted(profiles: Profiles, store: ObjectStore, version: str) -> None:
    await put_foreign(profiles, store, b"- x\n", {"version": version} if version.isascii() else {})
    assert (await profiles.read(SCOPE, ROOT)).version == 1


async def test_bytes_that_are_not_utf8_are_read_with_replacement(profiles: Profiles, store: ObjectStore) -> None:
    await put_foreign(profiles, store, b"## Identity\n- caf\xe9\n")
    assert said(await profiles.read(SCOPE, ROOT)) == ["caf\ufffd"]


SECRETS = "- Ada\n- Passwort: geheim-Krokodil7\n- key sk-ant-api03-" + "A1b2C3d4" * 11 + "\n"


@pytest.mark.parametrize("padding", [0, 3_000], ids=["short", "long"])
async def test_secrets_of_another_tool_stay_behind(profiles: Profiles, store: ObjectStore, padding: int) -> None:
    written = (await grow(profiles, 1))[0]
    await put_foreign(
        profiles, store, f"---\nnote: 'password: geheim-Krokodil7'\n---\n## Identity\n{SECRETS}{'- x' * padding}".encode()
    )
    snapshot = await profiles.read(SCOPE, ROOT)
    assert (snapshot.foreign, snapshot.redacted, snapshot.as_stored, snapshot.version) == (True, True, False, 2)
    assert said(snapshot)[0] == "Ada"
    older = await write(profiles, snapshot, "Ada", key="k")
    for document in (snapshot.document, (await profiles.read_version(SCOPE, ROOT, 2) or snapshot).document):
        told = f"{document.body}{document.profile}{document.frontmatter.extra}"
        assert "Krokodil" not in told
        assert "sk-ant" not in told
        assert "[redacted:" in document.body
    assert [older.version, written.version] == [3, 1]


async def test_a_file_of_ours_and_one_without_secrets_are_as_they_are_stored(profiles: Profiles, store: ObjectStore) -> None:
    await grow(profiles, 1)
    ours = await profiles.read(SCOPE, ROOT)
    assert (ours.foreign, ours.redacted, ours.as_stored) == (False, False, True)
    await put_foreign(profiles, store, b"## Identity\r\n- Ada\r\n")
    theirs = await profiles.read(SCOPE, ROOT)
    assert (theirs.foreign, theirs.redacted, theirs.as_stored) == (True, False, True)
    assert theirs.document.body == "## Identity\r\n- Ada\r\n"
    assert not (await profiles.read(SCOPE, "nothing")).foreign


async def test_our_write_key_alone_does_not_pass_for_our_write(profiles: Profiles, store: ObjectStore) -> None:
    await put_foreign(profiles, store, f"## Identity\n{SECRETS}".encode(), {"version": "7", "write-key": "w1", "cause": "turns"})
    snapshot = await profiles.read(SCOPE, ROOT)
    assert (snapshot.foreign, snapshot.write_key, snapshot.version) == (True, None, 7)
    assert "Krokodil" not in snapshot.document.body


@pytest.mark.parametrize("size", [MAX_DOCUMENT_BYTES + 1, 65 * 2**20], ids=["2 MiB", "65 MiB"])
async def test_a_file_that_is_far_too_large_can_be_written_over_and_is_left_behind(
    size: int, profiles: Profiles, store: ObjectStore
) -> None:
    await grow(profiles, 2)
    if isinstance(store, MemoryObjectStore):
        size = min(size, 64 * 2**20)
    await put_huge(profiles, store, size)
    with pytest.raises(UnreadableProfile, match=f"version 3 of the profile has {size} bytes") as refused:
        await profiles.read(SCOPE, ROOT)
    with pytest.raises(UnreadableProfile, match="bring an earlier version back, or save a shorter text"):
        await profiles.read_version(SCOPE, ROOT, 3)
    assert [(info.version, info.size > MAX_DOCUMENT_BYTES) for info in await profiles.history(SCOPE, ROOT)][:2] == [
        (3, True),
        (2, False),
    ]
    assert said(await profiles.read_version(SCOPE, ROOT, 2)) == ["fact 2"]
    base = await profiles.read(SCOPE, ROOT, to_overwrite=True)
    assert (base.exists, base.oversized, base.as_stored, base.version) == (True, size, False, 3)
    assert (base.etag, base.version) == (refused.value.etag, refused.value.version)
    assert (await write(profiles, base, "short again", key="k")).version == 4
    assert said(await profiles.read(SCOPE, ROOT)) == ["short again"]
    with pytest.raises(UnreadableProfile):
        await profiles.read_version(SCOPE, ROOT, 3)


async def put_huge(profiles: Profiles, store: ObjectStore, size: int) -> None:
    """Past the adapter, which sends no more than 64 MiB."""
    bucket, key = profiles.bucket(SCOPE.tenant), profiles.key(SCOPE, ROOT)
    if isinstance(store, MinioObjectStore):
        await asyncio.to_thread(store._client.put_object, bucket, key, BytesIO(b"x" * size), size)
    else:
        await store.put(bucket, key, b"x" * size)


# ---------------------------------------------------------------------------------------------------------------- writing


async def test_frontmatter_is_kept_and_advanced(profiles: Profiles, store: ObjectStore) -> None:
    await put_foreign(
        profiles,
        store,
        b"---\nuser_id: someone-else\nturn_count: 7\nfavourite: [tea, 3]\n---\n\n# User Memory\n\n## Identity\n- a\n",
    )
    base = await profiles.read(SCOPE, ROOT)
    await write(profiles, base, "b", key="k1", cause="turns")
    after = (await profiles.read(SCOPE, ROOT)).document.frontmatter
    assert (after.user_id, after.turn_count, after.last_updated) == ("user_123", 8, NOW)
    assert after.extra == "favourite: [tea, 3]\n"
    await write(profiles, await profiles.read(SCOPE, ROOT), "c", key="k2", cause="edit")
    edited = (await profiles.read(SCOPE, ROOT)).document.frontmatter
    assert (edited.turn_count, edited.extra) == (8, "favourite: [tea, 3]\n")


async def test_a_stale_base_conflicts_and_writes_nothing(profiles: Profiles) -> None:
    missing = await profiles.read(SCOPE, ROOT)
    await write(profiles, missing, "one", key="w1")
    first = await profiles.read(SCOPE, ROOT)
    with pytest.raises(ProfileConflict):
        await write(profiles, missing, "late", key="w2")
    await write(profiles, first, "two", key="w3")
    with pytest.raises(ProfileConflict):
        await write(profiles, first, "late", key="w4")
    assert said(await profiles.read(SCOPE, ROOT)) == ["two"]
    assert [info.write_key for info in await profiles.history(SCOPE, ROOT)] == ["w3", "w1"]


async def test_a_base_that_was_deleted_conflicts(profiles: Profiles, store: ObjectStore) -> None:
    await grow(profiles, 1)
    base = await profiles.read(SCOPE, ROOT)
    await store.delete(profiles.bucket(SCOPE.tenant), profiles.key(SCOPE, ROOT))
    with pytest.raises(ProfileConflict):
        await write(profiles, base, "back from the dead", key="k")
    assert not (await profiles.read(SCOPE, ROOT)).exists


async def test_version_numbers_go_on_after_a_deletion(profiles: Profiles, store: ObjectStore) -> None:
    await grow(profiles, 2)
    await store.delete(profiles.bucket(SCOPE.tenant), profiles.key(SCOPE, ROOT))
    again = await write(profiles, await profiles.read(SCOPE, ROOT), "anew", key="k")
    assert again.version == 3
    assert [info.version for info in await profiles.history(SCOPE, ROOT)] == [3, 2, 1]


async def test_of_sixteen_writers_on_one_base_one_wins(profiles: Profiles) -> None:
    await grow(profiles, 1)
    base = await profiles.read(SCOPE, ROOT)
    results = await asyncio.gather(
        *(write(profiles, base, f"writer {n}", key=f"writer-{n}") for n in range(16)), return_exceptions=True
    )
    winners = [number for number, result in enumerate(results) if isinstance(result, Written)]
    assert len(winners) == 1
    assert sum(isinstance(result, ProfileConflict) for result in results) == 15
    now = await profiles.read(SCOPE, ROOT)
    assert (said(now), now.version) == ([f"writer {winners[0]}"], 2)


async def test_writers_that_reload_lose_nothing(profiles: Profiles) -> None:
    async def add(number: int) -> None:
        while True:
            base = await profiles.read(SCOPE, ROOT)
            try:
                await write(profiles, base, *said(base), f"fact {number}", key=f"add-{number}")
            except ProfileConflict:
                continue
            return

    await asyncio.gather(*(add(n) for n in range(8)))
    assert sorted(said(await profiles.read(SCOPE, ROOT))) == [f"fact {n}" for n in range(8)]
    assert [info.version for info in await profiles.history(SCOPE, ROOT)] == list(range(8, 0, -1))


async def test_a_repeat_of_a_write_is_a_success_and_writes_nothing(profiles: Profiles) -> None:
    base = await profiles.read(SCOPE, ROOT)
    first = await write(profiles, base, "one", key="w1")
    again = await write(profiles, base, "one", key="w1")
    assert (again.version, again.etag, again.version_id, again.repeated) == (1, first.etag, first.version_id, True)
    assert len(await profiles.history(SCOPE, ROOT)) == 1


async def test_a_repeat_is_recognised_below_later_writes(profiles: Profiles) -> None:
    base = await profiles.read(SCOPE, ROOT)
    first = await write(profiles, base, "one", key="w1")
    for number in (2, 3):
        await write(profiles, await profiles.read(SCOPE, ROOT), f"version {number}", key=f"w{number}")
    again = await write(profiles, base, "one", key="w1")
    assert (again.version, again.etag, again.repeated) == (1, first.etag, True)
    assert said(await profiles.read(SCOPE, ROOT)) == ["version 3"]


async def test_an_older_write_with_the_same_key_is_not_taken_for_this_one(profiles: Profiles) -> None:
    await write(profiles, await profiles.read(SCOPE, ROOT), "one", key="same")
    base = await profiles.read(SCOPE, ROOT)
    await write(profiles, base, "two", key="other")
    with pytest.raises(ProfileConflict):  # "same" lies at its base, not after it
        await write(profiles, base, "three", key="same")


@pytest.mark.parametrize("first", [True, False], ids=["first-write", "later-write"])
async def test_a_write_whose_reply_was_lost_is_recognised(first: bool) -> None:
    store = MemoryObjectStore()
    profiles = Profiles(store, bucket_prefix="afterturn")
    if not first:
        await grow(profiles, 1)
    base = await profiles.read(SCOPE, ROOT)
    store.fail_next("put", StoreUnavailable("the reply was lost"), applied=True)
    with pytest.raises(StoreUnavailable):
        await write(profiles, base, "kept", key="w")
    again = await write(profiles, base, "kept", key="w")
    assert (again.repeated, again.version) == (True, base.version + 1)
    assert said(await profiles.read(SCOPE, ROOT)) == ["kept"]
    assert len(await profiles.history(SCOPE, ROOT)) == base.version + 1


async def test_a_write_that_did_not_arrive_is_done_by_the_repeat() -> None:
    store = MemoryObjectStore()
    profiles = Profiles(store, bucket_prefix="afterturn")
    base = await profiles.read(SCOPE, ROOT)
    store.fail_next("put")
    with pytest.raises(StoreUnavailable):
        await write(profiles, base, "kept", key="w")
    assert not (await profiles.read(SCOPE, ROOT)).exists
    assert not (await write(profiles, base, "kept", key="w")).repeated


async def test_a_store_that_fails_while_the_conflict_is_looked_into_says_so() -> None:
    store = MemoryObjectStore()
    profiles = Profiles(store, bucket_prefix="afterturn")
    base = await profiles.read(SCOPE, ROOT)
    await grow(profiles, 1)
    store.fail_next("put", PreconditionFailed("PreconditionFailed"))
    store.fail_next("head")
    with pytest.raises(StoreUnavailable):  # neither a success nor a conflict that nobody has seen
        await write(profiles, base, "late", key="w")


@pytest.mark.parametrize("document", ["", " \n", "---\nuser_id: x\n---\n", "---\nuser_id: x\n---\n\n \r\n", "\ufeff"])
async def test_an_empty_file_is_never_written(profiles: Profiles, document: str) -> None:
    with pytest.raises(InvalidInput, match="empty"):
        await commit_text(profiles, document)
    assert not (await profiles.read(SCOPE, ROOT)).exists


async def test_a_profile_whose_sections_are_all_empty_is_no_empty_file(profiles: Profiles) -> None:
    await write(profiles, await profiles.read(SCOPE, ROOT), key="w")
    snapshot = await profiles.read(SCOPE, ROOT)
    assert snapshot.exists
    assert snapshot.document.profile == EMPTY_PROFILE


@pytest.mark.parametrize("document", ["- \ud83d", "- x\n" * (MAX_DOCUMENT_BYTES // 4 + 1)], ids=["surrogate", "too-large"])
async def test_a_document_that_cannot_be_stored_is_refused(profiles: Profiles, document: str) -> None:
    with pytest.raises(InvalidInput):
        await commit_text(profiles, document)
    with pytest.raises(InvalidInput):
        await profiles.stage(SCOPE, document)
    assert not (await profiles.read(SCOPE, ROOT)).exists


async def commit_text(profiles: Profiles, document: str) -> Written:
    return await profiles.commit(
        SCOPE, ROOT, document, base_etag=None, base_version=0, write_key="w", cause="edit", applied_turns=()
    )


@pytest.mark.parametrize(("key", "cause", "turns"), [("", "x", ()), ("ü", "x", ()), ("k", "a b", ()), ("k", "x", ("a,b",))])
async def test_metadata_that_could_not_be_read_back_is_refused(
    profiles: Profiles, key: str, cause: str, turns: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidInput):
        await write(profiles, await profiles.read(SCOPE, ROOT), "x", key=key, cause=cause, turns=turns)


async def test_more_turns_than_metadata_holds_keep_the_newest(profiles: Profiles) -> None:
    turns = tuple(f"{number:016x}" for number in range(200))
    await write(profiles, await profiles.read(SCOPE, ROOT), "x", key="w", turns=turns)
    assert (await profiles.read(SCOPE, ROOT)).applied_turns == turns[-64:]


# ---------------------------------------------------------------------------------------------------------------- history


async def test_history_lists_the_newest_first_and_is_bounded(profiles: Profiles) -> None:
    written = await grow(profiles, 11)
    history = await profiles.history(SCOPE, ROOT)
    assert [info.version for info in history] == list(range(11, 0, -1))
    assert [info.write_key for info in history] == [f"w{n}" for n in range(11, 0, -1)]
    assert [info.etag for info in history] == [one.etag for one in reversed(written)]
    assert [info.is_latest for info in history] == [True] + [False] * 10
    assert {info.cause for info in history} == {"turns"}
    assert all(info.size > 50 for info in history)
    assert [info.version for info in await profiles.history(SCOPE, ROOT, limit=3)] == [11, 10, 9]
    assert await profiles.history(SCOPE, ROOT, limit=0) == []


async def test_every_version_can_be_read_and_made_the_newest_again(profiles: Profiles) -> None:
    await grow(profiles, 5)
    for number in range(1, 6):
        snapshot = await profiles.read_version(SCOPE, ROOT, number)
        assert snapshot is not None
        assert (snapshot.version, said(snapshot), snapshot.write_key) == (number, [f"fact {number}"], f"w{number}")
    for number in (-1, 0, 6, 1000):
        assert await profiles.read_version(SCOPE, ROOT, number) is None
    old = await profiles.read_version(SCOPE, ROOT, 2)
    assert old is not None
    current = await profiles.read(SCOPE, ROOT)
    document = profiles.compose(current, old.document.profile, scope=SCOPE, rewrite=False, now=NOW)
    back = await profiles.commit(
        SCOPE,
        ROOT,
        document,
        base_etag=current.etag,
        base_version=current.version,
        write_key="back",
        cause="rollback:2",
        applied_turns=current.applied_turns,
    )
    assert back.version == 6
    assert said(await profiles.read(SCOPE, ROOT)) == ["fact 2"]
    assert (await profiles.history(SCOPE, ROOT, limit=1))[0].cause == "rollback:2"


async def test_a_version_is_found_although_older_ones_have_expired(profiles: Profiles, store: ObjectStore) -> None:
    written = await grow(profiles, 6)
    for one in written[:2]:
        await store.delete(profiles.bucket(SCOPE.tenant), profiles.key(SCOPE, ROOT), one.version_id)
    assert [info.version for info in await profiles.history(SCOPE, ROOT)] == [6, 5, 4, 3]
    assert said(await profiles.read_version(SCOPE, ROOT, 3)) == ["fact 3"]
    assert await profiles.read_version(SCOPE, ROOT, 2) is None


# ---------------------------------------------------------------------------------------------------------------- staging


async def test_a_staged_text_waits_until_it_is_dropped(profiles: Profiles, store: ObjectStore) -> None:
    text = "---\nuser_id: x\n---\n\n- größer 🧠\n"
    candidate = await profiles.stage(SCOPE, text)
    assert candidate == hashlib.sha256(text.encode()).hexdigest()
    assert await profiles.stage(SCOPE, text) == candidate
    assert await profiles.read_staged(SCOPE, candidate) == text
    assert await profiles.read_staged(Scope.of("acme", "other"), candidate) is None
    assert await profiles.read_staged(Scope.of("other", "user_123"), candidate) is None
    await profiles.drop_staged(SCOPE, candidate)
    await profiles.drop_staged(SCOPE, candidate)
    assert await profiles.read_staged(SCOPE, candidate) is None
    key = f"staging/{SCOPE.user}/{candidate}"
    assert await store.list_versions(profiles.staging_bucket(SCOPE.tenant), key) == []  # nothing piles up
    assert not (await profiles.read(SCOPE, ROOT)).exists


async def test_two_owners_of_the_same_text_do_not_take_it_from_each_other(profiles: Profiles) -> None:
    names = [await profiles.stage(SCOPE, "- same", owner=owner) for owner in ("e1", "e2", "e/\ud83d")]
    names.append(await profiles.stage(SCOPE, "- same"))
    assert len(set(names)) == 4
    assert names[0] == candidate_name("- same", owner="e1") == await profiles.stage(SCOPE, "- same", owner="e1")
    for position, name in enumerate(names):
        await profiles.drop_staged(SCOPE, name)
        left = [other for other in names if await profiles.read_staged(SCOPE, other) == "- same"]
        assert left == names[position + 1 :]
    await profiles.stage(SCOPE, "- same", owner="e1")
    assert await profiles.sweep_staging(SCOPE.tenant, older_than=datetime.now(UTC) + timedelta(minutes=5), limit=9) == 1


async def test_a_damaged_staged_text_is_not_used(profiles: Profiles, store: ObjectStore) -> None:
    candidate = await profiles.stage(SCOPE, "- good")
    await store.put(profiles.staging_bucket(SCOPE.tenant), f"staging/{SCOPE.user}/{candidate}", b"- bad")
    assert await profiles.read_staged(SCOPE, candidate) is None


@pytest.mark.parametrize("candidate", ["", "../x", "0" * 63, "G" * 64, "0" * 64 + "/x", "0" * 64 + "-", "0" * 64 + "-" + "g" * 16])
async def test_a_candidate_is_named_by_a_hash_only(profiles: Profiles, candidate: str) -> None:
    for call in (profiles.read_staged(SCOPE, candidate), profiles.drop_staged(SCOPE, candidate)):
        with pytest.raises(InvalidInput):
            await call


async def test_the_sweep_removes_old_leftovers_up_to_its_limit(profiles: Profiles) -> None:
    scopes = [Scope.of("acme", f"u{n}") for n in range(5)]
    staged = [(scope, await profiles.stage(scope, f"- text {scope.user} {n}")) for scope in scopes for n in range(3)]
    await write(profiles, await profiles.read(SCOPE, ROOT), "stays", key="w")
    later = datetime.now(UTC) + timedelta(minutes=5)
    assert await profiles.sweep_staging("acme", older_than=datetime.now(UTC) - timedelta(hours=1), limit=100) == 0
    assert await profiles.sweep_staging("nobody", older_than=later, limit=100) == 0
    assert await profiles.sweep_staging("acme", older_than=later, limit=10) == 10
    left = [one for one in staged if await profiles.read_staged(*one) is not None]
    assert len(left) == 5
    assert await profiles.sweep_staging("acme", older_than=later, limit=100) == 5
    assert [one for one in staged if await profiles.read_staged(*one) is not None] == []
    assert said(await profiles.read(SCOPE, ROOT)) == ["stays"]


# --------------------------------------------------------------------------------------------------------- names and tenants


def test_buckets_are_valid_names_and_no_two_tenants_share_one() -> None:
    profiles = Profiles(MemoryObjectStore(), bucket_prefix="a" * 20)
    raw = [
        *HOSTILE_IDS,
        "acme",
        "ACME",
        "acme-",
        "acme--x",
        "s-acme",
        "t-acme",
        "st-acme",
        "check",
        "x-s3alias",
        "y" * 36,
        "y" * 37,
    ]
    names = {kind(encode_segment(one)) for one in raw for kind in (profiles.bucket, profiles.staging_bucket)}
    assert len(names) == 2 * len(raw)
    assert profiles.check_bucket not in names
    for name in {*names, profiles.check_bucket}:
        assert 3 <= len(name) <= 63
        assert name == name.lower()
        assert name.replace("-", "").isalnum()
        assert name.isascii()
        assert not name.endswith(("-", "s3alias"))
    assert Profiles(MemoryObjectStore(), bucket_prefix="afterturn").bucket("acme") == "afterturn-t-acme"


@pytest.mark.parametrize("root", ["", "..", "a/b", ".x", "a b", "-x", "x" * 64, "ü", "x\n"])
def test_a_root_that_could_lead_elsewhere_is_refused(root: str) -> None:
    with pytest.raises(InvalidInput):
        Profiles(MemoryObjectStore(), bucket_prefix="afterturn").key(SCOPE, root)


async def test_hostile_users_and_tenants_never_meet(profiles: Profiles, store: ObjectStore) -> None:
    scopes = [Scope.of("acme", one) for one in HOSTILE_IDS] + [Scope.of(one, "user") for one in HOSTILE_IDS[:6]]

    async def write_own(number: int, scope: Scope) -> None:
        base = await profiles.read(scope, ROOT)
        assert not base.exists
        await write(profiles, base, f"user number {number}", key="same-key", scope=scope)
        candidate = await profiles.stage(scope, f"- staged {number}")
        assert await profiles.read_staged(scope, candidate) == f"- staged {number}"

    await asyncio.gather(*(write_own(number, scope) for number, scope in enumerate(scopes)))
    for number, scope in enumerate(scopes):
        snapshot = await profiles.read(scope, ROOT)
        assert (said(snapshot), snapshot.version) == ([f"user number {number}"], 1)
    keys = [info.key for info in await store.list(profiles.bucket("acme"), "")]
    assert len(keys) == len(HOSTILE_IDS)
    assert all(key.startswith("user-memory/") and key.endswith("/memory.md") and key.count("/") == 2 for key in keys)
    for one, other in combinations(scopes, 2):
        assert (profiles.bucket(one.tenant), profiles.key(one, ROOT)) != (profiles.bucket(other.tenant), profiles.key(other, ROOT))


async def test_preparing_may_race(profiles: Profiles) -> None:
    await asyncio.gather(*(profiles.prepare("acme") for _ in range(8)))
    await grow(profiles, 2)
    assert len(await profiles.history(SCOPE, ROOT)) == 2


async def test_bullets_with_children_survive(profiles: Profiles) -> None:
    profile = Profile.of({"Work Context": [Bullet("project", ("goal", "deadline"))]})
    base = await profiles.read(SCOPE, ROOT)
    document = profiles.compose(base, profile, scope=SCOPE, rewrite=True, now=NOW)
    await profiles.commit(SCOPE, ROOT, document, base_etag=None, base_version=0, write_key="w", cause="turns", applied_turns=())
    assert (await profiles.read(SCOPE, ROOT)).document.profile == profile


async def test_a_recent_read_is_taken_only_when_asked_for_and_a_write_from_it_is_refused(profiles: Profiles) -> None:
    await write(profiles, await profiles.read(SCOPE, ROOT), "first", key="w1")
    seen = await profiles.read(SCOPE, ROOT)
    await write(profiles, seen, "second", key="w2")
    recent = await profiles.read(SCOPE, ROOT, max_age_s=60)
    assert recent.etag == seen.etag
    with pytest.raises(ProfileConflict):
        await write(profiles, recent, "third", key="w3")
    assert (await profiles.read(SCOPE, ROOT)).version == 2
    assert (await profiles.read(SCOPE, ROOT, max_age_s=60)).version == 2
