"""Users' profiles in object storage: read, compose, stage, commit by compare-and-swap, history.

A company has a bucket with versioning; a user's profile is ``<root>/<user>/memory.md`` in it. What the program must know of a
write is in the object's own metadata (version number, who wrote it and why, which turns it holds), so that a retry after a
lost reply recognises its write. A candidate waits in a second, unversioned bucket of the company until it is committed: in the
first one every candidate and its removal would stay for ever as versions.

A file that another program put there is read like any other (see :mod:`memory.profile_file`); its version number follows from its
place in the list of versions.
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

import structlog

from memory.model.document import Frontmatter, parse_document, render_document
from memory.model.errors import InvalidInput, ProfileConflict
from memory.model.ids import body_hash, is_segment, short_hash
from memory.model.profile import Profile
from memory.model.scope import Scope
from memory.ports import ObjectInfo, ObjectStore, ObjectTooLarge, PreconditionFailed, StoredObject
from memory.profile_file import (
    BODY_HASH,
    CAUSE,
    MAX_CACHED_BYTES,
    MAX_DOCUMENT_BYTES,
    PROMPTS,
    TURNS,
    VERSION,
    WRITE_KEY,
    Noted,
    ProfileSnapshot,
    empty_document,
    read_file,
    unreadable,
    version_numbers,
)

PROFILE_FILE = "memory.md"
MAX_HISTORY = 1000

_CONTENT_TYPE = "text/markdown; charset=utf-8"
_MARKS = {"hidden-from-chat": "true", "no-ingestion": "true"}
_HEADS_AT_ONCE = 8
_LOOK_BACK = 32
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
class VersionInfo:
    """One line of a history. ``size``: bytes of the file. ``turns``: what names the turns that it holds. ``prompts``: version of
    those that it was made with; None where no model made it, or where that was not noted yet."""

    version: int
    etag: str
    version_id: str | None
    modified_at: datetime
    cause: str | None
    size: int
    is_latest: bool
    write_key: str | None
    turns: tuple[str, ...] = ()
    prompts: str | None = None


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

    async def ping(self) -> None:
        """Whether the store answers, by one request; creates nothing. Raises StoreUnavailable."""
        await self._store.list(self.check_bucket, "", limit=1)

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
            raise unreadable(snapshot)
        if snapshot.document.body and len(snapshot.document.body) <= MAX_CACHED_BYTES:
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
            return ProfileSnapshot(exists=False, document=empty_document(scope))
        noted = Noted.read(stored.info)
        version = noted.version
        if version is None or not noted.is_of(stored):
            # Another program wrote it, perhaps with a copy of our metadata: count instead.
            version = await self._number(scope, root, stored.info)
        return await read_file(scope, stored, noted, version)

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
        numbers = version_numbers([noted.version for noted in heads], older=len(listed) - len(heads))
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
                turns=noted.turns,
                prompts=noted.prompts,
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
                raise unreadable(current)
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
        noted = Noted.read(stored.info)
        found = await read_file(scope, stored, noted, wanted.version)
        if found.oversized is not None:
            raise unreadable(found)
        return found

    async def file(self, scope: Scope, root: str, version_id: str | None) -> bytes | None:
        """The file of a version as it is stored. None: it is not there (any more), or has more than 2 MiB."""
        stored = await self._get(scope, root, version_id)
        return None if stored is None or (not stored.data and stored.info.size) else stored.data

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
        prompts: str | None = None,
    ) -> Written:
        """Write the document if the profile is still the one with ``base_etag`` (None: still missing).

        Args:
            write_key: names this write over its retries; a repeat whose first try was applied is a success.
            cause: for the history, for instance ``turns``, ``edit``, ``rollback:3``.
            applied_turns: what names the turns that the document holds; the last ones that fit are kept (64 of 16 digits).
            prompts: version of those that a model made the document with.

        Raises:
            ProfileConflict: the profile changed since it was read; nothing was written.
            InvalidInput: the document is empty, too large or not text; nothing was written.
        """
        bucket, key = self.bucket(scope.tenant), self.key(scope, root)
        data = _checked_document(document)
        named = [("write key", write_key), ("cause", cause), *(("turn", turn) for turn in applied_turns)]
        for name, value in [*named, ("prompts' version", prompts or "-")]:
            if not _TOKEN.fullmatch(value):
                raise InvalidInput(f"the {name} must be 1 to 128 printable ASCII characters without space or comma")
        await self._store.ensure_bucket(bucket)
        version = base_version + 1
        if base_etag is None:
            # There may be versions below a delete marker; numbers go on from them.
            version = max(version, 1 + await self._last_number(scope, root))
        metadata = {
            **_MARKS,
            VERSION: str(version),
            WRITE_KEY: write_key,
            CAUSE: cause,
            TURNS: _joined(applied_turns),
            BODY_HASH: hashlib.sha256(data).hexdigest(),
        }
        if prompts is not None:
            metadata[PROMPTS] = prompts
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
        noted = Noted.read(current)
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

    # ---------------------------------------------------------------------------------------------------------- forgetting

    async def left_of(self, scope: Scope) -> dict[tuple[str, str], Sequence[ObjectInfo]]:
        """All that the object store holds of a user, by bucket and prefix: every version and delete marker below every folder of
        the company's bucket, whether or not it is (still) a root, and what is staged."""
        bucket, staging = self.bucket(scope.tenant), self.staging_bucket(scope.tenant)
        places = [(bucket, f"{folder}/{scope.user}/") for folder in await self._store.folders(bucket)]
        places.append((staging, f"staging/{scope.user}/"))
        return {place: await self._store.list_all_versions(*place) for place in places}

    async def erase(self, scope: Scope, left: Mapping[tuple[str, str], Sequence[ObjectInfo]]) -> None:
        """Delete these for good, a few at a time, and the folders that had the user's name. Safe to repeat."""
        self.forget_recent(scope)
        for (bucket, prefix), versions in left.items():
            for start in range(0, len(versions), _HEADS_AT_ONCE):
                part = versions[start : start + _HEADS_AT_ONCE]
                await asyncio.gather(*(self._store.delete(bucket, info.key, info.version_id) for info in part))
            await self._store.drop_folder(bucket, prefix)

    def forget_recent(self, scope: Scope) -> None:
        """What this process read a moment ago."""
        for where in [where for where in self._recent if where[0] == scope]:
            del self._recent[where]

    # ----------------------------------------------------------------------------------------------------------- internals

    async def _versions(self, scope: Scope, root: str) -> list[ObjectInfo]:
        listed = await self._store.list_versions(self.bucket(scope.tenant), self.key(scope, root), limit=MAX_HISTORY)
        return [info for info in listed if not info.is_delete_marker]

    async def _heads(self, bucket: str, versions: Sequence[ObjectInfo]) -> list[Noted]:
        """The metadata of these versions, a few requests at a time; empty for one that has gone meanwhile."""
        found: list[Noted] = []
        for start in range(0, len(versions), _HEADS_AT_ONCE):
            part = versions[start : start + _HEADS_AT_ONCE]
            heads = await asyncio.gather(*(self._store.head(bucket, info.key, info.version_id) for info in part))
            found += [Noted.read(head) if head else Noted() for head in heads]
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


__all__ = ["MAX_DOCUMENT_BYTES", "ProfileSnapshot", "Profiles", "VersionInfo", "Written", "candidate_name"]
