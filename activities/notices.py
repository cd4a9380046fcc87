"""Sends one notice step to the configured sinks."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import structlog
from temporalio import activity

from activities.errors import translated
from memory.model.errors import MemoryUnavailable
from memory.model.ids import short_hash
from memory.model.names import SEND_NOTICE
from memory.model.steps import NoticeInput
from memory.model.turn import Outcome
from memory.ports import Notice, Notifier

_log = structlog.get_logger("afterturn.notices")

UPDATING_TEXT = "🧠 Updating context memory…"
UPDATED_TEXT = "Context memory updated: review your context memory"
REMOVAL_BUDGET_S = 6.0
"""Recording the outcome waits no longer than this for the notice's removal."""
EXPIRES_AFTER = timedelta(minutes=15)
"""A front end removes a started notice by itself then, should nothing ever finish it."""


class NoticeActivities:
    def __init__(self, notifier: Notifier, *, review_url: str | None) -> None:
        self._notifier = notifier
        self._review_url = review_url

    @activity.defn(name=SEND_NOTICE)
    @translated
    async def send_notice(self, notice: NoticeInput) -> None:
        """Raises MemoryUnavailable when the sink is away."""
        await self.send(notice)

    async def try_twice(self, notice: NoticeInput) -> bool:
        """Whether it arrived within ``REMOVAL_BUDGET_S``; a notice is not worth more than a second try."""
        problem = "no answer in time"
        try:
            async with asyncio.timeout(REMOVAL_BUDGET_S):
                for _ in range(2):
                    try:
                        await self.send(notice)
                    except MemoryUnavailable as error:
                        problem = error.message
                    else:
                        return True
        except TimeoutError:
            pass
        _log.warning("notice_failed", step=notice.step, error=problem)
        return False

    async def send(self, notice: NoticeInput) -> None:
        """The link to the profile goes only with a real upload; a receiver drops repeats by ``key``."""
        at = datetime.fromisoformat(notice.at)
        started = notice.step == "updating_started"
        updated = notice.outcome is Outcome.UPDATED and not started
        text = UPDATING_TEXT if started else UPDATED_TEXT if updated else ""
        await self._notifier.send(
            Notice(
                notice_id=short_hash(notice.user.tenant, notice.user.user, notice.notice_id),
                key=short_hash(notice.user.tenant, notice.user.user, notice.notice_id, notice.step),
                step=notice.step,
                scope=notice.user.scope,
                conversation_ids=notice.conversation_ids,
                turn_ids=notice.turn_ids,
                text=text,
                at=at,
                expires_at=at + EXPIRES_AFTER if started else None,
                outcome=notice.outcome,
                review_url=self._review_url if updated else None,
            )
        )
