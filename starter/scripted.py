"""Activities under control, with the names and shapes of the real ones: they bring a run into every shape it can have.

Used to record replay fixtures (:mod:`starter.record_histories`) and to test what only the workflow decides.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError

from memory.model import names
from memory.model.steps import (
    BatchInput,
    ConsolidateReply,
    Decision,
    EditInput,
    FinishInput,
    GateReply,
    NoticeInput,
    Plan,
    RollbackInput,
    StageUsage,
    TurnRef,
    UploadInput,
    UserRef,
    WriteReply,
    WriteStatus,
)


def fails(kind: str, *, final: bool = False) -> Callable[[], None]:
    """A behaviour that raises an ApplicationError of that type."""

    def raise_it() -> None:
        raise ApplicationError(f"scripted {kind}", type=kind, non_retryable=final)

    return raise_it


Behaviour = Callable[[], None] | asyncio.Event | WriteReply
"""What one call does: raises, waits for the event, or gives this reply."""


_F = TypeVar("_F", bound=Callable[..., Awaitable[Any]])


def answered_once(activity_method: _F) -> _F:
    """Decorator for methods of a :class:`Script`: a step that is tried again after it was answered gets the same answer.

    A busy machine loses answers: the server does not hear a heartbeat in time and asks again. A script that went one behaviour
    further then would tell another story than the one that was written.
    """

    @functools.wraps(activity_method)
    async def wrapper(self: Script, *args: Any) -> Any:
        info = activity.info()
        step = (info.workflow_run_id, info.activity_id)
        if step not in self.answers:
            self.answers[step] = await activity_method(self, *args)
        return self.answers[step]

    return wrapper  # pyright: ignore[reportReturnType]


@dataclass
class Script:
    """``script[name]`` holds behaviours, one per call of that activity; then it just works. ``calls``: all calls in order."""

    calls: list[str] = field(default_factory=list[str])
    script: dict[str, deque[Behaviour]] = field(default_factory=dict[str, deque[Behaviour]])
    answers: dict[tuple[str | None, str], Any] = field(default_factory=dict[tuple[str | None, str], Any])
    """By run and activity id: what was answered."""

    def then(self, name: str, *behaviours: Behaviour) -> None:
        self.script.setdefault(name, deque()).extend(behaviours)

    async def enter(self, name: str) -> WriteReply | None:
        self.calls.append(name)
        steps = self.script.get(name)
        if not steps:
            return None
        step = steps.popleft()
        if isinstance(step, asyncio.Event):
            while not step.is_set():
                if activity.info().heartbeat_timeout:
                    activity.heartbeat()
                try:
                    await asyncio.wait_for(step.wait(), 0.2)
                except TimeoutError:
                    continue
        elif isinstance(step, WriteReply):
            return step
        else:
            step()
        return None


@dataclass
class Scripted(Script):
    """A ledger and a profile in memory."""

    plan: dict[str, Any] = field(default_factory=dict)
    """Overrides of the plans that ``claim`` makes."""
    waiting: list[TurnRef] = field(default_factory=list)
    gate_says: bool = True
    decision: Decision = Decision.CANDIDATE
    batch_size: int = 1
    skip: bool = False
    """Memory is switched off: every turn is skipped."""
    version: int = 0
    prompts: str | None = None
    """What the model steps say they asked with."""
    outcomes: dict[str, FinishInput] = field(default_factory=dict)
    notices: list[NoticeInput] = field(default_factory=list)

    def turn(self, turn_id: str) -> None:
        self.waiting.append(TurnRef(turn_id=turn_id, attempt=0, ordinal=len(self.waiting) + len(self.outcomes) + 1))

    def all(self) -> list[Callable[..., Any]]:
        return [
            self.claim,
            self.gate,
            self.consolidate,
            self.upload,
            self.edit,
            self.rollback,
            self.notice,
            self.finish,
        ]

    @activity.defn(name=names.CLAIM_TURNS)
    @answered_once
    async def claim(self, user: UserRef) -> Plan:
        await self.enter("claim")
        return self._next()

    def _next(self) -> Plan:
        batch = tuple(self.waiting[: self.batch_size])
        if not batch:
            return Plan(turns=())
        if self.skip:
            return Plan(turns=(), skipped=batch, skip_reason="scripted")
        return Plan(turns=batch, model="scripted", **self.plan)

    @activity.defn(name=names.GATE_TURNS)
    @answered_once
    async def gate(self, batch: BatchInput) -> GateReply:
        await self.enter("gate")
        usage = StageUsage(input_tokens=10, output_tokens=1, calls=1)
        return GateReply(update=self.gate_says, usage=usage, elapsed_ms=3, prompts=self.prompts)

    @activity.defn(name=names.CONSOLIDATE_TURNS)
    @answered_once
    async def consolidate(self, batch: BatchInput) -> ConsolidateReply:
        await self.enter("consolidate")
        return ConsolidateReply(
            decision=self.decision,
            reason="scripted" if self.decision is Decision.KEPT else None,
            candidate="c0ffee",
            base_version=self.version,
            applied_version=self.version,
            usage={"consolidate": StageUsage(input_tokens=100, output_tokens=50, calls=1)},
            prompts=self.prompts,
        )

    @activity.defn(name=names.UPLOAD_PROFILE)
    @answered_once
    async def upload(self, upload: UploadInput) -> WriteReply:
        scripted = await self.enter("upload")
        if scripted is not None:
            return scripted
        if upload.base_version != self.version:
            return WriteReply(status=WriteStatus.CONFLICT, version=self.version)
        self.version += 1
        return WriteReply(status=WriteStatus.SAVED, version=self.version, etag=f"e{self.version}")

    @activity.defn(name=names.EDIT_PROFILE)
    @answered_once
    async def edit(self, edit: EditInput) -> WriteReply:
        scripted = await self.enter("edit")
        if scripted is not None:
            return scripted
        self.version += 1
        return WriteReply(status=WriteStatus.SAVED, version=self.version, etag=f"e{self.version}")

    @activity.defn(name=names.ROLLBACK_PROFILE)
    @answered_once
    async def rollback(self, rollback: RollbackInput) -> WriteReply:
        await self.enter("rollback")
        self.version += 1
        return WriteReply(status=WriteStatus.SAVED, version=self.version, etag=f"e{self.version}")

    @activity.defn(name=names.SEND_NOTICE)
    @answered_once
    async def notice(self, notice: NoticeInput) -> None:
        await self.enter(f"notice:{notice.step}")
        self.notices.append(notice)

    @activity.defn(name=names.FINISH_TURNS)
    @answered_once
    async def finish(self, done: FinishInput) -> Plan:
        flags = done.flags
        if done.notice is not None:
            try:
                await self.notice(done.notice)
            except ApplicationError:
                flags = (*flags, f"notice_failed:{done.notice.step}")
        await self.enter("finish")
        for ref in done.turns:
            self.outcomes[ref.turn_id] = done.model_copy(update={"flags": flags})
        self.waiting = [ref for ref in self.waiting if ref.turn_id not in self.outcomes]
        return self._next()
