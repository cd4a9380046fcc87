"""What the HTTP API and the right to be forgotten need of the database: erasures, service tokens, the notice box, processes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from memory.model.erasure import Erasure
from memory.model.scope import Scope
from memory.ports.pipeline import Notice

# --------------------------------------------------------------------------------------------------------------- erasures


class ErasureLedger(Protocol):
    """Receipts of erasures, the mark that holds recording off, and the deletion of a user's rows in SQL."""

    async def open(self, scope: Scope, *, erasure_id: str, requested_by: str, now: datetime) -> Erasure:
        """Record the wish and mark the user as being forgotten, in one transaction: from its commit on nothing of the user is
        recorded. While one is open, that one is returned and nothing is written.

        ``requested_by``: at most 100 characters, for instance ``user`` or ``admin``; it stays in the receipt, so an id of the user
        in it is left out.
        """
        ...

    async def subject(self, tenant: str, erasure_id: str) -> Scope | None:
        """Who is to be forgotten; None once nothing is left to be found. Raises InvalidInput for an unknown id."""
        ...

    async def erasure(self, tenant: str, erasure_id: str) -> Erasure | None: ...

    async def of_user(self, scope: Scope, *, limit: int = 20) -> Sequence[Erasure]:
        """Newest first; found by the hash of the user's id."""
        ...

    async def open_ones(self, *, limit: int = 100) -> Sequence[tuple[str, str]]:
        """(tenant, erasure id) of all that are not done, for the sweeper."""
        ...

    async def oldest_open(self) -> datetime | None:
        """When the one was asked for that has waited longest; None: all are done."""
        ...

    async def erase_rows(self, scope: Scope, *, erasure_id: str | None = None) -> Mapping[str, int]:
        """Delete all rows of the user, in bounded transactions. Returns rows by table; run again it finds what came meanwhile.

        Rows of the user's teams stay: they are the teams'. The mark and the receipts stay. Nothing of what was deleted is left in
        the files of SQLite; PostgreSQL overwrites dead rows with its vacuum.

        Args:
            erasure_id: whose receipt counts them, each in the transaction that deletes it: ``rows.<table>``.
        """
        ...

    async def add_counts(self, tenant: str, erasure_id: str, counts: Mapping[str, int], *, step: str) -> None:
        """Add to the receipt; the same ``step`` again changes nothing until it is through (:meth:`note` without a problem). Say it
        before deleting: what is cut short and repeated, also by another run, finds less, and what it finds is counted."""
        ...

    async def note(self, tenant: str, erasure_id: str, what: str, problem: str | None) -> None:
        """What holds it up at ``what``, for instance ``objects``; None: nothing any more, the step of that name is through. Names
        neither content nor user."""
        ...

    async def erased(self, tenant: str, erasure_id: str, *, now: datetime) -> Erasure:
        """The first pass is through: state ``erased``."""
        ...

    async def done(self, tenant: str, erasure_id: str, *, problems: Sequence[str], now: datetime) -> Erasure:
        """Nothing is left: the user's id goes from the receipt; then, as soon as the files hold no copy of it either, recording is
        possible again for what is handed over from now on. ``problems``: what could not be deleted. Safe to repeat."""
        ...


# --------------------------------------------------------------------------------------------------------- service tokens


@dataclass(frozen=True, slots=True)
class ServiceToken:
    """``tenant``: encoded. ``permissions``: of :class:`memory.model.access.Permission`, by value."""

    token_id: str
    tenant: str
    name: str
    permissions: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    def usable(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class ServiceTokens(Protocol):
    """Tokens by which an orchestrator acts for the users of one tenant. Only a hash of a token's secret is stored."""

    async def create(
        self,
        tenant: str,
        *,
        token_id: str,
        secret_hash: str,
        name: str,
        permissions: Collection[str],
        expires_at: datetime | None,
        now: datetime,
    ) -> ServiceToken: ...

    async def find(self, token_id: str) -> tuple[ServiceToken, str] | None:
        """The token and the hash of its secret."""
        ...

    async def list(self, tenant: str) -> Sequence[ServiceToken]:
        """Newest first, revoked ones included."""
        ...

    async def revoke(self, tenant: str, token_id: str, *, now: datetime) -> bool:
        """False: there is no such token of this tenant."""
        ...

    async def used(self, token_id: str, *, now: datetime) -> None: ...


# ------------------------------------------------------------------------------------------------------------- notice box


@dataclass(frozen=True, slots=True)
class BoxedNotice:
    number: int
    notice: Notice


class NoticeBox(Protocol):
    """Notices on their way from workers to the streams of all API processes."""

    async def put(self, notice: Notice, *, now: datetime) -> None:
        """The same key of the same user again changes nothing."""
        ...

    async def put_all(self, notices: Sequence[Notice], *, now: datetime) -> None:
        """As :meth:`put`, in this order and in one transaction."""
        ...

    async def since(self, moment: datetime, *, limit: int = 1_000) -> Sequence[BoxedNotice]:
        """Of all users, recorded at or after ``moment``, oldest first. Ask with an overlap and drop known numbers: a transaction
        that began earlier may commit later."""
        ...

    async def of_user(self, scope: Scope, *, after: int, limit: int = 100) -> Sequence[BoxedNotice]:
        """For a stream that comes back (``Last-Event-ID``)."""
        ...

    async def last_number(self) -> int: ...

    async def expire(self, *, before: datetime) -> int: ...


# -------------------------------------------------------------------------------------------------------------- processes


@dataclass(frozen=True, slots=True)
class Process:
    """``flags``: what memory being on depends on in this process, as JSON values; two processes should agree on them."""

    process_id: str
    kind: Literal["api", "worker"]
    version: str
    started_at: datetime
    seen_at: datetime
    flags: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Processes(Protocol):
    """Which API and worker processes run, and with which flags."""

    async def seen(self, process: Process) -> None:
        """Insert or refresh."""
        ...

    async def running(self, *, since: datetime) -> Sequence[Process]:
        """Those seen since then, by kind and start."""
        ...

    async def gone(self, process_id: str) -> None: ...

    async def expire(self, *, before: datetime) -> int: ...
