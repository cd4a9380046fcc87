"""Writes to a user's profile: a turn's upload, the user's own save, a roll-back. Each is compare-and-swap and idempotent."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

import structlog
from temporalio import activity

from activities.common import only_root, since
from activities.errors import translated
from activities.model_steps import turn_key
from memory import telemetry
from memory.model import metrics
from memory.model.enablement import ReasonCode
from memory.model.errors import BeingForgotten, ProfileConflict, RootClash, StoreUnavailable
from memory.model.ids import short_hash
from memory.model.names import EDIT_PROFILE, ROLLBACK_PROFILE, UPLOAD_PROFILE
from memory.model.profile import Profile, parse_body
from memory.model.redaction import redact
from memory.model.scope import Scope
from memory.model.steps import EditInput, RollbackInput, UploadInput, WriteReply, WriteStatus
from memory.ports import Directory
from memory.profiles import Profiles, ProfileSnapshot, VersionInfo, Written

LOOK_BACK = 32
"""A repeated write is looked for among so many versions."""

_log = structlog.get_logger("afterturn.profile")


class ProfileActivities:
    """Upload, edit, roll back. Local activities that run under the workflow's lock, so one at a time per user."""

    def __init__(self, profiles: Profiles, directory: Directory) -> None:
        self._profiles = profiles
        self._directory = directory

    @activity.defn(name=UPLOAD_PROFILE)
    @translated
    async def upload_profile(self, upload: UploadInput) -> WriteReply:
        """Make the staged candidate the profile, if the profile is still the one it was made from."""
        began = time.perf_counter()
        scope, root = upload.user.scope, upload.plan.root
        applied = [turn_key(ref) for ref in upload.plan.turns]
        write_key = short_hash("turns", upload.candidate, upload.base_etag or "", *applied)
        refused = await self._refused(scope, root)
        if refused is not None:
            # Written before the user decided, by an attempt whose reply was lost: then the record says so.
            earlier = await self._find(scope, root, write_key)
            await self._drop(scope, upload.candidate)
            return refused if earlier is None else _written(earlier, began)
        document = await self._profiles.read_staged(scope, upload.candidate)
        if document is None:
            # Uploaded by an attempt whose reply was lost (a save may lie on top of it by now), or cleared away.
            earlier = await self._find(scope, root, write_key)
            if earlier is not None:
                return _written(earlier, began)
            current = await self._profiles.read(scope, root, to_overwrite=True)
            if current.etag != upload.base_etag:
                # Refused by an attempt whose reply was lost, as a document made from an older version.
                return _as_it_is(WriteStatus.CONFLICT, current, began)
            return WriteReply(status=WriteStatus.FAILED, reason="candidate_missing", elapsed_ms=since(began))
        try:
            written = await self._profiles.commit(
                scope,
                root,
                document,
                base_etag=upload.base_etag,
                base_version=upload.base_version,
                write_key=write_key,
                cause="turns",
                applied_turns=applied,
                prompts=upload.prompts,
            )
        except ProfileConflict:
            await self._drop(scope, upload.candidate)
            return await self._conflict(scope, root, began, "profile")
        await self._drop(scope, upload.candidate)
        return _written(written, began)

    @activity.defn(name=EDIT_PROFILE)
    @translated
    async def edit_profile(self, edit: EditInput) -> WriteReply:
        """The user's own text becomes the profile, written strictly, if nothing changed since the user read it."""
        began = time.perf_counter()
        scope, request = edit.user.scope, edit.request
        root = await self._root(scope)
        if root is None:
            return WriteReply(status=WriteStatus.FAILED, reason="root_clash")
        current = await self._profiles.read(scope, root, to_overwrite=True)
        write_key = short_hash("edit", request.edit_id, request.candidate)
        if current.exists and current.write_key == write_key:
            return _saved(current, began)
        if current.etag != request.expected_etag:
            repeated = await self._find(scope, root, write_key) is not None
            await self._drop(scope, request.candidate)
            if not repeated:
                telemetry.count(metrics.CONFLICTS, kind="edit")
            return _as_it_is(WriteStatus.SAVED if repeated else WriteStatus.CONFLICT, current, began)
        text = await self._profiles.read_staged(scope, request.candidate)
        if text is None:
            return WriteReply(status=WriteStatus.FAILED, reason="candidate_missing", elapsed_ms=since(began))
        # Up to a megabyte: in a thread, so that heartbeats and other users go on.
        profile = await asyncio.to_thread(_redacted, text)
        reply = await self._replace(scope, root, current, profile, write_key, "edit", began)
        if reply.status is not WriteStatus.UNCHANGED:
            # Nothing in the store tells a repeat of a save that changed nothing: it needs the text again. The sweeper clears it.
            await self._drop(scope, request.candidate)
        return reply

    @activity.defn(name=ROLLBACK_PROFILE)
    @translated
    async def rollback_profile(self, rollback: RollbackInput) -> WriteReply:
        """An earlier version becomes the newest one; history stays as it is."""
        began = time.perf_counter()
        scope, request = rollback.user.scope, rollback.request
        root = await self._root(scope)
        if root is None:
            return WriteReply(status=WriteStatus.FAILED, reason="root_clash")
        current = await self._profiles.read(scope, root, to_overwrite=True)
        write_key = short_hash("rollback", request.edit_id, str(request.to_version))
        if current.exists and await self._find(scope, root, write_key) is not None:
            return _saved(current, began)
        if request.expected_etag is not None and current.etag != request.expected_etag:
            telemetry.count(metrics.CONFLICTS, kind="rollback")
            return _as_it_is(WriteStatus.CONFLICT, current, began)
        wanted = await self._profiles.read_version(scope, root, request.to_version)
        if wanted is None:
            return _as_it_is(WriteStatus.NOT_FOUND, current, began)
        return await self._replace(
            scope, root, current, wanted.document.profile, write_key, f"rollback:{request.to_version}", began
        )

    async def _refused(self, scope: Scope, root: str) -> WriteReply | None:
        """A turn is processed for minutes when a model or a store is slow; what the user decided meanwhile counts."""
        facts = await self._directory.facts(scope, "default")
        if facts.forgetting:
            return WriteReply(status=WriteStatus.OPTED_OUT, reason=ReasonCode.BEING_FORGOTTEN)
        if not facts.user_allows:
            return WriteReply(status=WriteStatus.OPTED_OUT, reason=ReasonCode.USER_OPTED_OUT)
        if facts.active_roots != (root,):
            return WriteReply(status=WriteStatus.FAILED, reason="root_changed")
        return None

    async def _replace(
        self, scope: Scope, root: str, current: ProfileSnapshot, profile: Profile, write_key: str, cause: str, began: float
    ) -> WriteReply:
        if current.exists and current.as_stored and current.document.profile == profile:
            return _as_it_is(WriteStatus.UNCHANGED, current, began)
        document = self._profiles.compose(current, profile, scope=scope, rewrite=False, now=datetime.now(UTC))
        try:
            written = await self._profiles.commit(
                scope,
                root,
                document,
                base_etag=current.etag,
                base_version=current.version,
                write_key=write_key,
                cause=cause,
                applied_turns=current.applied_turns,
            )
        except ProfileConflict:
            return await self._conflict(scope, root, began, cause.partition(":")[0])
        return _written(written, began)

    async def _conflict(self, scope: Scope, root: str, began: float, kind: str) -> WriteReply:
        telemetry.count(metrics.CONFLICTS, kind=kind)
        return _as_it_is(WriteStatus.CONFLICT, await self._profiles.read(scope, root, to_overwrite=True), began)

    async def _find(self, scope: Scope, root: str, write_key: str) -> VersionInfo | None:
        """This very write among the newest versions, should an earlier try of it have been applied."""
        return next(
            (info for info in await self._profiles.history(scope, root, limit=LOOK_BACK) if info.write_key == write_key), None
        )

    async def _root(self, scope: Scope) -> str | None:
        """None when several clash. Raises BeingForgotten."""
        facts = await self._directory.facts(scope, "default")
        if facts.forgetting:
            raise BeingForgotten
        try:
            return await only_root(self._directory, scope, facts)
        except RootClash:
            return None

    async def _drop(self, scope: Scope, candidate: str) -> None:
        """What is left over is cleared by the sweeper, so a failure here is only noted."""
        try:
            await self._profiles.drop_staged(scope, candidate)
        except StoreUnavailable as error:
            _log.warning("staged_candidate_left", candidate=candidate[:12], error=error.message)


def _redacted(text: str) -> Profile:
    return parse_body(redact(text).text)


def _written(write: Written | VersionInfo, began: float) -> WriteReply:
    return WriteReply(status=WriteStatus.SAVED, version=write.version, etag=write.etag, elapsed_ms=since(began))


def _saved(snapshot: ProfileSnapshot, began: float) -> WriteReply:
    return _as_it_is(WriteStatus.SAVED, snapshot, began)


def _as_it_is(status: WriteStatus, snapshot: ProfileSnapshot, began: float) -> WriteReply:
    return WriteReply(
        status=status, version=snapshot.version if snapshot.exists else None, etag=snapshot.etag, elapsed_ms=since(began)
    )
