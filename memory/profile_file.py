"""A profile's file as it is read: its text, and what its metadata says of the write that made it.

Another program's file, or one that it changed in place, is known by the hash in the metadata: it is not there, or not that of the
body. Its secrets are redacted on the way, since nobody did that when it was written.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from memory.model.document import Document, Frontmatter, decode_text, parse_document
from memory.model.errors import UnreadableProfile
from memory.model.profile import EMPTY_PROFILE
from memory.model.redaction import redact
from memory.model.scope import Scope
from memory.ports import ObjectInfo, StoredObject

MAX_DOCUMENT_BYTES = 2 * 1024 * 1024
"""More than the 1 MiB that an editor may save, since frontmatter and strict form add to it."""
MAX_CACHED_BYTES = 64 * 1024
VERSION, WRITE_KEY, CAUSE, TURNS, BODY_HASH = "version", "write-key", "cause", "applied-turns", "body-sha256"
PROMPTS = "prompts"
"""Names in an object's metadata."""
_QUICK_BYTES = 8 * 1024
"""Redacted on the spot, in a millisecond or two."""


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
class Noted:
    """What a file's metadata says; None where it says nothing that can be read."""

    version: int | None = None
    write_key: str | None = None
    cause: str | None = None
    turns: tuple[str, ...] = ()
    hash: str | None = None
    prompts: str | None = None

    @classmethod
    def read(cls, info: ObjectInfo) -> Noted:
        noted: Mapping[str, str] = info.metadata
        number = noted.get(VERSION, "")
        return cls(
            version=int(number) if number.isascii() and number.isdigit() and 0 < len(number) < 16 else None,
            write_key=noted.get(WRITE_KEY),
            cause=noted.get(CAUSE),
            turns=tuple(turn for turn in noted.get(TURNS, "").split(",") if turn),
            hash=noted.get(BODY_HASH),
            prompts=noted.get(PROMPTS),
        )

    def is_of(self, stored: StoredObject) -> bool:
        """Whether this file was written with it: another program may have left our metadata on a file that it changed."""
        return self.write_key is not None and self.hash == hashlib.sha256(stored.data).hexdigest()


def version_numbers(noted: Sequence[int | None], *, older: int) -> list[int]:
    """Version numbers of a history, newest first: the noted ones, and for files without one the number after that before."""
    numbers: list[int] = []
    last = older
    for number in reversed(noted):
        last = max(last + 1, number) if number is not None else last + 1
        numbers.append(last)
    return numbers[::-1]


async def read_file(scope: Scope, stored: StoredObject, noted: Noted, version: int) -> ProfileSnapshot:
    """The snapshot of a file that was read, or of which all but the body was, since it is too large."""
    info = stored.info
    oversized = info.size if info.size > MAX_DOCUMENT_BYTES else None
    foreign, redacted = not noted.is_of(stored), False
    if oversized is not None:
        document = empty_document(scope)
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


def unreadable(snapshot: ProfileSnapshot) -> UnreadableProfile:
    """The error for an oversized file."""
    return UnreadableProfile(
        f"version {snapshot.version} of the profile has {snapshot.oversized} bytes, more than the {MAX_DOCUMENT_BYTES} that are "
        f"read (another program wrote it): bring an earlier version back, or save a shorter text over it",
        etag=snapshot.etag,
        version=snapshot.version,
    )


def _parse(data: bytes, user_id: str) -> Document:
    return _parse_small(data, user_id) if len(data) <= MAX_CACHED_BYTES else parse_document(data, user_id=user_id)


@lru_cache(maxsize=128)
def _parse_small(data: bytes, user_id: str) -> Document:
    """A turn reads the same file three times (load, gate, consolidate), and parsing costs as much as half a request."""
    return parse_document(data, user_id=user_id)


def empty_document(scope: Scope) -> Document:
    """What there is where there is no file."""
    return Document(Frontmatter(user_id=scope.user_id), EMPTY_PROFILE, "")
