"""The proof, with real writes to a probe object, that a store does what profiles rely on."""

from __future__ import annotations

import secrets

import structlog

from memory.model.errors import AfterturnError, InvalidSettings
from memory.ports import ObjectStore, PreconditionFailed

_PREFIX = "afterturn-probe"
_STALE_ETAG = "0" * 32

_log = structlog.get_logger(__name__)


async def probe(store: ObjectStore, bucket: str, *, allow_unconditional: bool) -> None:
    """Write, condition, list and read a probe object, and remove it with all its versions.

    Raises:
        InvalidSettings: what does not hold, and what to do.
        StoreUnavailable: it cannot be reached.
    """
    await store.ensure_bucket(bucket)
    key = f"{_PREFIX}/{secrets.token_hex(8)}"
    try:
        problem = await _conditions(store, bucket, key)
        if problem and not allow_unconditional:
            raise InvalidSettings(
                f"the object store ignores conditional writes ({problem}), so two writers could lose an edit; use a store that"
                " honours If-Match and If-None-Match, or accept the risk with AFTERTURN_ALLOW_UNCONDITIONAL_WRITES=true"
            )
        if problem:
            _log.warning("object_store_ignores_conditions", problem=problem)
        await _versions(store, bucket, f"{key}-versions")
    except BaseException:
        # The fault is what the caller must see; leftovers of the probe are a few bytes under a name of their own.
        try:
            await _clean(store, bucket, key)
        except AfterturnError as error:
            _log.warning("probe_left_behind", bucket=bucket, reason=type(error).__name__)
        raise
    await _clean(store, bucket, key)


async def _conditions(store: ObjectStore, bucket: str, key: str) -> str | None:
    """What the store does not refuse, or None."""
    if not await _refused(store, bucket, f"{key}-missing", if_match=_STALE_ETAG):
        return "If-Match on a key that does not exist was not refused"
    first = await store.put(bucket, key, b"1", if_absent=True)
    if not await _refused(store, bucket, key, if_absent=True):
        return "If-None-Match: * on a key that exists was not refused"
    if not await _refused(store, bucket, key, if_match=_STALE_ETAG):
        return "a stale If-Match was not refused"
    try:
        await store.put(bucket, key, b"2", if_match=first.etag)
    except PreconditionFailed:
        return "If-Match with the current ETag was refused"
    if not await _refused(store, bucket, key, if_match=first.etag):
        return "If-Match with the ETag of the version before was not refused"
    return None


async def _refused(store: ObjectStore, bucket: str, key: str, *, if_match: str | None = None, if_absent: bool = False) -> bool:
    try:
        await store.put(bucket, key, b"refuse this", if_match=if_match, if_absent=if_absent)
    except PreconditionFailed:
        return True
    return False


async def _versions(store: ObjectStore, bucket: str, key: str) -> None:
    first = await store.put(bucket, key, b"old", metadata={"probe": "old"})
    await store.put(bucket, key, b"new", metadata={"probe": "new"})
    listed = await store.list_versions(bucket, key)
    if first.version_id is None or len(listed) < 2 or not any(info.version_id == first.version_id for info in listed):
        raise InvalidSettings(
            f"the object store keeps no versions in bucket {bucket}, so there would be no history and no roll-back; use a store"
            " with bucket versioning, and let its keys turn it on (s3:PutBucketVersioning)"
        )
    old = await store.get(bucket, key, first.version_id)
    if old is None or old.data != b"old" or old.info.metadata.get("probe") != "old":
        raise InvalidSettings(f"the object store does not give back an older version with its metadata (bucket {bucket})")


async def _clean(store: ObjectStore, bucket: str, key: str) -> None:
    for name in (key, f"{key}-missing", f"{key}-versions"):
        for info in await store.list_versions(bucket, name):
            await store.delete(bucket, name, info.version_id)
