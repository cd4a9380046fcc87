"""What a notice says: the link only after a real upload, no text of the user, the same key for a repeat."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from temporalio.testing import ActivityEnvironment

from activities.notices import UPDATED_TEXT, UPDATING_TEXT, NoticeActivities
from memory.model.errors import MemoryUnavailable
from memory.model.steps import NoticeInput, UserRef
from memory.model.turn import Outcome
from memory.ports import Notice

URL = "https://app.example/memory"


@dataclass
class Recorder:
    failing: int = 0
    sent: list[Notice] = field(default_factory=list)

    async def send(self, notice: Notice) -> None:
        if self.failing:
            self.failing -= 1
            raise MemoryUnavailable("away")
        self.sent.append(notice)


def notice(step: str, outcome: Outcome | None = None) -> NoticeInput:
    return NoticeInput(
        user=UserRef(tenant="acme", user="ada"),
        notice_id="t1:0",
        step=step,
        turn_ids=("t1",),
        conversation_ids=("c1",),
        at="2026-06-17T12:00:00+00:00",
        outcome=outcome,
    )


async def send(*notices: NoticeInput, review_url: str | None = URL) -> list[Notice]:
    sink = Recorder()
    for one in notices:
        await ActivityEnvironment().run(NoticeActivities(sink, review_url=review_url).send_notice, one)
    return sink.sent


async def test_the_started_notice_shows_the_text_and_expires_by_itself() -> None:
    (shown,) = await send(notice("updating_started"))
    assert (shown.text, shown.review_url) == (UPDATING_TEXT, None)
    assert shown.expires_at is not None
    assert shown.expires_at > shown.at


@pytest.mark.parametrize("outcome", [Outcome.NOOP, Outcome.KEPT, Outcome.SKIPPED, None])
async def test_without_an_upload_there_is_no_link_and_no_text(outcome: Outcome | None) -> None:
    (shown,) = await send(notice("updating_completed", outcome))
    assert (shown.text, shown.review_url, shown.expires_at) == ("", None, None)


async def test_after_an_upload_there_is_the_link() -> None:
    (shown,) = await send(notice("updating_completed", Outcome.UPDATED))
    assert (shown.text, shown.review_url) == (UPDATED_TEXT, URL)


async def test_the_steps_share_an_id_and_a_repeat_shares_the_key() -> None:
    started, again, completed = await send(
        notice("updating_started"), notice("updating_started"), notice("updating_completed", Outcome.UPDATED)
    )
    assert started.notice_id == completed.notice_id
    assert started.key == again.key
    assert started.key != completed.key


async def test_a_removal_is_tried_twice_and_no_more() -> None:
    once, twice = Recorder(failing=1), Recorder(failing=5)
    assert await NoticeActivities(once, review_url=URL).try_twice(notice("updating_completed"))
    assert not await NoticeActivities(twice, review_url=URL).try_twice(notice("updating_completed"))
    assert twice.failing == 3


async def test_a_sink_that_hangs_does_not_hold_up_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    class Hanging:
        async def send(self, notice: Notice) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr("activities.notices.REMOVAL_BUDGET_S", 0.05)
    assert not await NoticeActivities(Hanging(), review_url=None).try_twice(notice("updating_completed"))
