"""The client's methods for users and operators: profiles, their history, where a user's memory stands, reruns of turns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from memory.model.enablement import Enablement
from memory.model.errors import InvalidInput
from memory.model.turn import Outcome
from starter.bulk_rollback import BulkRollback
from starter.client_parts import Parts
from starter.handles import Handles
from starter.views import EditResult, ProfilePreview, ProfileVersion, ProfileView, RepairReport, RerunResult, UserStatus
from starter.who import Who, scope_of


class ProfileMethods:
    """A part of :class:`starter.client.MemoryClient`, which sets the attributes."""

    _parts: Parts
    _handles: Handles
    _bulk: BulkRollback

    async def get_profile(self, who: Who, *, space_id: str = "default", version: int | None = None) -> ProfileView:
        """The profile as it is, or as it was at a version. Reading creates nothing.

        Raises:
            MemoryUnavailable: a store is away.
            RootClash: the company has more than one active root.
            InvalidInput: the ids cannot be used.
            UnreadableProfile: another program put a file of more than 2 MiB there. Its ``etag`` lets it be saved over; ``history``
                and ``rollback`` work.
        """
        return await self._handles.get_profile(scope_of(who), space_id=space_id, version=version)

    async def preview_profile(self, who: Who, document: str, *, space_id: str = "default") -> ProfilePreview:
        """What :meth:`edit_profile` would store of a text, and its size in tokens; nothing is stored.

        Raises:
            InvalidInput: too large, or not valid Unicode.
            MemoryUnavailable: the database is away.
        """
        return await self._handles.preview_profile(scope_of(who), document, space_id=space_id)

    async def profile_at(self, who: Who, version: int) -> ProfileView:
        """The profile at a version; ``exists`` is false where there is no such version. Raises as :meth:`get_profile`."""
        return await self.get_profile(who, version=version)

    async def history(self, who: Who, *, limit: int = 50) -> tuple[ProfileVersion, ...]:
        """The newest versions, newest first, at most 1,000. Raises as :meth:`get_profile`."""
        return await self._handles.history(scope_of(who), limit=limit)

    async def edit_profile(self, who: Who, document: str, *, expected_etag: str | None, edit_id: str | None = None) -> EditResult:
        """Save the body that a user edited. It waits for a write in progress; secrets in it are redacted.

        Args:
            who: the user.
            document: the new body, at most 1 MiB of UTF-8, read generously. Frontmatter in it is ignored. A blank one empties
                the memory.
            expected_etag: ``etag`` of the :class:`ProfileView` that was edited; None: there was no profile.
            edit_id: makes a repeated call with the same text the same save; a new id by default.

        Returns:
            After a conflict nothing was overwritten and both versions are in the result.

        Raises:
            InvalidInput: too large, or not valid Unicode; nothing was changed.
            MemoryUnavailable: something is away; the message says whether the save may still be applied.
            RootClash: the company has more than one active root.
        """
        return await self._handles.edit_profile(scope_of(who), document, expected_etag=expected_etag, edit_id=edit_id)

    async def rollback(
        self, who: Who, to_version: int, *, expected_etag: str | None = None, edit_id: str | None = None
    ) -> EditResult:
        """Make an earlier version the newest again; the history stays. Raises as :meth:`edit_profile`.

        Args:
            who: the user.
            to_version: as in :meth:`history`.
            expected_etag: refuse when the profile changed since; None: whatever is there now.
            edit_id: makes a repeated call the same roll-back.
        """
        return await self._handles.rollback(scope_of(who), to_version, expected_etag=expected_etag, edit_id=edit_id)

    async def status(self, who: Who, *, space_id: str = "default") -> UserStatus:
        """Where the user's memory stands; what cannot be read is named in the result. Raises InvalidInput for ids only."""
        return await self._handles.status(scope_of(who), space_id=space_id)

    async def enablement(
        self, who: Who, *, space_id: str = "default", allow_user_memory: bool = True, web_search: bool | None = None
    ) -> Enablement:
        """Whether memory is on, and every reason why not, for a caller that allows it. Raises MemoryUnavailable, InvalidInput."""
        return await self._handles.enablement(
            scope_of(who), space_id=space_id, allow_user_memory=allow_user_memory, web_search=web_search
        )

    async def set_preference(self, who: Who, *, allow_user_memory: bool) -> None:
        """The user's own choice for all spaces. Opting out deletes nothing. Raises MemoryUnavailable, InvalidInput."""
        await self._parts.directory.set_preference(scope_of(who), allow_user_memory=allow_user_memory)

    async def rerun(
        self,
        *,
        tenant: str | None = None,
        scope: Who | None = None,
        turn_ids: Sequence[str] | None = None,
        outcomes: Collection[Outcome] = (Outcome.KEPT,),
        limit: int = 1000,
    ) -> RerunResult:
        """Run turns again that were kept out by a failure, or skipped because memory was off.

        Args:
            tenant: of this company only (encoded, as in a Scope).
            scope: of this user only.
            turn_ids: these only; needs ``scope``.
            outcomes: ``kept``, ``skipped`` or both. A turn that was skipped because its user had opted out stays so, and one for
                which memory is still off is skipped again.
            limit: at most this many turns.

        Raises:
            MemoryUnavailable: the event log is away. A workflow that cannot be told is started by the sweeper.
            InvalidInput: turn ids without a user, one that the user does not have (then none runs again), or another outcome.
        """
        if turn_ids is not None and scope is None:
            raise InvalidInput("turn ids belong to a user: say which")
        user = None if scope is None else scope_of(scope)
        return await self._handles.rerun(tenant=tenant, scope=user, turn_ids=turn_ids, outcomes=outcomes, limit=limit)

    async def rollback_runs(
        self,
        where: str | None = None,
        *,
        prompts: str | None = None,
        apply: bool = False,
        empty: bool = False,
        limit: int = 10_000,
        progress: Callable[[str], None] = lambda _: None,
    ) -> RepairReport:
        """Bring back the profiles that some runs have damaged, each to the version before the damage. Across all companies.

        A profile that a person wrote over since is left alone, and so is one whose user is being forgotten. Another call goes on
        where one was broken off.

        Args:
            where: which runs, in the query language of Temporal's visibility; only runs that write profiles count.
            prompts: only runs, and of these only versions of a profile, that were made with this version of the prompts.
            apply: do it; otherwise the report says what would be done.
            empty: empty a profile that was damaged from its first version on.
            limit: change at most so many profiles in this call, 1 to 100,000.
            progress: called with a short text now and then.

        Returns:
            What became of each user. What fails for one of them is in there and does not stop the others; when 16 fail one after
            the other the rest is left.

        Raises:
            InvalidInput: neither ``where`` nor ``prompts``, the server does not understand the query, or more than 100,000 runs
                match it; nothing was changed.
            MemoryUnavailable: Temporal is away; nothing was changed.
        """
        return await self._bulk.run(where, prompts=prompts, apply=apply, empty=empty, limit=limit, progress=progress)

    async def wait_until_idle(self, who: Who, *, timeout_s: float = 60.0) -> bool:
        """Whether all recorded turns were finished and the workflow had ended within the time. Raises MemoryUnavailable."""
        return await self._handles.wait_until_idle(scope_of(who), timeout_s=timeout_s)
