"""Notices as streams: only one's own, none lost on the way, a slow reader is let go."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from api.notice_hub import NoticeHub
from memory.model.errors import StoreUnavailable
from memory.model.scope import Scope
from memory.ports.pipeline import Notice
from memory.ports.service import BoxedNotice, NoticeBox
from tests.support.api import StartApi, as_person, as_service
from tests.support.sse import opened
from tests.support.waiting import until


def notice(scope: Scope, name: str) -> Notice:
    return Notice(
        notice_id="n",
        key=name,
        step="updating_started",
        scope=scope,
        conversation_ids=("c",),
        turn_ids=("t",),
        text="🧠 Updating context memory…",
        at=datetime.now(UTC),
    )


async def test_the_notices_of_a_turn_arrive_and_nobody_elses(api: StartApi) -> None:
    async with api() as a:
        box: NoticeBox = a.stack.parts.box
        ann, bob = a.stack.user("ann"), a.stack.user("bob")
        namesake = Scope.of("umbrella", ann.user_id)
        async with (
            opened(a.http, "/v1/notices", as_person(ann)) as mine,
            opened(a.http, "/v1/notices", as_service("acme", bob.user_id)) as his,
            opened(a.http, "/v1/notices", as_person(namesake)) as theirs,
        ):
            for stream in (mine, his, theirs):
                first = await stream.next()
                assert first is not None
                assert first.name == "listening"
            await a.stack.say(ann, "My name is Ann and I live in Graz.", turn_id="t-1")
            started, completed = await mine.next(), await mine.next()
            assert started is not None
            assert completed is not None
            assert [one.data["step"] for one in (started, completed)] == ["updating_started", "updating_completed"]
            assert started.data["notice_id"] == completed.data["notice_id"]
            assert (started.data["user_id"], started.data["turn_ids"]) == (ann.user_id, ["t-1"])
            assert started.data["text"].startswith("🧠")
            assert "Graz" not in str((started.data, completed.data))
            # What the others get next is their own.
            for scope, stream in ((bob, his), (namesake, theirs)):
                await box.put(notice(scope, "own"), now=datetime.now(UTC))
                own = await stream.next()
                assert own is not None
                assert (own.data["key"], own.data["tenant_id"], own.data["user_id"]) == ("own", scope.tenant_id, scope.user_id)
            seen = started.id

        # Whoever comes back gets what they missed, once, and goes on from there.
        await box.put(notice(ann, "missed"), now=datetime.now(UTC))
        async with opened(a.http, "/v1/notices", {**as_person(ann), "Last-Event-ID": seen or ""}) as mine:
            await box.put(notice(ann, "new"), now=datetime.now(UTC))
            found = [await mine.next() for _ in range(4)]
            assert [one.name for one in found if one] == ["listening", "notice", "notice", "notice"]
            assert [one.data["key"] for one in found[2:] if one] == ["missed", "new"]
            await box.put(notice(ann, "last"), now=datetime.now(UTC))
            last = await mine.next()
            assert last is not None
            assert last.data["key"] == "last"
        recent = (await a.http.get("/v1/notices/recent?limit=2", headers=as_person(ann))).json()
        assert [one["key"] for one in recent["items"]] == ["new", "last"]
        assert recent["last"] == int(last.id or 0)
        after = (await a.http.get(f"/v1/notices/recent?after={recent['last']}", headers=as_person(ann))).json()
        assert after == {"items": [], "last": recent["last"]}
        bad = await a.http.get("/v1/notices", headers={**as_person(ann), "Last-Event-ID": "x'--"})
        assert bad.status_code == 400


class Counted:
    """The box, how often it was read, and whether it is away."""

    def __init__(self, box: NoticeBox) -> None:
        self._box = box
        self.looks = 0
        self.away = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._box, name)

    async def last_number(self) -> int:
        self.looks += 1
        if self.away:
            raise StoreUnavailable("the database is away")
        return await self._box.last_number()


async def test_one_reader_for_all_and_a_slow_listener_is_let_go(api: StartApi) -> None:
    async with api(workers=False) as a:
        box: Any = Counted(a.stack.parts.box)
        hub = NoticeHub(box, poll_s=0.01, room=3)
        ann = a.stack.user("ann")

        async def put(*names: str) -> None:
            for name in names:
                await box.put(notice(ann, name), now=datetime.now(UTC))

        async def taken(listener: Any, count: int) -> list[str]:
            async with asyncio.timeout(30):
                found: list[BoxedNotice | None] = [await listener.next() for _ in range(count)]
            return ["" if one is None else one.notice.key for one in found]

        await put("before")
        assert not hub.reading
        async with hub.listening(ann) as quick:
            async with hub.listening(ann) as slow:
                assert hub.reading
                await put("1", "2")
                assert await taken(quick, 2) == ["1", "2"]
                await put("3", "4")
                assert await taken(quick, 2) == ["3", "4"]
                # It had room for three; the others are not kept waiting for it.
                assert slow.behind
                assert await taken(slow, 2) == ["", ""]
            # While the database is away nothing is lost.
            box.away = True
            looks = box.looks
            await until(lambda: box.looks > looks)
            await put("5")
            box.away = False
            assert await taken(quick, 1) == ["5"]
            assert hub.reading
        assert not hub.reading


async def test_a_slow_stream_is_told_to_come_back(api: StartApi) -> None:
    async with api(workers=False) as a:
        ann = a.stack.user("ann")
        box: NoticeBox = a.stack.parts.box
        async with opened(a.http, "/v1/notices", as_person(ann)) as stream:
            await stream.until("listening")
            # More at once than a listener has room for.
            await box.put_all([notice(ann, str(number)) for number in range(400)], now=datetime.now(UTC))
            first = await stream.rest()
            assert first[-1].name == "again"
        keys = {event.data["key"] for event in first if event.name == "notice"}
        async with opened(a.http, "/v1/notices", {**as_person(ann), "Last-Event-ID": stream.last_id or ""}) as stream:
            while len(keys) < 400:
                event = await stream.next()
                assert event is not None
                keys |= {event.data["key"]} if event.name == "notice" else set()
        assert keys == {str(number) for number in range(400)}
