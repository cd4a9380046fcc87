"""An object store in this process's memory: versions, conditions and races as the real one, and faults on demand, for tests."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

from memory.model.errors import StoreUnavailable
from memory.ports import ObjectInfo, ObjectTooLarge, PreconditionFailed, StoredObject
from memory.stores.objects.probe import probe
from memory.stores.objects.rules import check_body, check_bucket_name, check_key, checked_metadata

Operation = Literal["get", "head", "put", "delete", "list", "list_versions", "ensure_bucket"]


@dataclass
class _Bucket:
    versioned: bool
    objects: dict[str, list[StoredObject]] = field(default_factory=dict[str, list[StoredObject]])
    """Versions by key, oldest first."""


@dataclass
class _Fault:
    error: Exception
    times: int
    applied: bool


class Pause:
    """Calls of one operation wait here: ``await reached.wait()``, look around, ``release()``."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._released = asyncio.Event()

    def release(self) -> None:
        self._released.set()

    async def wait(self) -> None:
        self.reached.set()
        await self._released.wait()


class MemoryObjectStore:
    """The port ``ObjectStore`` without a server.

    ``calls`` counts calls by operation. ``honour_conditions`` and ``honour_versions`` make a store that ignores them silently,
    as some do.
    """

    def __init__(
        self, *, honour_conditions: bool = True, honour_versions: bool = True, allow_unconditional_writes: bool = False
    ) -> None:
        self.calls: Counter[str] = Counter()
        self.down = False
        """While true every call raises StoreUnavailable."""
        self._buckets: dict[str, _Bucket] = {}
        self._honour_conditions = honour_conditions
        self._honour_versions = honour_versions
        self._allow_unconditional = allow_unconditional_writes
        self._faults: dict[str, list[_Fault]] = {}
        self._delays: dict[str, float] = {}
        self._pauses: dict[str, Pause] = {}

    # ------------------------------------------------------------------------------------------------------------- faults

    def fail_next(self, operation: Operation, error: Exception | None = None, *, times: int = 1, applied: bool = False) -> None:
        """The next calls of this operation raise ``error`` (StoreUnavailable by default).

        ``applied``: the operation is done all the same and only its reply is lost.
        """
        fault = _Fault(error or StoreUnavailable("the object store is away (injected)"), times, applied)
        self._faults.setdefault(operation, []).append(fault)

    def delay(self, operation: Operation, seconds: float) -> None:
        """Every call of this operation takes this long from now on."""
        self._delays[operation] = seconds

    def pause_next(self, operation: Operation) -> Pause:
        """The next call of this operation waits until the returned pause is released."""
        self._pauses[operation] = Pause()
        return self._pauses[operation]

    async def _enter(self, operation: Operation) -> Exception | None:
        """Raises what must happen before the effect; returns what must be raised after it."""
        self.calls[operation] += 1
        pause = self._pauses.pop(operation, None)
        if pause is not None:
            await pause.wait()
        await asyncio.sleep(self._delays.get(operation, 0))
        if self.down:
            raise StoreUnavailable("the object store is away (switched off)")
        faults = self._faults.get(operation)
        if not faults:
            return None
        fault = faults[0]
        fault.times -= 1
        if fault.times <= 0:
            faults.pop(0)
        if fault.applied:
            return fault.error
        raise fault.error

    # ------------------------------------------------------------------------------------------------------------ objects

    async def get(
        self, bucket: str, key: str, version_id: str | None = None, *, max_bytes: int | None = None
    ) -> StoredObject | None:
        check_bucket_name(bucket)
        check_key(key)
        late = await self._enter("get")
        found = self._find(bucket, key, version_id)
        if late:
            raise late
        if found is not None and max_bytes is not None and found.info.size > max_bytes:
            raise ObjectTooLarge(found.info)
        return found

    async def head(self, bucket: str, key: str, version_id: str | None = None) -> ObjectInfo | None:
        check_bucket_name(bucket)
        check_key(key)
        late = await self._enter("head")
        found = self._find(bucket, key, version_id)
        if late:
            raise late
        return found.info if found else None

    async def put(
        self,
        bucket: str,
        key: str,
        data: bytes,
        *,
        content_type: str = "application/octet-stream",
        metadata: Mapping[str, str] | None = None,
        if_match: str | None = None,
        if_absent: bool = False,
    ) -> ObjectInfo:
        check_bucket_name(bucket)
        check_key(key)
        check_body(data)
        kept = checked_metadata(metadata)
        late = await self._enter("put")
        if bucket not in self._buckets:
            raise StoreUnavailable(f"bucket {bucket} does not exist (yet)")
        current = self._find(bucket, key, None)
        if self._honour_conditions and (
            (if_absent and current is not None) or (if_match and (current is None or current.info.etag != if_match))
        ):
            raise PreconditionFailed("PreconditionFailed")
        etag = hashlib.md5(data, usedforsecurity=False).hexdigest()
        info = ObjectInfo(key=key, etag=etag, size=len(data), modified_at=datetime.now(UTC), metadata=kept)
        info = self._append(bucket, StoredObject(info, bytes(data)))
        if late:
            raise late
        return info

    async def delete(self, bucket: str, key: str, version_id: str | None = None) -> None:
        check_bucket_name(bucket)
        check_key(key)
        late = await self._enter("delete")
        place = self._buckets.get(bucket)
        if place is not None:
            if version_id is None and place.versioned:
                marker = ObjectInfo(key=key, etag="", size=0, modified_at=datetime.now(UTC), is_delete_marker=True)
                self._append(bucket, StoredObject(marker, b""))
            else:
                left = [item for item in place.objects.get(key, []) if version_id and item.info.version_id != version_id]
                place.objects[key] = left
                if not left:
                    del place.objects[key]
        if late:
            raise late

    async def list(self, bucket: str, prefix: str, *, limit: int = 1000, start_after: str | None = None) -> Sequence[ObjectInfo]:
        check_bucket_name(bucket)
        late = await self._enter("list")
        place = self._buckets.get(bucket)
        keys = sorted(key for key in (place.objects if place else {}) if key.startswith(prefix) and key > (start_after or ""))
        found = [item for key in keys if (item := self._find(bucket, key, None))]
        if late:
            raise late
        return [replace(item.info, metadata={}) for item in found[:limit]]

    async def list_versions(self, bucket: str, key: str, *, limit: int = 1000) -> Sequence[ObjectInfo]:
        check_bucket_name(bucket)
        check_key(key)
        late = await self._enter("list_versions")
        place = self._buckets.get(bucket)
        versions = list(reversed(place.objects.get(key, []))) if place else []
        if late:
            raise late
        return [replace(item.info, metadata={}, is_latest=index == 0) for index, item in enumerate(versions[:limit])]

    async def folders(self, bucket: str) -> Sequence[str]:
        check_bucket_name(bucket)
        late = await self._enter("list_versions")
        place = self._buckets.get(bucket)
        found = sorted({key.partition("/")[0] for key in (place.objects if place else {}) if "/" in key})
        if late:
            raise late
        return found

    async def list_all_versions(self, bucket: str, prefix: str) -> Sequence[ObjectInfo]:
        check_bucket_name(bucket)
        late = await self._enter("list_versions")
        place = self._buckets.get(bucket)
        found = [
            replace(item.info, metadata={}, is_latest=item is versions[-1])
            for key, versions in (place.objects if place else {}).items()
            if key.startswith(prefix)
            for item in versions
        ]
        if late:
            raise late
        return found

    async def drop_folder(self, bucket: str, prefix: str) -> None:
        """There are no folders here."""

    # ------------------------------------------------------------------------------------------------------------ buckets

    async def ensure_bucket(self, bucket: str, *, versioned: bool = True) -> None:
        check_bucket_name(bucket)
        late = await self._enter("ensure_bucket")
        place = self._buckets.setdefault(bucket, _Bucket(versioned=False))
        place.versioned = (place.versioned or versioned) and self._honour_versions
        if late:
            raise late

    async def check(self, bucket: str) -> None:
        await probe(self, bucket, allow_unconditional=self._allow_unconditional)

    async def aclose(self) -> None:
        self._buckets.clear()

    # ---------------------------------------------------------------------------------------------------------- internals

    def _find(self, bucket: str, key: str, version_id: str | None) -> StoredObject | None:
        place = self._buckets.get(bucket)
        versions = place.objects.get(key, []) if place else []
        if version_id is not None:
            versions = [item for item in versions if item.info.version_id == version_id]
        return versions[-1] if versions and not versions[-1].info.is_delete_marker else None

    def _append(self, bucket: str, item: StoredObject) -> ObjectInfo:
        place = self._buckets[bucket]
        if not place.versioned:
            place.objects[item.info.key] = [item]
            return item.info
        item = replace(item, info=replace(item.info, version_id=uuid.uuid4().hex))
        place.objects.setdefault(item.info.key, []).append(item)
        return item.info
