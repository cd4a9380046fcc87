"""What every object store adapter does, on the in-memory store and on a real S3 server."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from memory.model.errors import InvalidInput, InvalidSettings, StoreUnavailable
from memory.model.ids import encode_segment
from memory.ports import ObjectStore, ObjectTooLarge, PreconditionFailed
from memory.settings import Settings
from memory.stores.objects.memory import MemoryObjectStore
from memory.stores.objects.minio import MinioObjectStore
from starter.engines import S3Server
from tests.support.engines import unique_bucket_prefix

HOSTILE_IDS = [
    "../x",
    "..",
    "a/b",
    "a",
    "b",
    "a/b/",
    "%2e%2e",
    "%2E%2E",
    "%2e%2e/x",
    "nul\0nul",
    ".hidden",
    "hidden",
    "x" * 1000,
    "x" * 999 + "y",
    "🧠",
    "\ud83d",
    "A",
    "a b",
    "a+b",
    "a%20b",
    "ünï",
    "\\..\\x",
    "a=2Fb",
    "-",
    " ",
    "\n",
    "?versionId=1",
    "#",
]


@pytest.fixture(params=["memory", "s3"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[ObjectStore]:
    if request.param == "memory":
        yield MemoryObjectStore()
        return
    adapter = MinioObjectStore.from_settings(request.getfixturevalue("s3_settings")())
    yield adapter
    await adapter.aclose()


@pytest.fixture
async def bucket(store: ObjectStore) -> str:
    name = unique_bucket_prefix()
    await store.ensure_bucket(name)
    return name


# ---------------------------------------------------------------------------------------------------------------- objects


async def test_what_is_put_comes_back_with_its_metadata(store: ObjectStore, bucket: str) -> None:
    before = datetime.now(UTC)
    put = await store.put(bucket, "a/b.md", "grüße".encode(), content_type="text/markdown", metadata={"Cause": "a turn", "n": "1"})
    got = await store.get(bucket, "a/b.md")
    assert got is not None
    assert got.data.decode() == "grüße"
    assert got.info.key == "a/b.md"
    assert got.info.etag == put.etag == hashlib.md5("grüße".encode()).hexdigest()
    assert got.info.version_id == put.version_id
    assert got.info.version_id
    assert got.info.size == put.size == len("grüße".encode())
    assert dict(got.info.metadata) == {"cause": "a turn", "n": "1"}
    assert abs(got.info.modified_at - before) < timedelta(minutes=1)
    head = await store.head(bucket, "a/b.md")
    assert head is not None
    assert (head.etag, head.version_id, head.size) == (put.etag, put.version_id, put.size)
    assert dict(head.metadata) == dict(got.info.metadata)


async def test_what_is_missing_is_none_or_empty(store: ObjectStore, bucket: str) -> None:
    nowhere = unique_bucket_prefix()
    for place in (bucket, nowhere):
        assert await store.get(place, "k") is None
        assert await store.head(place, "k") is None
        assert await store.list(place, "") == []
        assert await store.list_versions(place, "k") == []
        await store.delete(place, "k")
    written = await store.put(bucket, "k", b"1")
    assert await store.get(bucket, "k", "no-such-version") is None
    assert await store.get(bucket, "other", written.version_id) is None


async def test_a_put_into_a_missing_bucket_makes_no_bucket(store: ObjectStore) -> None:
    nowhere = unique_bucket_prefix()
    with pytest.raises(StoreUnavailable, match=nowhere):
        await store.put(nowhere, "k", b"1")
    assert await store.get(nowhere, "k") is None
    await store.ensure_bucket(nowhere)
    await store.put(nowhere, "k", b"1")


async def test_an_empty_and_a_big_body_come_back_whole(store: ObjectStore, bucket: str) -> None:
    big = bytes(range(256)) * (9 * 1024 * 4)  # 9 MiB, above the size at which the SDK would send parts
    for data in (b"", b"\0\xff", big):
        await store.put(bucket, "k", data)
        got = await store.get(bucket, "k")
        assert got is not None
        assert got.data == data


async def test_a_body_that_is_more_than_the_caller_reads_is_not_read(store: ObjectStore, bucket: str) -> None:
    written = await store.put(bucket, "k", b"x" * 300_000, metadata={"a": "b"})
    with pytest.raises(ObjectTooLarge) as refused:
        await store.get(bucket, "k", max_bytes=299_999)
    info = refused.value.info
    assert (info.size, info.etag, info.version_id, info.metadata["a"]) == (300_000, written.etag, written.version_id, "b")
    for version_id in (None, written.version_id):
        found = await store.get(bucket, "k", version_id, max_bytes=300_000)
        assert found is not None
        assert len(found.data) == 300_000


async def test_a_condition_holds_for_a_big_body_too(store: ObjectStore, bucket: str) -> None:
    big = b"x" * (6 * 1024 * 1024)
    await store.put(bucket, "k", b"small")
    with pytest.raises(PreconditionFailed):
        await store.put(bucket, "k", big, if_absent=True)
    with pytest.raises(PreconditionFailed):
        await store.put(bucket, "k", big, if_match="0" * 32)
    got = await store.get(bucket, "k")
    assert got is not None
    assert got.data == b"small"


@pytest.mark.parametrize(
    "metadata",
    [{"a": "ü"}, {"a": "🧠"}, {"a": "x\ny"}, {"a": " x"}, {"a": "x "}, {"a b": "x"}, {"ü": "x"}, {"": "x"}, {"a": "x" * 2048}],
)
async def test_metadata_that_headers_do_not_keep_is_refused(store: ObjectStore, bucket: str, metadata: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="metadata"):
        await store.put(bucket, "k", b"1", metadata=metadata)
    assert await store.get(bucket, "k") is None


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "a/../b", "..", ".", "a\\b", "a\0b", "a\nb", "k" * 1025])
async def test_a_key_that_could_lead_elsewhere_is_refused(store: ObjectStore, bucket: str, key: str) -> None:
    for call in (store.get(bucket, key), store.head(bucket, key), store.put(bucket, key, b""), store.delete(bucket, key)):
        with pytest.raises(InvalidInput):
            await call


@pytest.mark.parametrize("name", ["", "ab", "A-bucket", "a_b", "a.b", "a/b", "../x", "-ab", "ab-", "x" * 64])
async def test_a_name_that_is_no_bucket_name_is_refused(store: ObjectStore, name: str) -> None:
    for call in (store.ensure_bucket(name), store.get(name, "k"), store.put(name, "k", b""), store.list(name, "")):
        with pytest.raises(InvalidInput, match="bucket"):
            await call


# -------------------------------------------------------------------------------------------------------------- conditions


async def test_if_absent_writes_once(store: ObjectStore, bucket: str) -> None:
    await store.put(bucket, "k", b"1", if_absent=True)
    with pytest.raises(PreconditionFailed):
        await store.put(bucket, "k", b"2", if_absent=True)
    got = await store.get(bucket, "k")
    assert got is not None
    assert got.data == b"1"


async def test_if_match_wants_the_current_etag(store: ObjectStore, bucket: str) -> None:
    with pytest.raises(PreconditionFailed):
        await store.put(bucket, "k", b"0", if_match="0" * 32)
    first = await store.put(bucket, "k", b"1")
    second = await store.put(bucket, "k", b"2", if_match=first.etag)
    with pytest.raises(PreconditionFailed):
        await store.put(bucket, "k", b"3", if_match=first.etag)
    got = await store.get(bucket, "k")
    assert got is not None
    assert (got.data, got.info.etag) == (b"2", second.etag)


async def test_after_a_delete_the_key_is_absent_for_conditions(store: ObjectStore, bucket: str) -> None:
    first = await store.put(bucket, "k", b"1")
    await store.delete(bucket, "k")
    with pytest.raises(PreconditionFailed):
        await store.put(bucket, "k", b"2", if_match=first.etag)
    await store.put(bucket, "k", b"3", if_absent=True)
    got = await store.get(bucket, "k")
    assert got is not None
    assert got.data == b"3"


@pytest.mark.parametrize("first", [True, False], ids=["if-absent", "if-match"])
async def test_of_sixteen_writers_one_wins(store: ObjectStore, bucket: str, first: bool) -> None:
    etag = None if first else (await store.put(bucket, "k", b"base")).etag

    async def write(number: int) -> int | None:
        try:
            await store.put(bucket, "k", f"writer {number}".encode(), if_match=etag, if_absent=first)
        except PreconditionFailed:
            return None
        return number

    winners = [number for number in await asyncio.gather(*(write(n) for n in range(16))) if number is not None]
    got = await store.get(bucket, "k")
    assert len(winners) == 1
    assert got is not None
    assert got.data == f"writer {winners[0]}".encode()
    assert len(await store.list_versions(bucket, "k")) == (1 if first else 2)


# ---------------------------------------------------------------------------------------------------------------- versions


async def test_versions_are_kept_listed_and_read(store: ObjectStore, bucket: str) -> None:
    written = [await store.put(bucket, "k", f"{n}".encode(), metadata={"n": str(n)}) for n in range(4)]
    await store.put(bucket, "k2", b"neighbour")
    await store.put(bucket, "k/sub", b"below")
    listed = await store.list_versions(bucket, "k")
    assert [info.version_id for info in listed] == [info.version_id for info in reversed(written)]
    assert [info.etag for info in listed] == [info.etag for info in reversed(written)]
    assert [info.is_latest for info in listed] == [True, False, False, False]
    assert {info.key for info in listed} == {"k"}
    for number, info in enumerate(written):
        got = await store.get(bucket, "k", info.version_id)
        head = await store.head(bucket, "k", info.version_id)
        assert got is not None
        assert head is not None
        assert got.data == f"{number}".encode()
        assert got.info.metadata["n"] == head.metadata["n"] == str(number)
    assert len(await store.list_versions(bucket, "k", limit=2)) == 2
    assert (await store.list_versions(bucket, "k", limit=1))[0].version_id == written[-1].version_id


async def test_a_delete_leaves_a_marker_and_the_versions(store: ObjectStore, bucket: str) -> None:
    written = await store.put(bucket, "k", b"1")
    await store.delete(bucket, "k")
    assert await store.get(bucket, "k") is None
    assert await store.head(bucket, "k") is None
    assert await store.list(bucket, "k") == []
    listed = await store.list_versions(bucket, "k")
    assert [info.is_delete_marker for info in listed] == [True, False]
    assert [info.is_latest for info in listed] == [True, False]
    assert await store.get(bucket, "k", listed[0].version_id) is None
    old = await store.get(bucket, "k", written.version_id)
    assert old is not None
    assert old.data == b"1"


async def test_a_deleted_version_is_gone(store: ObjectStore, bucket: str) -> None:
    first = await store.put(bucket, "k", b"1")
    second = await store.put(bucket, "k", b"2")
    await store.delete(bucket, "k", second.version_id)
    got = await store.get(bucket, "k")
    assert got is not None
    assert got.data == b"1"
    await store.delete(bucket, "k", first.version_id)
    assert await store.get(bucket, "k") is None
    assert await store.list_versions(bucket, "k") == []


async def test_an_unversioned_bucket_keeps_one_and_deletes_for_good(store: ObjectStore) -> None:
    bucket = unique_bucket_prefix()
    await store.ensure_bucket(bucket, versioned=False)
    await store.put(bucket, "k", b"1")
    await store.put(bucket, "k", b"2")
    assert len(await store.list_versions(bucket, "k")) == 1
    await store.delete(bucket, "k")
    assert await store.get(bucket, "k") is None
    assert await store.list_versions(bucket, "k") == []


# ----------------------------------------------------------------------------------------------------------------- buckets


async def test_a_list_is_by_key_below_a_prefix_and_bounded(store: ObjectStore, bucket: str) -> None:
    for key in ("p/b", "p/a", "p/c/d", "q/a", "p-x"):
        await store.put(bucket, key, key.encode())
    assert [info.key for info in await store.list(bucket, "p/")] == ["p/a", "p/b", "p/c/d"]
    assert [info.key for info in await store.list(bucket, "p/", limit=2)] == ["p/a", "p/b"]
    assert [info.key for info in await store.list(bucket, "p/", start_after="p/a")] == ["p/b", "p/c/d"]
    assert [info.size for info in await store.list(bucket, "q/")] == [3]
    assert await store.list(bucket, "none/") == []


async def test_a_bucket_may_be_ensured_by_many_at_once(store: ObjectStore) -> None:
    bucket = unique_bucket_prefix()
    await asyncio.gather(*(store.ensure_bucket(bucket) for _ in range(16)))
    await store.put(bucket, "k", b"1")
    await store.put(bucket, "k", b"2")
    assert len(await store.list_versions(bucket, "k")) == 2


async def test_versioning_is_turned_on_in_a_bucket_that_lacks_it(store: ObjectStore) -> None:
    bucket = unique_bucket_prefix()
    await store.ensure_bucket(bucket, versioned=False)
    await store.ensure_bucket(bucket)
    await store.put(bucket, "k", b"1")
    await store.put(bucket, "k", b"2")
    assert len(await store.list_versions(bucket, "k")) == 2


async def test_hostile_ids_meet_neither_each_other_nor_the_rest_of_the_bucket(store: ObjectStore, bucket: str) -> None:
    outside = ["memory.md", "other/memory.md", "x", "x/memory.md"]
    for key in outside:
        await store.put(bucket, key, b"outside")
    keys = {raw: f"root/{encode_segment(raw)}/memory.md" for raw in HOSTILE_IDS}
    assert len(set(keys.values())) == len(HOSTILE_IDS)
    await asyncio.gather(*(store.put(bucket, key, repr(raw).encode(), if_absent=True) for raw, key in keys.items()))
    for raw, key in keys.items():
        got = await store.get(bucket, key)
        assert got is not None
        assert got.data == repr(raw).encode()
        assert len(await store.list_versions(bucket, key)) == 1
    assert [info.key for info in await store.list(bucket, "root/")] == sorted(keys.values())
    assert [info.key for info in await store.list(bucket, "")] == sorted([*outside, *keys.values()])
    for key in outside:
        got = await store.get(bucket, key)
        assert got is not None
        assert got.data == b"outside"


# ------------------------------------------------------------------------------------------------------------------- check


async def test_the_check_passes_and_leaves_nothing(store: ObjectStore) -> None:
    bucket = unique_bucket_prefix()
    await store.check(bucket)
    await store.check(bucket)
    assert await store.list(bucket, "") == []


async def test_a_store_that_ignores_conditions_is_refused_unless_allowed() -> None:
    with pytest.raises(InvalidSettings, match="AFTERTURN_ALLOW_UNCONDITIONAL_WRITES"):
        await MemoryObjectStore(honour_conditions=False).check("bucket")
    allowed = MemoryObjectStore(honour_conditions=False, allow_unconditional_writes=True)
    await allowed.check("bucket")
    assert await allowed.list("bucket", "") == []


async def test_a_store_without_versions_is_refused() -> None:
    with pytest.raises(InvalidSettings, match="no versions"):
        await MemoryObjectStore(honour_versions=False, allow_unconditional_writes=True).check("bucket")


async def test_a_check_that_fails_half_way_cleans_up_and_says_why() -> None:
    store = MemoryObjectStore()
    store.fail_next("list_versions", StoreUnavailable("gone for a moment"))
    with pytest.raises(StoreUnavailable, match="gone for a moment"):
        await store.check("bucket")
    assert await store.list("bucket", "") == []


async def test_a_check_that_cannot_clean_up_still_says_what_was_wrong() -> None:
    store = MemoryObjectStore(honour_conditions=False)
    store.fail_next("list_versions", StoreUnavailable("gone while cleaning"))
    with pytest.raises(InvalidSettings, match="ignores conditional writes"):
        await store.check("bucket")


# ---------------------------------------------------------------------------------------------------- faults of the server


async def test_a_killed_server_is_unavailable_and_comes_back(own_s3_server: S3Server) -> None:
    store = _adapter(own_s3_server)
    await store.ensure_bucket("bucket")
    await store.put("bucket", "k", b"1")
    await own_s3_server.kill()
    for call in (store.get("bucket", "k"), store.put("bucket", "k", b"2"), store.list("bucket", ""), store.check("bucket")):
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await call
    await own_s3_server.restart()
    got = await store.get("bucket", "k")
    assert got is not None
    assert got.data == b"1"
    await store.put("bucket", "k", b"2", if_match=got.info.etag)
    assert len(await store.list_versions("bucket", "k")) == 2
    await store.aclose()


async def test_a_bucket_that_vanished_is_made_again(s3_store: MinioObjectStore, s3_settings: Callable[..., Settings]) -> None:
    bucket = unique_bucket_prefix()
    await s3_store.ensure_bucket(bucket)
    s3_store._client.remove_bucket(bucket)  # behind the adapter's back, which remembers that it exists
    with pytest.raises(StoreUnavailable, match="does not exist"):
        await s3_store.put(bucket, "k", b"1")
    await s3_store.ensure_bucket(bucket)
    await s3_store.put(bucket, "k", b"1")


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ({"object_store_access_key": "nobody"}, "AFTERTURN_OBJECT_STORE_ACCESS_KEY"),
        ({"object_store_secret_key": "wrong"}, "AFTERTURN_OBJECT_STORE_SECRET_KEY"),
    ],
)
async def test_wrong_keys_name_the_settings_and_no_secret(
    s3_settings: Callable[..., Settings], overrides: dict[str, str], says: str
) -> None:
    settings = s3_settings(**overrides)
    store = MinioObjectStore.from_settings(settings)
    for call in (store.get("bucket", "k"), store.head("bucket", "k"), store.check("bucket"), store.list("bucket", "")):
        with pytest.raises(InvalidSettings, match=says) as caught:
            await call
        assert settings.object_store_secret_key.get_secret_value() not in str(caught.value)
    await store.aclose()


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9000", "127.0.0.1:9000/path", "", "host:port:port"])
def test_an_endpoint_that_is_none_is_refused(endpoint: str) -> None:
    with pytest.raises(InvalidSettings, match="AFTERTURN_OBJECT_STORE_ENDPOINT"):
        MinioObjectStore(endpoint, access_key="a", secret_key="s")


def test_missing_keys_are_refused() -> None:
    with pytest.raises(InvalidSettings, match="AFTERTURN_OBJECT_STORE_ACCESS_KEY"):
        MinioObjectStore("127.0.0.1:9000", access_key="", secret_key="")


async def test_a_closed_adapter_says_so(s3_settings: Callable[..., Settings]) -> None:
    store = MinioObjectStore.from_settings(s3_settings())
    await store.aclose()
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.get("bucket", "k")


@contextmanager
def _answering(*replies: bytes | None) -> Iterator[tuple[str, list[bytes]]]:
    """A server on loopback that gives each connection the next reply (the last one again and again; None: silence)."""
    seen: list[bytes] = []
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            left = list(replies)
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                reply = left.pop(0) if len(left) > 1 else left[0]
                held.append(connection)
                if reply is None:
                    continue
                seen.append(connection.recv(65536))
                connection.sendall(reply)
                connection.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}", seen
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)
            for connection in held:
                connection.close()


def _reply(status: str, body: bytes = b"", kind: str = "application/xml", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f'HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\nETag: "e"\r\n\r\n'.encode() + body


def _error(status: str, code: str) -> bytes:
    return _reply(status, f"<Error><Code>{code}</Code><Message>canary text</Message></Error>".encode())


def _at(endpoint: str, timeout_s: float = 5.0) -> MinioObjectStore:
    return MinioObjectStore(endpoint, access_key="a", secret_key="s", timeout_s=timeout_s)


def _adapter(server: S3Server) -> MinioObjectStore:
    keys = server.settings
    return MinioObjectStore(server.endpoint, access_key=keys["object_store_access_key"], secret_key=keys["object_store_secret_key"])


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (_error("503 Slow Down", "SlowDown"), StoreUnavailable),
        (_error("500 Internal", "InternalError"), StoreUnavailable),
        (_error("429 Too Many", "TooManyRequests"), StoreUnavailable),
        (_error("400 Bad Request", "RequestTimeout"), StoreUnavailable),
        (_reply("502 Bad Gateway", b"<html>", "text/html"), StoreUnavailable),
        (_reply("200 OK", b"cut", length=100), StoreUnavailable),
        (b"not http at all\r\n\r\n", StoreUnavailable),
        (b"", StoreUnavailable),
        (_error("403 Forbidden", "AccessDenied"), InvalidSettings),
        (_error("403 Forbidden", "SignatureDoesNotMatch"), InvalidSettings),
        (_error("403 Forbidden", "RequestTimeTooSkewed"), InvalidSettings),
        (_error("301 Moved", "PermanentRedirect"), InvalidSettings),
        (_error("400 Bad Request", "AuthorizationHeaderMalformed"), InvalidSettings),
        (_error("501 Not Implemented", "NotImplemented"), InvalidSettings),
        (_error("400 Bad Request", "EntityTooLarge"), InvalidInput),
    ],
)
async def test_what_a_server_answers_becomes_the_right_error(reply: bytes, expected: type[Exception]) -> None:
    with _answering(reply) as (endpoint, _):
        store = _at(endpoint)
        with pytest.raises(expected) as caught:
            await store.get("bucket", "canary-user/memory.md")
        assert "canary" not in str(caught.value)
        await store.aclose()


@pytest.mark.parametrize("code", ["PreconditionFailed", "ConditionalRequestConflict"])
async def test_a_conflict_at_the_server_is_a_failed_precondition(code: str) -> None:
    with _answering(_error("409 Conflict", code)) as (endpoint, seen):
        store = _at(endpoint)
        with pytest.raises(PreconditionFailed):
            await store.put("bucket", "k", b"1", if_match="abc")
        assert b'if-match: "abc"' in seen[0].lower()
        assert b"x-amz-meta-if-match" not in seen[0].lower()
        await store.aclose()


async def test_a_write_is_never_repeated_by_the_adapter() -> None:
    with _answering(b"") as (endpoint, seen):
        store = _at(endpoint)
        with pytest.raises(StoreUnavailable):
            await store.put("bucket", "k", b"1")
        assert len(seen) == 1
        await store.aclose()


async def test_a_read_is_repeated_once_when_the_connection_was_cut() -> None:
    with _answering(b"", _reply("200 OK", b"here")) as (endpoint, seen):
        store = _at(endpoint)
        got = await store.get("bucket", "k")
        assert got is not None
        assert got.data == b"here"
        assert len(seen) == 2
        await store.aclose()


async def test_a_server_that_never_answers_is_unavailable_within_the_timeout() -> None:
    with _answering(None) as (endpoint, _):
        store = _at(endpoint, timeout_s=0.2)
        with pytest.raises(StoreUnavailable, match=r"did not answer within 0\.2 s"):
            await store.get("bucket", "k")
        # More calls than the adapter has threads: those that wait for a thread are bounded as well.
        results = await asyncio.gather(*(store.get("bucket", "k") for _ in range(100)), return_exceptions=True)
        assert {type(result) for result in results} == {StoreUnavailable}
        await store.aclose()


async def test_plain_http_where_tls_is_asked_names_the_setting() -> None:
    with _answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as (endpoint, _):
        store = MinioObjectStore(endpoint, access_key="a", secret_key="s", secure=True, timeout_s=5)
        with pytest.raises(StoreUnavailable, match="AFTERTURN_OBJECT_STORE_SECURE"):
            await store.get("bucket", "k")
        await store.aclose()


# ----------------------------------------------------------------------------------------------- the fake's own fault hooks


async def test_the_fake_fails_before_or_after_the_effect() -> None:
    store = MemoryObjectStore()
    await store.ensure_bucket("bucket")
    store.fail_next("put")
    with pytest.raises(StoreUnavailable):
        await store.put("bucket", "k", b"1")
    assert await store.get("bucket", "k") is None
    store.fail_next("put", StoreUnavailable("reply lost"), applied=True)
    with pytest.raises(StoreUnavailable, match="reply lost"):
        await store.put("bucket", "k", b"1")
    got = await store.get("bucket", "k")
    assert got is not None
    assert got.data == b"1"
    store.fail_next("get", times=2)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await store.get("bucket", "k")
    assert await store.get("bucket", "k") is not None


async def test_the_fake_can_hold_a_call() -> None:
    store = MemoryObjectStore()
    await store.ensure_bucket("bucket")
    pause = store.pause_next("put")
    writing = asyncio.create_task(store.put("bucket", "k", b"1"))
    await pause.reached.wait()
    assert await store.get("bucket", "k") is None
    pause.release()
    await writing
    assert await store.get("bucket", "k") is not None


async def test_the_first_use_of_a_bucket_by_many_at_once_fails_for_nobody(s3_settings: Callable[..., Settings]) -> None:
    """Two processes with five callers each: both make the bucket and write at once."""
    stores = [MinioObjectStore.from_settings(s3_settings()) for _ in range(2)]

    async def first_use(store: MinioObjectStore, bucket: str, key: str) -> None:
        await store.ensure_bucket(bucket)
        await store.put(bucket, key, b"x", if_absent=True)

    try:
        for number in range(15):
            bucket = f"{s3_settings().bucket_prefix}-race-{number}"
            await asyncio.gather(*(first_use(store, bucket, f"{n}-{id(store)}") for store in stores for n in range(5)))
            assert len(await stores[0].list(bucket, "")) == 10
    finally:
        for store in stores:
            await store.aclose()


# -------------------------------------------------------------------------------------------------------------- everything


async def test_all_versions_below_a_prefix_and_the_folders_that_there_are(store: ObjectStore, bucket: str) -> None:
    for key in ("root/ann/memory.md", "root/ann/other.md", "root/ann-2/memory.md", "old/ann/memory.md"):
        for number in range(3):
            await store.put(bucket, key, f"{key} {number}".encode())
    await store.delete(bucket, "old/ann/memory.md")
    await store.put(bucket, "flat", b"no folder")

    assert list(await store.folders(bucket)) == ["old", "root"]
    found = await store.list_all_versions(bucket, "root/ann/")
    assert sorted(info.key for info in found) == ["root/ann/memory.md"] * 3 + ["root/ann/other.md"] * 3
    gone = await store.list_all_versions(bucket, "old/ann/")
    assert sorted(info.is_delete_marker for info in gone) == [False, False, False, True]

    for info in (*found, *gone):
        await store.delete(bucket, info.key, info.version_id)
    assert await store.list_all_versions(bucket, "root/ann/") == []
    assert await store.list_all_versions(bucket, "old/") == []
    await store.drop_folder(bucket, "root/ann/")
    await store.drop_folder(bucket, "root/nobody/")
    assert "root" in await store.folders(bucket)  # a store may take its time to see that a folder is empty
    assert {info.key for info in await store.list_all_versions(bucket, "root/")} == {"root/ann-2/memory.md"}
    if isinstance(store, MinioObjectStore):
        shown = store._client.list_objects(bucket, prefix="root/", include_version=True)
        assert [item.object_name for item in shown] == ["root/ann-2/"]
    assert len(await store.list_all_versions(bucket, "root/ann-2/")) == 3


async def test_all_versions_where_none_are_kept(store: ObjectStore) -> None:
    bucket = unique_bucket_prefix()
    assert await store.list_all_versions(bucket, "a/") == []
    assert list(await store.folders(bucket)) == []
    await store.ensure_bucket(bucket, versioned=False)
    for number in range(2):
        await store.put(bucket, "staging/ann/1", str(number).encode())
    [info] = await store.list_all_versions(bucket, "staging/ann/")
    await store.delete(bucket, info.key, info.version_id)
    assert await store.get(bucket, "staging/ann/1") is None
    assert await store.list_all_versions(bucket, "staging/") == []
