"""Brings many profiles back to what they were before runs that went wrong, for instance with a bad version of the prompts.

    runs (a query of Temporal's visibility) → their users → the versions that these runs wrote (turn ledger, object metadata)
        → the version before the damage (:mod:`memory.model.damage`) → a roll-back through the user's workflow

Every roll-back is compare-and-swap on the version that was looked at, and its id follows from that version: so the whole may be
broken off and called again, and nothing that was written meanwhile is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from activities.model_steps import turn_key
from memory.model.damage import TURNS, Diagnosis, Finding, Version, diagnose
from memory.model.errors import AfterturnError, BeingForgotten, InvalidInput, MemoryUnavailable
from memory.model.ids import is_segment, short_hash
from memory.model.names import POST_ANSWER_WORKFLOW, SEARCH_PROMPTS, SEARCH_TENANT, SEARCH_USER
from memory.model.profile import EMPTY_PROFILE, render_body
from memory.model.scope import Scope
from memory.model.steps import TurnRef, WriteStatus
from memory.model.turn import Outcome
from memory.ports import Directory, EventLog
from memory.profiles import MAX_HISTORY, Profiles, ProfileSnapshot, VersionInfo, candidate_name
from starter.faults import fault
from starter.handles import Handles
from starter.loading import root_of
from starter.temporal import address_of, ask
from starter.views import EditResult, ProfileRepair, RepairReport, RepairStatus

MAX_RUNS: Final = 100_000
MAX_REPAIRS: Final = 100_000
AT_ONCE: Final = 8
TRIES: Final = 3
"""For a profile that the pipeline writes meanwhile."""
GIVE_UP_AFTER: Final = 16
"""Failures one after the other: then a store, Temporal or the workers are away, and the rest would fail too."""
PAGE: Final = 1_000
LIST_S: Final = 300.0
AWAY: Final = frozenset({"StoreUnavailable", "TimeoutError"})
"""What a workflow says of a write for which a store was away."""
_EMPTIED: Final = render_body(EMPTY_PROFILE)


class BulkRollback:
    """For one event loop.

    Args:
        handles: write as an operator's single roll-back does.
        page: runs per request to the server.
    """

    def __init__(
        self,
        *,
        directory: Directory,
        log: EventLog,
        profiles: Profiles,
        handles: Handles,
        temporal: Callable[[], Awaitable[Client]],
        page: int = PAGE,
    ) -> None:
        self._directory = directory
        self._log = log
        self._profiles = profiles
        self._handles = handles
        self._temporal = temporal
        self._page = page

    async def run(
        self,
        where: str | None,
        *,
        prompts: str | None,
        apply: bool,
        empty: bool,
        limit: int,
        progress: Callable[[str], None] = lambda _: None,
    ) -> RepairReport:
        """See :meth:`starter.client_profiles.ProfileMethods.rollback_runs`."""
        if not 1 <= limit <= MAX_REPAIRS:
            raise InvalidInput(f"the limit must be 1 to {MAX_REPAIRS}, not {limit}")
        query = query_of(where, prompts)
        progress("looking for the runs")
        runs = await self._runs(query)
        users = sorted(runs, key=lambda scope: (scope.tenant, scope.user))
        found: list[ProfileRepair] = []
        stopped: str | None = None
        while len(found) < len(users) and stopped is None:
            room = limit - sum(one.status in RepairStatus.repairs() for one in found)
            if room <= 0:
                break
            part = users[len(found) : len(found) + min(AT_ONCE, room)]
            found += await asyncio.gather(
                *(self._one(scope, runs[scope], prompts=prompts, apply=apply, empty=empty) for scope in part)
            )
            progress(f"{len(found)} of {len(users)} users")
            last = found[-GIVE_UP_AFTER:]
            if len(last) == GIVE_UP_AFTER and all(one.status is RepairStatus.UNAVAILABLE for one in last):
                stopped = f"{GIVE_UP_AFTER} failed one after the other, the last one: {last[-1].reason}"
        return RepairReport(
            query=query,
            applied=apply,
            runs=sum(map(len, runs.values())),
            users=len(users),
            profiles=tuple(found),
            left=len(users) - len(found),
            stopped=stopped,
        )

    # ---------------------------------------------------------------------------------------------------------------- runs

    async def _runs(self, query: str) -> Mapping[Scope, Sequence[str]]:
        """Run ids by user. Raises InvalidInput: the server does not understand the query, or too many match."""
        client = await self._temporal()
        tenant, user = SearchAttributeKey.for_keyword(SEARCH_TENANT), SearchAttributeKey.for_keyword(SEARCH_USER)
        found: dict[Scope, list[str]] = {}

        async def read() -> None:
            count = 0
            async for run in client.list_workflows(query, page_size=self._page, rpc_timeout=timedelta(seconds=30)):
                segments = run.typed_search_attributes.get(tenant), run.typed_search_attributes.get(user)
                # The query is somebody's own: what it finds beyond our runs has no profile.
                if run.workflow_type != POST_ANSWER_WORKFLOW or not all(one and is_segment(one) for one in segments):
                    continue
                found.setdefault(Scope(str(segments[0]), str(segments[1])), []).append(run.run_id)
                count += 1
                if count > MAX_RUNS:
                    raise InvalidInput(f"more than {MAX_RUNS} runs match: narrow the query, for instance by StartTime")

        await ask(_understood(read()), "listing runs", within_s=LIST_S, address=address_of(client))
        return found

    # ------------------------------------------------------------------------------------------------------------ one user

    async def _one(self, scope: Scope, run_ids: Sequence[str], *, prompts: str | None, apply: bool, empty: bool) -> ProfileRepair:
        """Never raises: what goes wrong for one user is in the report, and the others go on."""
        try:
            repair = ProfileRepair(scope, RepairStatus.CHANGED)
            for _ in range(TRIES):
                repair = await self._once(scope, run_ids, prompts=prompts, apply=apply, empty=empty)
                if repair.status is not RepairStatus.CHANGED:
                    break
            return repair
        except BeingForgotten:
            return ProfileRepair(scope, RepairStatus.FORGETTING)
        except MemoryUnavailable as error:
            return ProfileRepair(scope, RepairStatus.UNAVAILABLE, reason=error.message)
        except AfterturnError as error:
            return ProfileRepair(scope, RepairStatus.FAILED, reason=error.message)
        except Exception as error:  # noqa: BLE001 - one file that nobody expected must not stop a repair of thousands
            return ProfileRepair(scope, RepairStatus.FAILED, reason=fault(error))

    async def _once(self, scope: Scope, run_ids: Sequence[str], *, prompts: str | None, apply: bool, empty: bool) -> ProfileRepair:
        facts = await self._directory.facts(scope, "default")
        if facts.forgetting:
            return ProfileRepair(scope, RepairStatus.FORGETTING)
        root = root_of(facts)
        written = await self._written(scope, run_ids)
        current = await self._profiles.read(scope, root, to_overwrite=True)
        if not current.exists:
            return ProfileRepair(scope, RepairStatus.NO_PROFILE)
        written = {version: keys for version, keys in written.items() if version <= current.version}
        if not written:
            return ProfileRepair(scope, RepairStatus.CLEAN, version=current.version)
        needed = current.version - min(written) + 2
        if needed > MAX_HISTORY:
            reason = f"more than {MAX_HISTORY} versions were written since version {min(written)}"
            return ProfileRepair(scope, RepairStatus.FAILED, version=current.version, reason=reason)
        history = await self._profiles.history(scope, root, limit=needed)
        diagnosis = diagnose(_versions(history, written, prompts))
        return await self._treated(scope, current, diagnosis, apply=apply, empty=empty)

    async def _treated(
        self, scope: Scope, current: ProfileSnapshot, found: Diagnosis, *, apply: bool, empty: bool
    ) -> ProfileRepair:
        def repair(status: RepairStatus, result: EditResult | None = None) -> ProfileRepair:
            return ProfileRepair(
                scope,
                status,
                version=current.version,
                damaged=found.first,
                target=found.target,
                lost=found.lost,
                edited=found.edited,
                written=result.version if result else None,
                reason=result.reason if result else None,
            )

        if found.finding is Finding.EDITED:
            return repair(RepairStatus.EDITED)
        if found.finding is Finding.CLEAN:
            return repair(RepairStatus.CLEAN)
        emptying = found.target is None
        if emptying and not empty:
            return repair(RepairStatus.NOTHING_BEFORE)
        if not apply:
            return repair(RepairStatus.WOULD_EMPTY if emptying else RepairStatus.WOULD_ROLL_BACK)
        etag, edit_id = current.etag, _edit_id(current.etag)
        if found.target is None:
            result = await self._handles.edit_profile(scope, _EMPTIED, expected_etag=etag, edit_id=edit_id)
        else:
            result = await self._handles.rollback(scope, found.target, expected_etag=etag, edit_id=edit_id)
        if result.saved:
            return repair(RepairStatus.EMPTIED if emptying else RepairStatus.ROLLED_BACK, result)
        if result.status is WriteStatus.CONFLICT:
            return repair(RepairStatus.CHANGED, result)
        return repair(RepairStatus.UNAVAILABLE if result.reason in AWAY else RepairStatus.FAILED, result)

    async def _written(self, scope: Scope, run_ids: Sequence[str]) -> dict[int, set[str]]:
        """The versions that these runs wrote, with what names their turns in a version's metadata."""
        found: dict[int, set[str]] = {}
        for start in range(0, len(run_ids), PAGE):
            below: int | None = None
            while True:
                rows = await self._log.summaries(
                    scope=scope, outcome=Outcome.UPDATED, run_ids=run_ids[start : start + PAGE], below=below, limit=PAGE
                )
                for row in rows:
                    if row.profile_version is not None:
                        key = turn_key(TurnRef(turn_id=row.turn_id, attempt=row.attempt, ordinal=row.ordinal))
                        found.setdefault(row.profile_version, set()).add(key)
                if len(rows) < PAGE:
                    break
                below = rows[-1].ordinal
        return found


def query_of(where: str | None, prompts: str | None) -> str:
    """Of the runs that write profiles. Raises InvalidInput: nothing that narrows it."""
    terms = [f'WorkflowType = "{POST_ANSWER_WORKFLOW}"']
    if where is not None and where.strip():
        terms.append(f"({where.strip()})")
    if prompts is not None:
        if not prompts.isascii() or not prompts.isalnum():
            raise InvalidInput("a version of the prompts is letters and digits, for instance v1")
        terms.append(f'{SEARCH_PROMPTS} = "{prompts}"')
    if len(terms) == 1:
        raise InvalidInput("say which runs: a query (AfterturnTenant = 'acme' AND …), a version of the prompts, or both")
    return " AND ".join(terms)


def _versions(history: Sequence[VersionInfo], written: Mapping[int, set[str]], prompts: str | None) -> list[Version]:
    """``written``: by the runs in question. A number alone is not believed: the company's root may be another one by now."""
    older: list[VersionInfo | None] = [*history[1:], None]
    return [
        Version(
            info.version,
            info.cause,
            damaged=info.cause == TURNS
            and not written.get(info.version, set()).isdisjoint(info.turns)
            and (prompts is None or info.prompts == prompts),
            ours=before is not None and info.write_key in _our_keys(info, before.etag),
        )
        for info, before in zip(history, older, strict=True)
    ]


def _edit_id(etag: str | None) -> str:
    """Of the undoing of the version with this ETag."""
    return f"bulk-{short_hash(etag or '')}"


def _our_keys(info: VersionInfo, replaced: str) -> tuple[str, ...]:
    """What the write of this version would be named, had an undoing made it (see ``activities.profile``)."""
    edit_id = _edit_id(replaced)
    kind, _, target = (info.cause or "").partition(":")
    if kind == "rollback":
        return (short_hash("rollback", edit_id, target),)
    return (short_hash("edit", edit_id, candidate_name(_EMPTIED, owner=edit_id)),) if kind == "edit" else ()


async def _understood(work: Awaitable[None]) -> None:
    try:
        await work
    except RPCError as error:
        if error.status is RPCStatusCode.INVALID_ARGUMENT:
            raise InvalidInput(f"Temporal does not understand the query: {error.message[:300]}") from None
        raise
