"""Searching recorded messages: context, names, dates, filters, and what has just been said."""

from __future__ import annotations

from datetime import timedelta

import pytest

from memory.model.errors import InvalidInput, StoreUnavailable
from memory.model.owner import Owner
from memory.ports import Progress
from memory.retrieval.messages import Message, neighbours
from tests.retrieval.conftest import World, text_of
from tests.support.records import ANN, BOB, NOW, OTHER_ANN

HOUR = timedelta(hours=1)
CHATTER = ("How are you today?", "Fine, thanks, and you?", "The weather is lovely here.", "I have to cook dinner now.")


async def indexed(world: World) -> None:
    await world.index.events.index(ANN)
    await world.index.events.embed(ANN)


class TestFinding:
    async def test_a_message_of_a_moment_ago_is_found(self, world: World) -> None:
        await world.say(*CHATTER)
        await indexed(world)
        await world.say("My passport number is in the blue folder")
        assert (await world.find("Where is the passport?"))[0] == "My passport number is in the blue folder"

    async def test_nothing_was_indexed_yet(self, world: World) -> None:
        await world.say(*CHATTER, "My passport is in the blue folder")
        assert (await world.find("passport"))[0] == "My passport is in the blue folder"

    async def test_more_is_waiting_than_a_search_compares_in_memory(self, world: World) -> None:
        await world.say("The passport is in the blue folder", *(f"filler number {number}" for number in range(400)))
        await world.say("The umbrella is at the office")
        assert (await world.find("passport"))[0] == "The passport is in the blue folder"
        assert (await world.find("umbrella"))[0] == "The umbrella is at the office"

    async def test_an_answer_is_found_by_the_words_of_its_question(self, world: World) -> None:
        await world.say(*CHATTER, at=NOW - 30 * HOUR)
        await world.say("Which instrument does your sister play?", ("assistant", "That would be the cello."), at=NOW)
        await world.say(*CHATTER, at=NOW + 30 * HOUR)
        await indexed(world)
        found = await world.find("instrument of the sister", limit=2)
        assert set(found) == {"Which instrument does your sister play?", "That would be the cello."}

    async def test_silence_and_another_conversation_end_the_context(self, world: World) -> None:
        ada = ("ada@example.com", "Six o'clock then.")
        await world.say("Which instrument does your sister play?")
        await world.say(ada, at=NOW)
        await world.say("What else?", at=NOW + 9 * HOUR)
        events = await world.tables.windows.events(ANN, 1, 3)
        messages = [message for stored in events if (message := Message.of(stored, {}))]
        assert [list(neighbours(messages, place)) for place in range(3)] == [[], [], []]

    async def test_people_media_and_time_filter(self, world: World) -> None:
        await world.meet("Ada", "ada@example.com")
        bob = await world.meet("Bob", "bob-phone", "bob@example.com")
        await world.say(("ada@example.com", "the budget of spring"), medium="email", at=NOW - 48 * HOUR)
        await world.say(("bob-phone", "the budget of summer"), medium="sms")
        await world.say("the budget of autumn", receiver_ids=("bob@example.com",), medium="Email", at=NOW + 48 * HOUR)
        for step in (None, indexed):
            if step is not None:
                await step(world)
            assert set(await world.find("budget")) == {f"the budget of {season}" for season in ("spring", "summer", "autumn")}
            assert await world.find("budget", senders=["ada@example.com"]) == ["the budget of spring"]
            assert set(await world.find("budget", contact_ids=[bob])) == {"the budget of summer", "the budget of autumn"}
            assert set(await world.find("budget", media=["email"])) == {"the budget of spring", "the budget of autumn"}
            assert await world.find("budget", since=NOW - HOUR, until=NOW + HOUR) == ["the budget of summer"]
            assert await world.find("budget", contact_ids=[99]) == []
            assert await world.find("budget", contact_ids=[1]) != []

    async def test_the_one_who_is_named_counts_more_and_others_stay(self, world: World) -> None:
        await world.meet("Ada", "s1")
        await world.meet("Bob", "s2")
        await world.say(("s1", "I bought a new bicycle"), ("s2", "I bought a new bicycle"), receiver_ids=())
        await indexed(world)
        found = await world.index.events.search(ANN, "Which bicycle did Bob buy?")
        assert [one.event.event.sender_id for one in found] == ["s2", "s1"]  # type: ignore[union-attr]

    async def test_a_date_in_the_query(self, world: World) -> None:
        await world.say("We talked about the garden", at=NOW - timedelta(days=400))
        await world.say("We talked about the garden again", at=NOW)
        await indexed(world)
        assert (await world.find(f"garden in {NOW.year}"))[0] == "We talked about the garden again"
        assert (await world.find(f"garden in {(NOW - timedelta(days=400)).year}"))[0] == "We talked about the garden"

    async def test_with_what_was_said_around_it(self, world: World) -> None:
        await world.say("one", "two", "the needle", "four")
        await indexed(world)
        [found, *_] = await world.index.events.search(ANN, "needle", neighbours=2)
        around = [one.event.event_id for one in (*found.before, found.event, *found.after)]
        assert around == ["e0", "e1", "e2", "e3"]

    async def test_only_messages_are_searched(self, world: World) -> None:
        await world.call("remember the zeppelin")
        await world.say("hello there")
        await indexed(world)
        assert "zeppelin" not in " ".join(await world.find("zeppelin"))
        assert await world.points("events") == 1

    async def test_nobody_finds_what_somebody_else_said(self, world: World) -> None:
        await world.say("my secret is a zebra")
        for other in (BOB, OTHER_ANN):
            await world.say("nothing to see", scope=other)
        for scope in (ANN, BOB, OTHER_ANN):
            await world.index.events.index(scope)
        assert await world.find("zebra") == ["my secret is a zebra"]
        assert "zebra" not in " ".join([*await world.find("zebra", scope=BOB), *await world.find("zebra", scope=OTHER_ANN)])

    @pytest.mark.parametrize(
        ("query", "said"),
        [
            ("Versicherung", "Die Krankenversicherung hat geschrieben"),
            ("苹果", "我喜欢吃苹果"),
            ("東京", "来週東京に行きます"),
            ("서울", "서울에서 만나요"),
            ("กาแฟ", "ฉันชอบดื่มกาแฟตอนเช้า"),
            ("مدرسة", "ذهبت إلى المدرسة اليوم"),
            ("🎉", "we did it 🎉"),
        ],
    )
    async def test_in_any_language(self, world: World, query: str, said: str) -> None:
        await world.say(*CHATTER, at=NOW - 30 * HOUR)
        await world.say(said)
        await indexed(world)
        assert (await world.find(query))[0] == said

    async def test_a_long_message_is_indexed_and_found(self, world: World) -> None:
        long = "The inventory follows. " + " ".join(f"item{number} box" for number in range(5_000))
        assert len(long) > 60_000
        await world.say(*CHATTER, at=NOW - 30 * HOUR)
        await world.say(long)
        await indexed(world)
        assert (await world.find("inventory"))[0] == long

    async def test_bounds(self, world: World) -> None:
        for wrong in ({"limit": 0}, {"limit": 101}, {"neighbours": -1}, {"neighbours": 11}):
            with pytest.raises(InvalidInput):
                await world.find("x", **wrong)
        assert await world.find("  ") == []
        assert await world.find("anything") == []


class TestIndexing:
    async def test_again_changes_nothing(self, world: World) -> None:
        await world.say(*CHATTER)
        await indexed(world)
        before = await statistics(world)
        assert await world.index.events.index(ANN) == 0
        assert await world.index.events.embed(ANN) == 0
        assert await statistics(world) == before

    async def test_a_crash_between_the_points_and_the_number(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        await world.say(*CHATTER)

        async def lost(*_: object, **__: object) -> bool:
            raise StoreUnavailable("the database is away")

        with monkeypatch.context() as patched:
            patched.setattr(world.tables.windows, "advance_index", lost)
            with pytest.raises(StoreUnavailable):
                await world.index.events.index(ANN)
        assert await world.points("events") == len(CHATTER)
        assert await world.index.events.index(ANN) == len(CHATTER)
        assert await world.points("events") == len(CHATTER)
        assert (await statistics(world))[0] == len(CHATTER)

    async def test_one_by_one_and_all_at_once_give_the_same_answers(self, world: World) -> None:
        lines = (*CHATTER, "My passport is in the blue folder", "Which folder?", "The one on the shelf", *CHATTER)
        for line in lines:
            await world.say(line)
            await world.index.events.index(ANN)
            await world.index.events.embed(ANN)
        await world.say(*lines, scope=BOB)
        await world.index.events.index(BOB)
        await world.index.events.embed(BOB)
        one_by_one, at_once = [await world.index.events.search(scope, "passport folder") for scope in (ANN, BOB)]
        assert [text_of(found) for found in one_by_one][:3] == [text_of(found) for found in at_once][:3]
        assert [found.score for found in one_by_one][:3] == pytest.approx([found.score for found in at_once][:3], rel=1e-3)
        assert await world.points("events", Owner.user(ANN)) == await world.points("events", Owner.user(BOB))

    async def test_dense_vectors_come_afterwards_and_survive_more_messages(self, hybrid: World) -> None:
        await hybrid.say(*CHATTER)
        await hybrid.index.events.index(ANN)
        assert await embedded(hybrid) == 0
        await hybrid.index.events.embed(ANN)
        assert await embedded(hybrid) == len(CHATTER)
        await hybrid.say("one more", "and another")
        await hybrid.index.events.index(ANN)
        assert await embedded(hybrid) == len(CHATTER)
        await hybrid.index.events.embed(ANN)
        assert await embedded(hybrid) == len(CHATTER) + 2

    async def test_without_the_embedder_messages_are_found_by_their_words(self, hybrid: World) -> None:
        assert hybrid.embedder is not None
        hybrid.embedder.away = True
        await hybrid.say(*CHATTER, "My passport is in the blue folder")
        await hybrid.index.events.index(ANN)
        with pytest.raises(StoreUnavailable):
            await hybrid.index.events.embed(ANN)
        [found, *_] = await hybrid.index.events.search(ANN, "passport")
        assert (text_of(found), found.why) == ("My passport is in the blue folder", "lexical, embedder away")
        hybrid.embedder.away = False
        await hybrid.index.events.embed(ANN)
        assert await embedded(hybrid) == len(CHATTER) + 1

    async def test_no_text_of_a_user_in_the_payload(self, world: World) -> None:
        await world.say(("ada@example.com", "my zebra"), medium="Carrier Pigeon")
        await indexed(world)
        [hit] = await world.vectors.scroll("afterturn_events")
        assert not [word for word in ("ada", "example", "zebra", "pigeon") if word in str(hit.payload).casefold()]


async def statistics(world: World) -> tuple[int, int, Progress]:
    found = await world.tables.terms.statistics("acme", [Owner.user(ANN).key], "events", [])
    return found.documents, found.length, await world.tables.windows.progress(ANN)


async def embedded(world: World) -> int:
    return sum(int(hit.payload["embedded"]) for hit in await world.vectors.scroll("afterturn_events"))
