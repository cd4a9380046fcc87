"""The handle of a knowledge loop: wait for it, watch, pause, correct, answer and stop it, ask about it. From any process, by id."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from temporalio.client import WorkflowFailureError

from memory.model.errors import InvalidInput, LoopEnded, MemoryUnavailable
from memory.model.ids import new_id, short_hash
from memory.model.knowledge_loop import Entry, EntryKind, Loop, LoopState, Operation, result_of, settled_by
from memory.model.knowledge_steps import LoopHistory, LoopPlan, LoopRef, LoopStatus, QuestionInput, QuestionReply, Steer
from memory.model.names import (
    ANSWER_UPDATE,
    HISTORY_QUERY,
    INTERJECT_UPDATE,
    KNOWLEDGE_QUESTION_WORKFLOW,
    PAUSE_UPDATE,
    RESUME_UPDATE,
    STATUS_QUERY,
    STOP_SIGNAL,
    TASK_QUEUE,
)
from memory.model.scope import Scope
from memory.model.steps import UserRef
from memory.ports import Usage
from starter.loops import Loops, said_text
from starter.temporal import ask, temporal_errors, user_search_attributes

T = TypeVar("T")

QUERY_S: Final = 10.0
WAIT_S: Final = 30.0
"""One wait for a run; then the row is looked at again."""
FIRST_POLL_S: Final = 0.05
LONGEST_POLL_S: Final = 0.5
QUESTION_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class LoopAnswer:
    """How a loop ended. ``text``: the answer, or in clear words why there is none. ``structured``: where a form was asked for."""

    loop_id: str
    operation: Operation
    state: LoopState
    text: str = field(repr=False)
    structured: Any = field(default=None, repr=False)
    reason: str | None = None
    steps: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def ok(self) -> bool:
        """It came to its own end."""
        return self.state is LoopState.DONE

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Clarification:
    """A question of the loop to its caller; :meth:`SteerableHandle.answer_clarification` takes its id."""

    clarification_id: str
    question: str = field(repr=False)
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Notification:
    """What the loop says to a person who watches. ``number``: counts up within the loop."""

    number: int
    text: str = field(repr=False)
    at: datetime | None = None


class SteerableHandle:
    """Of one loop. Every method raises MemoryUnavailable when a store or Temporal is away and it needs it; none disturbs the loop
    but those that are to.

    Attributes:
        loop_id: for :meth:`starter.knowledge.Knowledge.attach`, from any process.
        operation: what it does.
    """

    def __init__(self, loops: Loops, scope: Scope, loop: Loop) -> None:
        self._loops = loops
        self._scope = scope
        self.loop_id = loop.loop_id
        self.operation = loop.operation
        self._told = 0
        self._asked: set[str] = set()

    @property
    def workflow_id(self) -> str:
        """In the Temporal Web UI."""
        return self._scope.knowledge_workflow_id(self.loop_id)

    def __repr__(self) -> str:
        return f"SteerableHandle({self.operation.value}, {self.loop_id})"

    # ------------------------------------------------------------------------------------------------------------- waiting

    async def result(self, timeout_s: float | None = None) -> LoopAnswer:
        """Wait for the end.

        Raises:
            TimeoutError: it still runs after ``timeout_s`` seconds.
            MemoryUnavailable: it does not run although it has not ended (it was never started, or terminated); ``attach`` helps.
        """
        clock = asyncio.get_running_loop()
        deadline = None if timeout_s is None else clock.time() + timeout_s
        waited = False
        while True:
            loop = await self._loops.find(self._scope, self.loop_id)
            if loop.state is not LoopState.RUNNING:
                return _answer(loop)
            if waited:
                raise MemoryUnavailable(f"the run of the loop {self.loop_id} ended without a result; `attach` starts it again")
            left = WAIT_S if deadline is None else deadline - clock.time()
            if left <= 0:
                raise TimeoutError(f"the loop {self.loop_id} still runs")
            waited = await self._loops.wait(self._scope, self.loop_id, within_s=min(WAIT_S, left))

    async def done(self) -> bool:
        """Whether it has ended."""
        return (await self._loops.find(self._scope, self.loop_id)).state is not LoopState.RUNNING

    async def status(self) -> LoopStatus:
        """What the run says of itself: what it does, steps, tokens, tools. Raises LoopEnded when the server has forgotten it."""
        return await self._query(STATUS_QUERY, LoopStatus)

    async def steps(self) -> LoopHistory:
        """The last steps of the current run: names of tools, codes of errors, tokens; no texts. Raises as :meth:`status`."""
        return await self._query(HISTORY_QUERY, LoopHistory)

    async def history(self, after: int = 0) -> tuple[Entry, ...]:
        """All that was said and done, with its texts, in the order in which it was written; beyond entry ``after``."""
        return tuple(await self._loops.entries(self._scope, self.loop_id, after=after))

    async def _query(self, name: str, kind: type[T]) -> T:
        handle = await self._loops.handle(self._scope, self.loop_id)
        return await ask(handle.query(name, result_type=kind), "asking a loop", within_s=QUERY_S)

    # ------------------------------------------------------------------------------------------------------------ steering

    async def pause(self) -> LoopStatus:
        """Before its next step. It is recorded: a loop that ``attach`` starts again is paused too. Raises LoopEnded."""
        return await self._pause(PAUSE_UPDATE, paused=True)

    async def resume(self) -> LoopStatus:
        """Raises LoopEnded."""
        return await self._pause(RESUME_UPDATE, paused=False)

    async def _pause(self, update: str, *, paused: bool) -> LoopStatus:
        await self._check_running()
        entry = await self._append(f"pause/{new_id()}", EntryKind.PAUSE, {"paused": paused})
        return await self._loops.update(self._scope, self.loop_id, update, update_id=f"p{entry.number}")

    async def interject(self, text: str) -> None:
        """Correct or complete the request. The model reads it before anything more is written.

        Raises:
            LoopEnded: too late.
            InvalidInput: empty, or more than 16 KiB.
        """
        text = await asyncio.to_thread(said_text, text, "an interjection")
        await self._check_running()
        entry = await self._append(f"interjection/{new_id()}", EntryKind.INTERJECTION, {"text": text})
        await self._loops.update(
            self._scope, self.loop_id, INTERJECT_UPDATE, Steer(entry=entry.number), update_id=f"i{entry.number}"
        )

    async def stop(self, reason: str = "") -> LoopAnswer | None:
        """End it: what reads is given up, a write that has begun is let end. What was done stands.

        Returns how it had ended where it had ended before; else None, and :meth:`result` waits for the end.
        """
        loop = await self._loops.find(self._scope, self.loop_id)
        if loop.state is not LoopState.RUNNING:
            return _answer(loop)
        why = await asyncio.to_thread(said_text, reason, "the reason") if reason else ""
        entry = await self._append("stop", EntryKind.STOP, {"reason": why})
        if await self._loops.signal(self._scope, self.loop_id, STOP_SIGNAL, Steer(entry=entry.number)):
            return None
        return await self._stop_unstarted(why)

    async def _stop_unstarted(self, why: str) -> LoopAnswer:
        """No run will ever write how it ended."""
        from memory.knowledge.answers import ending_text

        text = ending_text(LoopState.STOPPED, "stopped", steps=0, said=why)
        loop = await self._loops.store.finish(
            self._scope,
            self.loop_id,
            state=LoopState.STOPPED,
            answer=text,
            reason="stopped",
            steps=0,
            usage=Usage(calls=0),
            now=datetime.now(UTC),
        )
        return _answer(loop)

    # ----------------------------------------------------------------------------------------- questions, in both directions

    async def ask(self, question: str, timeout_s: float = QUESTION_S) -> str:
        """About its progress while it runs, about its method afterwards. Answered beside the loop, which does not notice.

        Raises:
            InvalidInput: an empty question, or more than 16 KiB.
            TimeoutError: no answer in time.
            MemoryUnavailable: it cannot be answered now; the message says why.
        """
        text = await asyncio.to_thread(said_text, question, "a question")
        loop = await self._loops.find(self._scope, self.loop_id)
        name = new_id()
        asked = await self._append(f"question/{name}", EntryKind.SIDE_QUESTION, {"text": text})
        settings = self._loops.settings
        plan = LoopPlan(
            model=loop.model or settings.knowledge_model or settings.language_model,
            model_timeout_s=settings.model_timeout_s,
            store_retry_for_s=settings.store_retry_for_s,
        )
        ref = LoopRef(user=UserRef.of(self._scope), loop_id=self.loop_id)
        client = await self._loops.client()
        try:
            async with asyncio.timeout(timeout_s):
                with temporal_errors("a question about a loop"):
                    reply: QuestionReply = await client.execute_workflow(
                        KNOWLEDGE_QUESTION_WORKFLOW,
                        QuestionInput(ref=ref, entry=asked.number, plan=plan),
                        id=self._scope.knowledge_workflow_id(f"{self.loop_id}/{name}"),
                        task_queue=TASK_QUEUE,
                        result_type=QuestionReply,
                        search_attributes=user_search_attributes(self._scope),
                        static_summary="a question about a loop",
                    )
        except WorkflowFailureError as error:
            raise MemoryUnavailable(f"the question could not be answered ({type(error.cause).__name__})") from None
        if not reply.answered:
            raise MemoryUnavailable(f"the question could not be answered ({reply.problem})")
        entries = await self._loops.entries(self._scope, self.loop_id, after=asked.number)
        return next(str(one.body["text"]) for one in entries if one.key == f"side_answer/{asked.number}")

    async def next_clarification(self, timeout_s: float | None = None) -> Clarification | None:
        """The next question of the loop that nobody has answered and that this handle has not given yet.

        Waits for one; None: the loop has ended, or there was none within ``timeout_s`` seconds.
        """

        def pick(entries: list[Entry]) -> Clarification | None:
            settled = {entry.key for entry in entries if entry.kind in (EntryKind.ANSWER, EntryKind.RESULT)}
            for entry in entries:
                if entry.kind is not EntryKind.CLARIFICATION or entry.key in self._asked:
                    continue
                if settled.isdisjoint(settled_by(entry.key)):
                    self._asked.add(entry.key)
                    return Clarification(entry.key, str(entry.body.get("question") or ""), entry.at)
            return None

        return await self._next(pick, timeout_s)

    async def answer_clarification(self, clarification_id: str, text: str) -> None:
        """The first answer counts.

        Raises:
            LoopEnded: too late.
            InvalidInput: the question is not open (any more), or there was none; an empty answer, or more than 16 KiB.
        """
        text = await asyncio.to_thread(said_text, text, "an answer")
        await self._check_running()
        entries = await self._loops.entries(self._scope, self.loop_id)
        asked = next((one for one in entries if one.key == clarification_id and one.kind is EntryKind.CLARIFICATION), None)
        keys = {entry.key for entry in entries}
        if asked is None or result_of(asked.key) in keys:
            raise InvalidInput(f"there is no open question {ascii(clarification_id)[:60]} of this loop")
        body = {"clarification": clarification_id, "text": text}
        entry = await self._append(f"answer/{clarification_id}", EntryKind.ANSWER, body, asked.step)
        if entry.body.get("text") != text:
            raise InvalidInput("the question was answered already; the first answer counts")
        said = Steer(entry=entry.number, clarification=clarification_id)
        update_id = f"a{short_hash(clarification_id)}"
        await self._loops.update(self._scope, self.loop_id, ANSWER_UPDATE, said, update_id=update_id)

    async def next_notification(self, timeout_s: float | None = None) -> Notification | None:
        """The next thing that the loop says to a person who watches, each once per handle.

        Waits for one; None: the loop has ended, or there was none within ``timeout_s`` seconds.
        """

        def pick(entries: list[Entry]) -> Notification | None:
            found = next((one for one in entries if one.kind is EntryKind.NOTICE and one.number > self._told), None)
            if found is None:
                return None
            self._told = found.number
            return Notification(found.number, str(found.body.get("text") or ""), found.at)

        return await self._next(pick, timeout_s)

    # --------------------------------------------------------------------------------------------------------------- parts

    async def _next(self, pick: Callable[[list[Entry]], T | None], timeout_s: float | None) -> T | None:
        clock = asyncio.get_running_loop()
        deadline = None if timeout_s is None else clock.time() + timeout_s
        entries: list[Entry] = []
        pause = FIRST_POLL_S
        while True:
            # In this order: what was written before the end is seen.
            ended = await self.done()
            entries += await self._loops.entries(self._scope, self.loop_id, after=entries[-1].number if entries else 0)
            found = pick(entries)
            if found is not None or ended:
                return found
            left = LONGEST_POLL_S if deadline is None else deadline - clock.time()
            if left <= 0:
                return None
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 1.5, LONGEST_POLL_S)

    async def _check_running(self) -> None:
        if await self.done():
            raise LoopEnded(f"the loop {self.loop_id} has ended")

    async def _append(self, key: str, kind: EntryKind, body: dict[str, Any], step: int = 0) -> Entry:
        return await self._loops.append(self._scope, self.loop_id, key, kind, body, step)


def _answer(loop: Loop) -> LoopAnswer:
    return LoopAnswer(
        loop_id=loop.loop_id,
        operation=loop.operation,
        state=loop.state,
        text=loop.answer or "",
        structured=loop.structured,
        reason=loop.reason,
        steps=loop.steps,
        input_tokens=loop.input_tokens,
        output_tokens=loop.output_tokens,
    )
