"""The object store: a bucket store with versioning and conditional writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """``etag`` without quotes. ``metadata``: the user metadata, lower-case keys without the ``x-amz-meta-`` prefix."""

    key: str
    etag: str
    size: int
    modified_at: datetime
    version_id: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    is_latest: bool = True
    is_delete_marker: bool = False


@dataclass(frozen=True, slots=True)
class StoredObject:
    info: ObjectInfo
    data: bytes = field(repr=False)


class PreconditionFailed(Exception):
    """A conditional PUT was refused: the object is not (or no longer) what the caller read."""


class ObjectTooLarge(Exception):
    """The object has more bytes than the caller reads. ``info``: all that is known of it without its body."""

    def __init__(self, info: ObjectInfo) -> None:
        super().__init__(f"the object has {info.size} bytes")
        self.info = info


class ObjectStore(Protocol):
    """An S3 bucket store with versioning and conditional writes. Keys are built from encoded segments by the caller."""

    async def get(
        self, bucket: str, key: str, version_id: str | None = None, *, max_bytes: int | None = None
    ) -> StoredObject | None:
        """None: no such bucket, key or version. ``info`` carries metadata, ETag and version id.

        Raises ObjectTooLarge, before the body is read, for an object of more than ``max_bytes``.
        """
        ...

    async def head(self, bucket: str, key: str, version_id: str | None = None) -> ObjectInfo | None: ...

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
        """Write; raises PreconditionFailed when ``if_match`` (an ETag) or ``if_absent`` does not hold. Metadata is ASCII."""
        ...

    async def delete(self, bucket: str, key: str, version_id: str | None = None) -> None:
        """Without a version id: a delete marker where versioning is on. A missing object is not an error."""
        ...

    async def list(self, bucket: str, prefix: str, *, limit: int = 1000, start_after: str | None = None) -> Sequence[ObjectInfo]:
        """Current objects by key, without metadata. A missing bucket is empty."""
        ...

    async def list_versions(self, bucket: str, key: str, *, limit: int = 1000) -> Sequence[ObjectInfo]:
        """Versions of exactly this key, newest first, delete markers included, without metadata."""
        ...

    async def folders(self, bucket: str) -> Sequence[str]:
        """First segments of the keys, by name; of keys with nothing but a delete marker too, and perhaps of some that are gone. A
        missing bucket is empty."""
        ...

    async def list_all_versions(self, bucket: str, prefix: str) -> Sequence[ObjectInfo]:
        """Versions of all keys that begin with this, delete markers included, in no order, without metadata."""
        ...

    async def drop_folder(self, bucket: str, prefix: str) -> None:
        """Where a store goes on showing a folder below which no key is left, remove it. ``prefix`` ends with a slash."""
        ...

    async def ensure_bucket(self, bucket: str, *, versioned: bool = True) -> None:
        """Create it where it does not exist; safe to race. ``versioned``: turn versioning on; else it is left as it is."""
        ...

    async def check(self, bucket: str) -> None:
        """Prove in this bucket that conditional writes and versioning are honoured.

        Raises InvalidSettings when they are not (unless the settings allow it) and StoreUnavailable when it cannot be reached.
        """
        ...

    async def aclose(self) -> None: ...
