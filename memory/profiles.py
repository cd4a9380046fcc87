"""Users' profiles in object storage: read, compose, stage, commit by compare-and-swap, history.

A company has a bucket with versioning; a user's profile is ``<root>/<user>/memory.md`` in it. What the program must know of a
write is in the object's own metadata (version number, who wrote it and why, which turns it holds), so that a retry after a
lost reply recognises its write. A candidate waits in a second, unversioned bucket of the company until it is committed: in the
first one every candidate and its removal would stay for ever as versions.

A file that another program put there, without our metadata, is read like any other, except that secrets are redacted on the
way: nobody did that when it was written. Its version number follows from its place in the list of versions.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import structlog

from memory.model.document import Document, Frontmatter, decode_text, parse_document, render_document
from memory.model.errors import InvalidInput, ProfileConflict, UnreadableProfile
from memory.model.ids import body_hash, is_segment, short_hash
from memory.model.profile import EMPTY_PROFILE, Profile
from memory.model.redaction import redact
from memory.model.scope import Scope
from memory.ports import ObjectInfo, ObjectStore, ObjectTooLarge, PreconditionFailed, StoredObject

PROFILE_FILE = "memory.md"
MAX_DOCUMENT_BYTES = 2 * 1024 * 1024
"""More than the 1 MiB that an editor may save, since frontmatter and strict form add to it."""
MAX_HISTORY = 1000

_CONTENT_TYPE = "text/markdown; charset=utf-8"
_VERSION, _WRITE_KEY, _CAUSE, _TURNS, _HASH = "version", "write-key", "cause", "applied-turns", "body-sha256"
_MARKS = {"hidden-from-chat": "true", "no-ingestion": "true"}
_HEADS_AT_ONCE = 8
_LOOK_BACK = 32
_MAX_CACHED_BYTES = 64 * 1024
_QUICK_BYTES = 8 * 1024
"""Redacted on the spot, in a millisecond or two."""
_MAX_TURNS_CHARS = 1100
_PLAIN_TENANT = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_CANDIDATE = re.compile(r"[0-9a-f]{64}(?:-[0-9a-f]{16})?")
"""SHA-256 of a staged text, and whose it is where it is not everybody's."""
_ROOT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_TOKEN = re.compile(r"[!-+\--~]{1,128}")
"""Printable ASCII without space and comma."""

_MAX_RECENT = 128

_log = structlog.get_logger("afterturn.profiles")


@dataclass(frozen=True, slots=True)
class ProfileSnapshot:
    """A profile as it was read. Without a file: ``exists`` is false, the profile is empty, the version 0.

    ``applied_turns``: what names the turns that it is known to hold. ``write_key`` and ``cause`` are None for a file that
    another program wrote (``foreign``); ``redacted``: there were secrets in it, which ``document`` does not have.
    ``oversized``: bytes of a file that is too large to be read; then ``document`` is empty, and good for nothing but to be
    written over.
    """

    exists: bool
    document: Document
    etag: str | None = None
    version: int = 0
    version_id: str | None = None
    applied_turns: tuple[str, ...] = ()
    write_key: str | None = None
    cause: str | None = None
    modified_at: datetime | None = None
    redacted: bool = False
    oversized: int | None = None

    @property
    def foreign(self) -> bool:
        """Whether another program wrote the file, or changed it in place."""
        return self.exists and self.write_key is None

    @property
    def as_stored(self) -> bool:
        """Whether ``document`` is what is in the store: only then can a write be left out because it would change nothing."""
        return not self.redacted and self.oversized is None


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """One line of a history. ``size``: bytes of the file."""

    version: int
    etag: str
    version_id: str | None
    modified_at: datetime
    cause: str | None
    size: int
    is_latest: bool
    write_key: str | None


@dataclass(frozen=True, slots=True)
class Written:
    """``repeated``: an earlier try of the same write had been applied; nothing was written now."""

    version: int
    etag: str
    version_id: str | None
    repeated: bool


class Profiles:
    """The service over an object store. Methods raise the store's errors: StoreUnavailable, InvalidSettings, InvalidInput."""

    def __init__(self, store: ObjectStore, *, bucket_prefix: str) -> None:
        """``bucket_prefix``: as the setting, 2 to 20 characters."""
        self._store = store
        self._prefix = bucket_prefix
        # The rewrite reads what the gate has just read.
        self._recent: OrderedDict[tuple[Scope, str], tuple[float, ProfileSnapshot]] = OrderedDict()

    # -------------------------------------------------------------------------------------------------------------- places

    def bucket(self, tenant: str) -> str:
        """The company's bucket; ``tenant`` is an encoded segment, and two tenants never share a bucket."""
        return self._bucket(tenant, "")

    def staging_bucket(self, tenant: str) -> str:
        """The company's bucket for candidates; not versioned."""
        return self._bucket(tenant, "s")

    @property
    def check_bucket(self) -> str:
        """A bucket without profiles, for the store's ``check``."""
        return f"{self._prefix}-check"

    def _bucket(self, tenant: str, kind: str) -> str:
        if not is_segment(tenant):
            raise InvalidInput("the tenant must be an encoded id; use Scope.of(tenant_id, user_id)")
        # S3 allows 63 characters of a-z, 0-9 and -; some endings are reserved. What does not fit is named by 160 bits of hash.
        if len(tenant) <= 36 and _PLAIN_TENANT.fullmatch(tenant) and not tenant.endswith(("s3alias", "-s3")):
            return f"{self._prefix}-{kind}t-{tenant}"
        digest = hashlib.sha256(tenant.encode("ascii")).digest()[:20]
        return f"{self._prefix}-{kind}h-{base64.b32encode(digest).decode('ascii').lower()}"

    def key(self, scope: Scope, root: str) -> str:
        """``<root>/<user>/memory.md``."""
        return f"{_checked_root(root)}/{scope.user}/{PROFILE_FILE}"

    async def check(self) -> None:
        """Prove that the store honours conditional writes and keeps versions. Raises InvalidSettings or StoreUnavailable."""
        await self._store.check(self.check_bucket)

    async def is_unused(self, tenant: str, root: str) -> bool:
        """Whether nothing lies under the root (any more); versions below a delete marker do not count."""
        return not await self._store.list(self.bucket(tenant), f"{_checked_root(root)}/", limit=1)

    async def prepare(self, tenant: str) -> None:
        """Make the company's buckets where they are missing."""
        await asyncio.gather(
            self._store.ensure_bucket(self.bucket(tenant)),
            self._store.ensure_bucket(self.staging_bucket(tenant), versioned=False),
        )

    # ------------------------------------------------------------------------------------------------------------- reading

    async def read(self, scope: Scope, root: str, *, max_age_s: float = 0.0, to_overwrite: bool = False) -> ProfileSnapshot:
        """The profile as it is now, by one request; creates nothing.

        Args:
            max_age_s: what this process read so short a time ago will do. Only for a writer, whom compare-and-swap protects.
            to_overwrite: a file of more than 2 MiB is an empty document that says so (``oversized``), with its ETag and version.

        Raises:
            UnreadableProfile: the file has more than 2 MiB.
        """
        where = (scope, root)
        if max_age_s > 0 and (known := self._recent.get(where)) and time.monotonic() - known[0] <= max_age_s:
            return known[1]
        snapshot = await self._read_now(scope, root)
        if snapshot.oversized is not None and not to_overwrite:
            raise _unreadable(snapshot)
        if snapshot.document.body and len(snapshot.document.body) <= _MAX_CACHED_BYTES:
            self._recent[where] = (time.monotonic(), snapshot)
            self._recent.move_to_end(where)
            if len(self._recent) > _MAX_RECENT:
                self._recent.popitem(last=False)
        else:
            self._recent.pop(where, None)
        return snapshot

    async def _read_now(self, scope: Scope, root: str) -> ProfileSnapshot:
        stored = await self._get(scope, root)
        if stored is None:
            return ProfileSnapshot(exists=False, document=_empty_document(scope))
        noted = _Noted.read(stored.info)
        foreign = not noted.is_of(stored)
        # Another program wrote it, perhaps with a copy of our metadata: count instead.
        version = await self._number(scope, root, stored.info) if noted.version is None or foreign else noted.version
        return await _snapshot(scope, stored, noted, version, foreign=foreign)

    async def _get(self, scope: Scope, root: str, version_id: str | None = None) -> StoredObject | None:
        """With an empty body where it is too large to be read."""
        try:
            return await self._store.get(self.bucket(scope.tenant), self.key(scope, root), version_id, max_bytes=MAX_DOCUMENT_BYTES)
        except ObjectTooLarge as error:
            return StoredObject(error.info, b"")

    async def history(self, scope: Scope, root: str, *, limit: int = 50) -> list[VersionInfo]:
        """The newest versions, newest first; ``limit`` is at most 1,000. Empty when there is no profile."""
        limit = max(0, min(limit, MAX_HISTORY))
        listed = await self._versions(scope, root)
        if not limit or not listed:
            return []
        heads = await self._heads(self.bucket(scope.tenant), listed[:limit])
        numbers = _numbers([noted.version for noted in heads], older=len(listed) - len(heads))
        return [
            VersionInfo(
                version=number,
                etag=info.etag,
                version_id=info.version_id,
                modified_at=info.modified_at,
                cause=noted.cause,
                size=info.size,
                is_latest=info.is_latest,
                write_key=noted.write_key,
            )
            for info, noted, number in zip(listed, heads, numbers, strict=False)
        ]

    async def read_version(self, scope: Scope, root: str, version: int) -> ProfileSnapshot | None:
        """The profile as it was at that version, or None when there is no such version (any more). Raises as :meth:`read`."""
        if version < 1:
            return None
        current = await self.read(scope, root, to_overwrite=True)
        if current.exists and current.version == version:
            if current.oversized is not None:
                raise _unreadable(current)
            return current
        # Versions are numbered without gaps as a rule, so the wanted one is as far down the list as the numbers say.
        distance = current.version - version if current.exists else MAX_HISTORY
        if distance < 0:
            return None
        for limit in sorted({min(distance + 2, MAX_HISTORY), MAX_HISTORY}):
            found = [info for info in await self.history(scope, root, limit=limit) if info.version == version]
            if found:
                return await self._read_one(scope, root, found[0])
        return None

    async def _read_one(self, scope: Scope, root: str, wanted: VersionInfo) -> ProfileSnapshot | None:
        stored = await self._get(scope, root, wanted.version_id)
        if stored is None:
            return None
        noted = _Noted.read(stored.info)
        found = await _snapshot(scope, stored, noted, wanted.version, foreign=not noted.is_of(stored))
        if found.oversized is not None:
            raise _unreadable(found)
        return found

    # ------------------------------------------------------------------------------------------------------------- writing

    def compose(self, base: ProfileSnapshot, profile: Profile, *, scope: Scope, rewrite: bool, now: datetime) -> str:
        """The complete document for a changed profile: the frontmatter of ``base``, advanced.

        Args:
            rewrite: the pipeline made the change (it counts in ``turn_count``), not the user or a roll-back.
            now: with a zone.
        """
        known = base.document.frontmatter
        kept = Frontmatter(scope.user_id, known.schema_version, known.last_updated, known.turn_count, known.extra)
        return render_document(kept.advanced(now=now, rewrite=rewrite), profile)

    async def commit(
        self,
        scope: Scope,
        root: str,
        document: str,
        *,
        base_etag: str | None,
        base_version: int,
        write_key: str,
        cause: str,
        applied_turns: Sequence[str],
    ) -> Written:
        """Write the document if the profile is still the one with ``base_etag`` (None: still missing).

        Args:
            write_key: names this write over its retries; a repeat whose first try was applied is a success.
            cause: for the history, for instance ``turns``, ``edit``, ``rollback:3``.
            applied_turns: what names the turns that the document holds; the last ones that fit are kept (64 of 16 digits).

        Raises:
            ProfileConflict: the profile changed since it was read; nothing was written.
            InvalidInput: the document is empty, too large or not text; nothing was written.
        """
        bucket, key = self.bucket(scope.tenant), self.key(scope, root)
        data = _checked_document(document)
        for name, value in (("write key", write_key), ("cause", cause), *(("turn", turn) for turn in applied_turns)):
            if not _TOKEN.fullmatch(value):
                raise InvalidInput(f"the {name} must be 1 to 128 printable ASCII characters without space or comma")
        await self._store.ensure_bucket(bucket)
        version = base_version + 1
        if base_etag is None:
            # There may be versions below a delete marker; numbers go on from them.
            version = max(version, 1 + await self._last_number(scope, root))
        metadata = {
            **_MARKS,
            _VERSION: str(version),
            _WRITE_KEY: write_key,
            _CAUSE: cause,
            _TURNS: _joined(applied_turns),
            _HASH: hashlib.sha256(data).hexdigest(),
        }
        try:
            info = await self._store.put(
                bucket,
                key,
                data,
                content_type=_CONTENT_TYPE,
                metadata=metadata,
                if_match=base_etag,
                if_absent=base_etag is None,
            )
        except PreconditionFailed:
            earlier = await self._find_write(scope, root, write_key, base_etag)
            if earlier is None:
                raise ProfileConflict("the profile changed since it was read") from None
            return earlier
        return Written(version=version, etag=info.etag, version_id=info.version_id, repeated=False)

    async def _find_write(self, scope: Scope, root: str, write_key: str, base_etag: str | None) -> Written | None:
        """This write among the versions after its base, should its reply have been lost; others may have written since."""
        bucket, key = self.bucket(scope.tenant), self.key(scope, root)
        current = await self._store.head(bucket, key)
        if current is None:
            return None
        noted = _Noted.read(current)
        if noted.write_key == write_key and noted.version is not None:
            return Written(noted.version, current.etag, current.version_id, repeated=True)
        newer: list[ObjectInfo] = []
        for info in (await self._versions(scope, root))[:_LOOK_BACK]:
            if info.etag == base_etag:
                break
            newer.append(info)
        for info, noted in zip(newer, await self._heads(bucket, newer), strict=True):
            if noted.write_key == write_key and noted.version is not None:
                return Written(noted.version, info.etag, info.version_id, repeated=True)
        return None

    # ------------------------------------------------------------------------------------------------------------- staging

    async def stage(self, scope: Scope, text: str, *, owner: str | None = None) -> str:
        """Put a text aside until it is committed; returns what :func:`candidate_name` gives.

        Idempotent; a repeat makes it young again.
        """
        data = _encode(text)
        candidate = candidate_name(text, owner=owner)
        bucket = self.staging_bucket(scope.tenant)
        await self._store.ensure_bucket(bucket, versioned=False)
        await self._store.put(bucket, _staged_key(scope, candidate), data, content_type=_CONTENT_TYPE, metadata=_MARKS)
        return candidate

    async def read_staged(self, scope: Scope, candidate: str) -> str | None:
        """The text, or None when it is not there (any more) or not what its name says."""
        stored = await self._store.get(self.staging_bucket(scope.tenant), _staged_key(scope, candidate))
        if stored is None:
            return None
        if hashlib.sha256(stored.data).hexdigest() != candidate.partition("-")[0]:
            _log.error("staged_candidate_damaged", tenant=scope.tenant, user=scope.user, candidate=candidate[:12])
            return None
        return stored.data.decode("utf-8")

    async def drop_staged(self, scope: Scope, candidate: str) -> None:
        """Remove it; a missing one is not an error."""
        await self._store.delete(self.staging_bucket(scope.tenant), _staged_key(scope, candidate))

    async def sweep_staging(self, tenant: str, *, older_than: datetime, limit: int) -> int:
        """Remove at most ``limit`` staged texts that were put aside before ``older_than``; returns how many."""
        bucket = self.staging_bucket(tenant)
        removed, after = 0, None
        while removed < limit:
            page = await self._store.list(bucket, "staging/", limit=MAX_HISTORY, start_after=after)
            old = [info for info in page if info.modified_at < older_than][: limit - removed]
            for start in range(0, len(old), _HEADS_AT_ONCE):
                part = old[start : start + _HEADS_AT_ONCE]
                await asyncio.gather(*(self._store.delete(bucket, info.key) for info in part))
                removed += len(part)
            if len(page) < MAX_HISTORY:
                break
            after = page[-1].key
        return removed

    # ----------------------------------------------------------------------------------------------------------- internals

    async def _versions(self, scope: Scope, root: str) -> list[ObjectInfo]:
        listed = await self._store.list_versions(self.bucket(scope.tenant), self.key(scope, root), limit=MAX_HISTORY)
        return [info for info in listed if not info.is_delete_marker]

    async def _heads(self, bucket: str, versions: Sequence[ObjectInfo]) -> list[_Noted]:
        """The metadata of these versions, a few requests at a time; empty for one that has gone meanwhile."""
        found: list[_Noted] = []
        for start in range(0, len(versions), _HEADS_AT_ONCE):
            part = versions[start : start + _HEADS_AT_ONCE]
            heads = await asyncio.gather(*(self._store.head(bucket, info.key, info.version_id) for info in part))
            found += [_Noted.read(head) if head else _Noted() for head in heads]
        return found

    async def _number(self, scope: Scope, root: str, current: ObjectInfo) -> int:
        """The version number of a file without (true) metadata, as the history counts it."""
        newest = await self.history(scope, root, limit=_LOOK_BACK)
        return next((info.version for info in newest if info.version_id == current.version_id), 1)

    async def _last_number(self, scope: Scope, root: str) -> int:
        newest = await self.history(scope, root, limit=1)
        return newest[0].version if newest else 0


def candidate_name(text: str, *, owner: str | None = None) -> str:
    """What a staged text is called: its SHA-256 (hex), and behind it what stands for ``owner``.

    Two owners of the same text have two candidates: neither loses its own when the other is done.
    """
    return body_hash(text) if owner is None else f"{body_hash(text)}-{short_hash(owner)}"


@dataclass(frozen=True, slots=True)
class _Noted:
    """What a file's metadata says; None where it says nothing that can be read."""

    version: int | None = None
    write_key: str | None = None
    cause: str | None = None
    turns: tuple[str, ...] = ()
    hash: str | None = None

    @classmethod
    def read(cls, info: ObjectInfo) -> _Noted:
        noted: Mapping[str, str] = info.metadata
        number = noted.get(_VERSION, "")
        return cls(
            version=int(number) if number.isascii() and number.isdigit() and 0 < len(number) < 16 else None,
            write_key=noted.get(_WRITE_KEY),
            cause=noted.get(_CAUSE),
            turns=tuple(turn for turn in noted.get(_TURNS, "").split(",") if turn),
            hash=noted.get(_HASH),
        )

    def is_of(self, stored: StoredObject) -> bool:
        """Whether this file was written with it: another program may have left our metadata on a file that it changed."""
        return self.write_key is not None and self.hash == hashlib.sha256(stored.data).hexdigest()


def _numbers(noted: Sequence[int | None], *, older: int) -> list[int]:
    """Version numbers of a history, newest first: the noted ones, and for files without one the number after that before."""
    numbers: list[int] = []
    last = older
    for number in reversed(noted):
        last = max(last + 1, number) if number is not None else last + 1
        numbers.append(last)
    return numbers[::-1]


async def _snapshot(scope: Scope, stored: StoredObject, noted: _Noted, version: int, *, foreign: bool) -> ProfileSnapshot:
    info = stored.info
    oversized = info.size if info.size > MAX_DOCUMENT_BYTES else None
    redacted = False
    if oversized is not None:
        document = _empty_document(scope)
    elif foreign:
        # Up to megabytes: in a thread, so that other users go on.
        in_place = len(stored.data) <= _QUICK_BYTES
        found = _clean(stored.data, scope.user_id) if in_place else await asyncio.to_thread(_clean, stored.data, scope.user_id)
        document, redacted = found
    else:
        document = _parse(stored.data, scope.user_id)
    return ProfileSnapshot(
        exists=True,
        document=document,
        etag=info.etag,
        version=version,
        version_id=info.version_id,
        applied_turns=noted.turns,
        write_key=None if foreign else noted.write_key,
        cause=None if foreign else noted.cause,
        modified_at=info.modified_at,
        redacted=redacted,
        oversized=oversized,
    )


@lru_cache(maxsize=4)
def _clean(data: bytes, user_id: str) -> tuple[Document, bool]:
    """A file of another program without its secrets, and whether it had any. A large one takes a second, and every turn asks."""
    found = redact(decode_text(data))
    return parse_document(found.text, user_id=user_id), found.found


def _unreadable(snapshot: ProfileSnapshot) -> UnreadableProfile:
    return UnreadableProfile(
        f"version {snapshot.version} of the profile has {snapshot.oversized} bytes, more than the {MAX_DOCUMENT_BYTES} that are "
        f"read (another program wrote it): bring an earlier version back, or save a shorter text over it",
        etag=snapshot.etag,
        version=snapshot.version,
    )


def _parse(data: bytes, user_id: str) -> Document:
    return _parse_small(data, user_id) if len(data) <= _MAX_CACHED_BYTES else parse_document(data, user_id=user_id)


@lru_cache(maxsize=128)
def _parse_small(data: bytes, user_id: str) -> Document:
    """A turn reads the same file three times (load, gate, consolidate), and parsing costs as much as half a request."""
    return parse_document(data, user_id=user_id)


def _empty_document(scope: Scope) -> Document:
    return Document(Frontmatter(user_id=scope.user_id), EMPTY_PROFILE, "")


def _joined(turns: Sequence[str]) -> str:
    """The newest turns that fit into the metadata, which S3 limits."""
    kept = list(turns)
    while len(",".join(kept)) > _MAX_TURNS_CHARS:
        kept.pop(0)
    return ",".join(kept)


def _checked_root(root: str) -> str:
    if not _ROOT.fullmatch(root):
        raise InvalidInput("the root folder must be 1 to 63 letters, digits, - and _, a letter or digit first")
    return root


def _staged_key(scope: Scope, candidate: str) -> str:
    if not _CANDIDATE.fullmatch(candidate):
        raise InvalidInput("a candidate is named by a SHA-256 in hex")
    return f"staging/{scope.user}/{candidate}"


def _encode(text: str) -> bytes:
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidInput("the text holds half of a surrogate pair, which UTF-8 cannot hold") from None
    _check_size(len(data))
    return data


def _check_size(size: int) -> None:
    if size > MAX_DOCUMENT_BYTES:
        raise InvalidInput(f"the profile has {size} bytes; at most {MAX_DOCUMENT_BYTES} are accepted")


def _checked_document(document: str) -> bytes:
    data = _encode(document)
    if not parse_document(document, user_id="-").body.strip():
        raise InvalidInput("the document has no text below its frontmatter; an empty file is never written")
    return data
