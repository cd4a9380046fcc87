"""What happens in a knowledge loop, as server-sent events.

=================  ===============================================================================================
``entry``          a step: the model's reply, a tool's result, what somebody said (:class:`api.loop_views.EntryView`)
``clarification``  the loop asks its caller: ``{"number", "clarification_id", "question", "at"}``
``notification``   the loop says something to a person who watches: ``{"number", "text", "at"}``
``status``         where it stands: ``{"state", "doing", "step", "clarification_id"}``
``end``            how it ended (:class:`api.loop_views.LoopView`); the last one
=================  ===============================================================================================

The id of an event is the number of its entry, and ``end`` of the last.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Final

from api.loop_views import EntryView, LoopView
from api.streams import Event, Streams
from memory.model.knowledge_loop import Entry, EntryKind, LoopState, settled_by
from memory.model.scope import Scope
from starter.knowledge import Knowledge

END: Final = "end"
PAGE: Final = 50
"""Entries of one read; each may have 1 MiB."""
FIRST_POLL_S: Final = 0.1
LONGEST_POLL_S: Final = 1.0
POLLS_PER_S: Final = 100
"""Of all streams of a process together, at most, once they are quiet."""


@dataclass(slots=True)
class _Status:
    """Where a loop stands, as its entries tell it."""

    step: int = 0
    paused: bool = False
    stopping: bool = False
    question: str | None = None

    def take(self, entry: Entry) -> None:
        self.step = max(self.step, entry.step)
        match entry.kind:
            case EntryKind.PAUSE:
                self.paused = bool(entry.body.get("paused"))
            case EntryKind.STOP:
                self.stopping = True
            case EntryKind.CLARIFICATION:
                self.question = entry.key
            case _ if self.question is not None and entry.key in settled_by(self.question):
                self.question = None
            case _:
                pass

    def shown(self) -> dict[str, Any]:
        doing = "waiting_for_answer" if self.question is not None else "working"
        doing = "stopping" if self.stopping else "paused" if self.paused else doing
        return {"state": LoopState.RUNNING.value, "doing": doing, "step": self.step, "clarification_id": self.question}


async def follow(knowledge: Knowledge, scope: Scope, loop_id: str, *, after: int, streams: Streams) -> AsyncGenerator[Event]:
    """All entries beyond ``after``, those to come included, until the loop has ended. Nothing is started, nothing is disturbed."""
    status = _Status()
    seen = 0
    shown: dict[str, Any] | None = None
    pause = FIRST_POLL_S
    while True:
        # In this order: what was written before the end is seen.
        loop = await knowledge.loop(scope, loop_id)
        fresh = 0
        while True:
            page = await knowledge.entries(scope, loop_id, after=seen, limit=PAGE)
            for entry in page:
                status.take(entry)
                seen = entry.number
                if entry.number > after:
                    fresh += 1
                    yield _event(entry)
            if len(page) < PAGE:
                break
        if loop is None:  # its user was forgotten meanwhile
            return
        if loop.state is not LoopState.RUNNING:
            yield Event(END, LoopView.of(loop).model_dump_json(), END)
            return
        if (now := status.shown()) != shown:
            shown = now
            yield Event("status", now)
        pause = FIRST_POLL_S if fresh else min(pause * 1.5, max(LONGEST_POLL_S, streams.open / POLLS_PER_S))
        await asyncio.sleep(pause)


def _event(entry: Entry) -> Event:
    number = str(entry.number)
    at = None if entry.at is None else entry.at.isoformat()
    match entry.kind:
        case EntryKind.CLARIFICATION:
            question = str(entry.body.get("question") or "")
            told = {"number": entry.number, "clarification_id": entry.key, "question": question, "at": at}
            return Event("clarification", told, number)
        case EntryKind.NOTICE:
            return Event("notification", {"number": entry.number, "text": str(entry.body.get("text") or ""), "at": at}, number)
        case _:
            return Event("entry", EntryView.of(entry).model_dump_json(), number)
