"""Contacts and their texts on real stores: who is who, merges on evidence, bios that lose nothing, policies."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from memory.model.category import Category
from memory.model.contact_rules import count_words
from memory.ports import UpdateContact
from tests.support.extracted import Memory, open_memory

C, B, S, P = Category.CONTACTS, Category.BIOS, Category.ROLLING_SUMMARIES, Category.RESPONSE_POLICIES


@pytest.fixture
async def memory(sql_url: str) -> AsyncIterator[Memory]:
    async with open_memory(sql_url) as made:
        yield made


class TestCreate:
    async def test_a_new_contact_can_be_referred_to_by_later_categories(self, memory: Memory) -> None:
        text = "My colleague Mara Lind, mara@lumen.example, joins us. Mara Lind comes from Oslo."
        made = await memory.take(
            C,
            [text],
            {"action": "create", "contact": "new1", "first_name": "Mara", "surname": "Lind", "email_address": "Mara@Lumen.example"},
        )
        [mara] = await memory.contacts()
        assert (mara.name, mara.email_address, made.refs) == ("Mara Lind", "Mara@lumen.example", {"new1": str(mara.contact_id)})
        await memory.take(B, [text], {"contact": "new1", "text": "Mara comes from Oslo."}, refs=made.refs)
        assert (await memory.contacts())[0].bio == "Mara comes from Oslo."

    async def test_one_with_a_known_address_is_an_update(self, memory: Memory) -> None:
        await memory.add_contact("mara", email_address="mara@lumen.example")
        item = {
            "action": "create",
            "contact": "new1",
            "first_name": "Mara",
            "surname": "Lind",
            "email_address": "MARA@lumen.example",
        }
        outcome = (await memory.take(C, ["Mara Lind, mara@lumen.example"], item)).outcome
        [mara] = await memory.contacts()
        assert (outcome.applied, mara.name) == (1, "Mara Lind")

    async def test_one_with_a_known_name_is_an_update(self, memory: Memory) -> None:
        mara = await memory.add_contact("mara", first_name="Mara", surname="Lind")
        item = {"action": "create", "contact": "new1", "first_name": "Mara", "surname": "Lind", "phone_number": "+49 30 1234567"}
        made = await memory.take(C, ["Mara Lind: +49 30 1234567"], item)
        assert made.refs == {"new1": mara}
        assert [(one.name, one.phone_number) for one in await memory.contacts()] == [("Mara Lind", "+49301234567")]

    async def test_a_namesake_with_another_address_is_somebody_else(self, memory: Memory) -> None:
        await memory.add_contact("mara", first_name="Mara", surname="Lind", email_address="mara@lumen.example")
        item = {
            "action": "create",
            "contact": "new1",
            "first_name": "Mara",
            "surname": "Lind",
            "email_address": "mara@kite.example",
        }
        await memory.take(C, ["Mara Lind, mara@kite.example"], item)
        assert len(await memory.contacts()) == 2

    async def test_who_introduces_themselves_keeps_the_sender_id(self, memory: Memory) -> None:
        item = {"action": "create", "contact": "new1", "first_name": "Tom", "surname": "Berger"}
        await memory.take(C, [("+4915112345678", "Sorry, this is Tom Berger from Kite.")], item)
        assert (await memory.contact("+4915112345678")).name == "Tom Berger"

    async def test_more_about_a_new_contact_in_one_window_is_one_contact(self, memory: Memory) -> None:
        items = [
            {"action": "create", "contact": "new1", "first_name": "Mara", "surname": "Lind"},
            {"action": "update", "contact": "new1", "job_title": "Head of Design", "line": 2},
        ]
        outcome = (await memory.take(C, ["My colleague Mara Lind joins.", "Mara is Head of Design."], *items)).outcome
        [mara] = await memory.contacts()
        assert (mara.name, mara.job_title, outcome.applied + outcome.confirmed) == ("Mara Lind", "Head of Design", 2)

    @pytest.mark.parametrize(
        ("text", "fields"),
        [
            ("The Lumen support hotline is +49 800 5551234, ask for Ben.", {"first_name": "Ben"}),
            ("Die Zentrale hat die +49 800 5551234, verlang Frau Ben.", {"first_name": "Ben"}),
            ("You reach Lumen Support at +49 800 5551234.", {"first_name": "Lumen", "surname": "Support"}),
            ("Kite GmbH: +49 800 5551234", {"first_name": "Kite GmbH"}),
            ("华信公司的电话是+49 800 5551234", {"first_name": "华信公司"}),
        ],
    )  # fmt: skip
    async def test_a_service_keeps_empty_names(self, memory: Memory, text: str, fields: dict[str, str]) -> None:
        await memory.take(C, [text], {"action": "create", "contact": "new1", "phone_number": "+49 800 5551234", **fields})
        [contact] = await memory.contacts()
        assert (contact.name, contact.phone_number) == ("", "+498005551234")

    async def test_a_mere_name_of_who_answered_makes_no_contact(self, memory: Memory) -> None:
        outcome = (
            await memory.take(
                C, ["I called the hotline and spoke to Ben."], {"action": "create", "contact": "new1", "first_name": "Ben"}
            )
        ).outcome
        assert (outcome.dropped, await memory.contacts()) == ({"routed_elsewhere": 1}, [])

    async def test_a_person_at_a_service_has_a_name(self, memory: Memory) -> None:
        text = "My friend Ben Moss, +49 171 5551234, works for the support team of Lumen."
        await memory.take(
            C,
            [text],
            {"action": "create", "contact": "new1", "first_name": "Ben", "surname": "Moss", "phone_number": "+49 171 5551234"},
        )
        assert (await memory.contacts())[0].name == "Ben Moss"

    async def test_what_cannot_be_stored_does_not_take_the_rest_with_it(self, memory: Memory) -> None:
        item = {
            "action": "create",
            "contact": "new1",
            "first_name": "Mara",
            "surname": "Lind",
            "phone_number": "call me",
            "timezone": "Moon/Base",
        }
        await memory.take(C, ["Mara Lind, call me, Moon/Base"], item)
        [mara] = await memory.contacts()
        assert (mara.name, mara.phone_number, mara.timezone) == ("Mara Lind", None, None)


class TestUpdate:
    async def test_a_contact_gets_its_name_as_soon_as_it_is_known(self, memory: Memory) -> None:
        tom = await memory.add_contact("+4915112345678", phone_number="+4915112345678")
        item = {"action": "update", "contact": "c2", "first_name": "Tom", "surname": "Berger"}
        await memory.take(C, [("+4915112345678", "This is Tom Berger from Kite.")], item, refs={"c2": tom})
        assert (await memory.contact("+4915112345678")).name == "Tom Berger"
        [*_, last] = await memory.stores.contacts.history(memory.scope, int(tom))
        assert (last.field, last.after, last.origin) == ("surname", "Berger", "window:w1")

    async def test_a_number_of_somebody_else_is_refused_and_the_rest_stands(self, memory: Memory) -> None:
        await memory.add_contact("tom", phone_number="+49301234567")
        mara = await memory.add_contact("mara", first_name="Mara")
        item = {"action": "update", "contact": "c3", "job_title": "Head of Design", "phone_number": "+49 30 1234567"}
        outcome = (await memory.take(C, ["Mara is Head of Design, +49 30 1234567"], item, refs={"c3": mara})).outcome
        assert (outcome.applied, outcome.dropped) == (1, {"conflict": 1})
        found = await memory.contact("mara")
        assert (found.job_title, found.phone_number) == ("Head of Design", None)

    async def test_the_assistant_is_not_renamed(self, memory: Memory) -> None:
        outcome = (
            await memory.take(C, ["Hey Bobby, how are you?"], {"action": "update", "contact": "c0", "first_name": "Bobby"})
        ).outcome
        assert outcome.applied == 0
        assert (await memory.contact("assistant")).first_name is None


class TestMerge:
    async def two(self, memory: Memory, **fields: str) -> dict[str, str]:
        mara = await memory.add_contact("mara", first_name="Mara", surname="Lind", bio="Mara comes from Oslo.")
        other = await memory.add_contact(
            "ml", **{"first_name": "Mara", "surname": "Lindholm", "email_address": "ml@lumen.example", **fields}
        )
        return {"c2": mara, "c3": other}

    @pytest.mark.parametrize(
        "text",
        [
            "By the way, Mara Lindholm is the same person as Mara Lind, she married.",
            "Mara Lindholm ist die gleiche Person wie Mara Lind.",
            "Mara Lind和Mara Lindholm是同一个人。",
            "Mara Lind is now called Mara Lindholm.",
        ],
    )  # fmt: skip
    async def test_on_plain_words(self, memory: Memory, text: str) -> None:
        refs = await self.two(memory)
        outcome = (await memory.take(C, [text], {"action": "merge", "contact": "c3", "merge_with": "c2"}, refs=refs)).outcome
        assert (outcome.applied, outcome.dropped) == (1, {})
        [kept] = await memory.contacts()
        assert (str(kept.contact_id), kept.email_address, kept.bio) == (refs["c2"], "ml@lumen.example", "Mara comes from Oslo.")
        assert set(kept.aliases) >= {"mara", "ml"}

    @pytest.mark.parametrize(
        "text",
        [
            "Samples look good to Mara Lind and to Mara Lindholm!",
            "Mara Lindholm is not the same person as Mara Lind.",
            "Is Mara Lindholm the same person as Mara Lind?",
            "Tom and Jerry are the same person.",
            "Mara Lind hat die gleiche Meinung.",
        ],
    )  # fmt: skip
    async def test_not_without_them(self, memory: Memory, text: str) -> None:
        refs = await self.two(memory, first_name="Vera", surname="Moss")
        outcome = (await memory.take(C, [text], {"action": "merge", "contact": "c2", "merge_with": "c3"}, refs=refs)).outcome
        assert outcome.dropped == {"ungrounded": 1}
        assert len(await memory.contacts()) == 2

    async def test_on_the_same_number(self, memory: Memory) -> None:
        one = await memory.add_contact("mara", first_name="Mara", phone_number="+49301234567")
        other = await memory.add_contact("x", whatsapp_number="+49301234567")
        await memory.take(
            C, ["Mara wrote on WhatsApp."], {"action": "merge", "contact": "c2", "merge_with": "c3"}, refs={"c2": one, "c3": other}
        )
        assert len(await memory.contacts()) == 1

    async def test_on_an_address_that_the_contact_gives_as_their_own(self, memory: Memory) -> None:
        refs = await self.two(memory)
        text = ("mara", "My new email is ml@lumen.example.")
        await memory.take(C, [text], {"action": "merge", "contact": "c2", "merge_with": "c3"}, refs=refs)
        assert len(await memory.contacts()) == 1

    async def test_the_user_is_never_merged_away(self, memory: Memory) -> None:
        mara = await memory.add_contact("mara", first_name="Mara", surname="Lind")
        await memory.stores.contacts.apply(
            memory.scope, [UpdateContact("u", 1, {"first_name": "Ada"})], origin="manual", now=memory.at
        )
        item = {"action": "merge", "contact": "c2", "merge_with": "c1"}
        await memory.take(C, ["Mara Lind is the same person as Ada."], item, refs={"c2": mara})
        kept = await memory.contact("mara")
        assert (kept.contact_id, kept.first_name) == (1, "Ada")


class TestTexts:
    async def write(self, memory: Memory, category: Category, old: str | None, new: str, said: str, **fields: str) -> str:
        field = {B: "bio", S: "rolling_summary", P: "response_policy"}[category]
        mara = await memory.add_contact("mara", first_name="Mara", surname="Lind", **({field: old} if old else {}), **fields)
        await memory.take(category, [("mara", said)], {"contact": "c2", "text": new}, refs={"c2": mara})
        return getattr(await memory.contact("mara"), field) or ""

    async def test_a_bio_keeps_what_the_model_forgot(self, memory: Memory) -> None:
        old = "Mara works at Lumen. Mara comes from Oslo. Mara has two brothers."
        bio = await self.write(memory, B, old, "Mara now works at Kite.", "I left Lumen, I now work at Kite.")
        assert "Lumen" not in bio
        assert bio == "Mara comes from Oslo. Mara has two brothers. Mara now works at Kite."

    async def test_a_bio_of_another_number_or_name_says_something_else(self, memory: Memory) -> None:
        bio = await self.write(
            memory,
            B,
            "Mara has 2 brothers and lives in Oslo.",
            "Mara has 3 brothers and lives in Oslo.",
            "Oslo is cold today, brothers!",
        )
        assert "2 brothers" in bio

    async def test_a_bio_in_chinese(self, memory: Memory) -> None:
        bio = await self.write(memory, B, "王芳来自成都。王芳有两个孩子。", "王芳在华信科技工作。", "我在华信科技工作。")
        assert bio == "王芳来自成都。王芳有两个孩子。王芳在华信科技工作。"

    async def test_what_was_edited_meanwhile_survives(self, memory: Memory) -> None:
        mara = await memory.add_contact("mara", first_name="Mara", bio="Mara comes from Oslo.")
        edit = UpdateContact("edit", int(mara), {"bio": "Mara comes from Oslo. Mara is allergic to nuts."})
        await memory.stores.contacts.apply(memory.scope, [edit], origin="manual", now=memory.at)
        woven_from_the_old = {"contact": "c2", "text": "Mara comes from Oslo. Mara plays the cello."}
        await memory.take(B, [("mara", "I play the cello.")], woven_from_the_old, refs={"c2": mara})
        bio = (await memory.contact("mara")).bio or ""
        assert "allergic to nuts" in bio
        assert "cello" in bio

    async def test_the_history_keeps_the_old_text(self, memory: Memory) -> None:
        await self.write(memory, B, "Mara works at Lumen.", "Mara works at Kite.", "I left Lumen, I now work at Kite.")
        mara = await memory.contact("mara")
        history = await memory.stores.contacts.history(memory.scope, mara.contact_id)
        assert [(one.before, one.after) for one in history if one.field == "bio"][-1] == (
            "Mara works at Lumen.",
            "Mara works at Kite.",
        )

    async def test_no_more_than_500_words_in_whole_sentences(self, memory: Memory) -> None:
        text = " ".join(f"Mara has visited the town number {number} with great pleasure." for number in range(100))
        bio = await self.write(memory, B, None, text, "I have visited 100 towns.")
        assert 490 <= count_words(bio) <= 500
        assert bio.endswith("with great pleasure.")

    async def test_a_secret_in_a_text_is_redacted(self, memory: Memory) -> None:
        bio = await self.write(memory, B, None, "Mara comes from Oslo. Her password is Tr0ub4dor&3-horse.", "I come from Oslo.")
        assert "Tr0ub4dor" not in bio
        assert "Oslo" in bio

    async def test_a_summary_may_drop_what_is_over(self, memory: Memory) -> None:
        old = "Recent themes: harvest festival posters. Open: printing quote. Tone: friendly."
        new = "Recent themes: greenhouse contract; harvest festival posters. Tone: friendly."
        assert await self.write(memory, S, old, new, "The greenhouse contract arrived, the printing quote came too.") == new

    async def test_a_summary_that_drops_nearly_everything_goes_on_from_the_old_one(self, memory: Memory) -> None:
        old = "Mara prepares the harvest festival. The poster drafts are ready. Thick paper is wanted. She waits for a quote."
        new = "The greenhouse contract arrived."
        summary = await self.write(memory, S, old, new, "The greenhouse contract arrived today.")
        assert "harvest festival" in summary
        assert summary.endswith(new)

    async def test_a_directive_stays_until_one_on_the_same_matter_comes(self, memory: Memory) -> None:
        old = "Always answer Mara in English. Never call Mara after six."
        policy = await self.write(memory, P, old, "Always answer Mara in German.", "Please always answer me in German from now on.")
        assert policy == "Never call Mara after six. Always answer Mara in German."

    async def test_a_preference_that_was_mentioned_is_no_policy(self, memory: Memory) -> None:
        assert await self.write(memory, P, None, "Answer Mara on Sundays.", "I always answer my mail on Sundays.") == ""

    async def test_what_ended_and_what_took_its_place_are_told_apart(self, memory: Memory) -> None:
        mara = await memory.add_contact("mara", first_name="Mara", bio="Mara works at Lumen.")
        items = [{"contact": "c2", "text": "Mara works at Kite."}, {"contact": "c2", "text": "Mara lives in Bergen."}]
        await memory.take(B, [("mara", "I left Lumen, I now work at Kite and live in Bergen.")], *items, refs={"c2": mara})
        assert (await memory.contact("mara")).bio == "Mara works at Kite. Mara lives in Bergen."

    async def test_two_items_for_one_contact_are_one_text(self, memory: Memory) -> None:
        mara = await memory.add_contact("mara", first_name="Mara")
        items = [{"contact": "c2", "text": "Mara comes from Oslo."}, {"contact": "c2", "text": "Mara has two brothers.", "line": 2}]
        await memory.take(B, [("mara", "I come from Oslo."), ("mara", "I have two brothers.")], *items, refs={"c2": mara})
        assert (await memory.contact("mara")).bio == "Mara comes from Oslo. Mara has two brothers."

    async def test_a_contact_that_was_not_made_gets_no_text(self, memory: Memory) -> None:
        outcome = (await memory.take(B, ["Mara comes from Oslo."], {"contact": "new1", "text": "Mara comes from Oslo."})).outcome
        assert outcome.dropped == {"unknown_ref": 1}
