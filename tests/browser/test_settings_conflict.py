"""Two who change the same memory: two tabs, or a person and the assistant's pipeline. Nobody's text is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import expect

from memory.ports import ChatReply, ChatRequest
from tests.browser.conftest import StartSite
from tests.browser.settings_page import SettingsPage, versions, with_memory
from tests.browser.site import ON_ONE_LOOP, Open, Site
from tests.support.models import ScriptedModel, profile_text

pytestmark = ON_ONE_LOOP


LEARNED = "Learned meanwhile: speaks Czech"


class PausedModel(ScriptedModel):
    """Keeps what it is shown and adds a line; waits in the middle of a rewrite until it is let go on."""

    def __init__(self) -> None:
        super().__init__({"gate": "UPDATE", "consolidate": _rewritten})
        self.arrived, self.go_on = asyncio.Event(), asyncio.Event()

    async def complete(self, request: ChatRequest) -> ChatReply:
        if request.stage == "consolidate":
            self.arrived.set()
            await self.go_on.wait()
        return await super().complete(request)


def _rewritten(request: ChatRequest) -> str:
    shown = "\n".join(message.text for message in request.messages)
    known = [line for line in ("Plays the cello", "Anna Berger, product manager", "Lives in Vienna") if line in shown]
    return profile_text(identity="\n".join(f"- {line}" for line in [*known, LEARNED]))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model() -> PausedModel:
    return PausedModel()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_site(start_site: StartSite, model: PausedModel) -> AsyncIterator[Site]:
    async with start_site(model=model) as running:
        yield running


async def test_two_tabs(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    visit = await open_page(me)
    first, second = SettingsPage(visit), SettingsPage(await open_page(me, beside=visit))
    for page in (first, second):
        await page.state("ready")
    await first.add_line("Said in the first tab")
    await first.save.click()
    await first.state("saved")

    await second.add_line("Said in the second tab")
    await second.save.click()
    await second.state("conflict")
    heading = second.page.get_by_role("heading", name="Your memory was changed while you were writing")
    await expect(heading).to_be_focused()
    compared = second.page.get_by_role("region", name="Stored now beside Yours")
    await expect(compared.locator("tr.removed, tr.changed").first).to_contain_text("first")
    assert "first" in await compared.locator("del").first.inner_text()
    assert "second" in await compared.locator("ins").first.inner_text()
    await second.settled()
    await second.visit.axe_in_both()
    assert await versions(site, me) == ["edit", "edit"], "nothing was overwritten"

    # A reload in the middle of it loses nothing, and overwrites nothing.
    merged = second.page.get_by_label("What is to be saved")
    await merged.fill((await merged.input_value()).replace("- Lives in Vienna", "- Lives in Graz"))
    second.page.once("dialog", lambda dialog: dialog.accept())
    await second.page.reload()
    await second.state("unsaved")
    await second.save.click()
    await second.state("conflict")
    text = await merged.input_value()
    assert "- Lives in Graz" in text
    await merged.fill(text.replace("- Said in the second tab", "- Said in the second tab\n- Said in the first tab"))
    failing = site.faults.fail("PUT", "/v1/profile", times=1)
    await second.page.get_by_role("button", name="Save this").click()
    await expect(second.page.locator("#conflict-problem")).to_contain_text("Your text is kept")
    assert failing.met == 1
    await second.page.locator("#conflict-problem").get_by_role("button", name="Try again").click()
    await second.state("saved")
    stored = (await site.stack.profile(me)).body
    assert "- Said in the second tab\n- Said in the first tab\n" in stored
    await expect(second.text).to_have_value(stored)
    assert await versions(site, me) == ["edit", "edit", "edit"]

    # The first tab sees it when it is looked at again, for nothing in it is unsaved.
    await first.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await expect(first.text).to_have_value(stored)


async def test_a_conflict_meets_another_and_can_be_given_up(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    page = SettingsPage(await open_page(me))
    await page.state("ready")
    await page.add_line("Mine")
    for number in (1, 2):
        stored = await site.stack.profile(me)
        await site.stack.memory.edit_profile(me, f"{stored.body}\n- Theirs {number}\n", expected_etag=stored.etag)
        await (page.save if number == 1 else page.page.get_by_role("button", name="Save this")).click()
        await page.state("conflict")
        await page.page.get_by_text("Show the whole stored text").click()
        await expect(page.page.get_by_label("Stored text")).to_have_value((await site.stack.profile(me)).body)
    merged = page.page.get_by_label("What is to be saved")
    assert "- Mine" in await merged.input_value()
    await page.page.get_by_role("button", name="Start from the stored one").click()
    assert "- Theirs 2" in await merged.input_value()
    await page.page.get_by_role("button", name="Start from mine").click()
    assert "- Theirs 2" not in await merged.input_value()
    await page.page.get_by_role("button", name="Keep the stored one").click()
    await page.state("ready")
    await expect(page.text).to_have_value((await site.stack.profile(me)).body)
    await page.page.reload()
    await page.state("ready")
    assert await versions(site, me) == ["edit", "edit", "edit"]


async def test_a_save_during_a_running_pipeline(open_page: Open, site: Site, model: PausedModel) -> None:
    me = await with_memory(site)
    page = SettingsPage(await open_page(me))
    await page.state("ready")
    await site.stack.say(me, "I speak Czech, by the way.")
    await asyncio.wait_for(model.arrived.wait(), 30)
    # The rewrite has read what there was. The save is not held up by it, and is not undone by it.
    await page.add_line("Plays the cello")
    await page.save.click()
    await page.state("saved")
    model.go_on.set()
    await site.stack.settle(me)
    stored = (await site.stack.profile(me)).body
    assert "- Plays the cello\n" in stored
    assert f"- {LEARNED}\n" in stored
    assert len(await versions(site, me)) == 3
    await page.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await expect(page.text).to_have_value(stored)


async def test_a_save_after_the_pipeline_learned_something(open_page: Open, site: Site, model: PausedModel) -> None:
    me = await with_memory(site)
    page = SettingsPage(await open_page(me))
    await page.state("ready")
    await page.add_line("Plays the cello")
    model.go_on.set()
    await site.stack.say(me, "I speak Czech, by the way.")
    await site.stack.settle(me)
    await page.save.click()
    await page.state("conflict")
    await expect(page.page.get_by_text("Stored now is version 2, learned from a conversation").first).to_be_visible()
    merged = page.page.get_by_label("What is to be saved")
    await merged.fill((await merged.input_value()).replace("- Lives in Vienna", f"- Lives in Vienna\n- {LEARNED}"))
    await page.page.get_by_role("button", name="Save this").click()
    await page.state("saved")
    stored = (await site.stack.profile(me)).body
    assert "Plays the cello" in stored
    assert LEARNED in stored


async def test_an_unsaved_text_is_told_of_a_newer_version(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    page = SettingsPage(await open_page(me))
    await page.state("ready")
    await page.add_line("Not saved yet")
    stored = await site.stack.profile(me)
    await site.stack.memory.edit_profile(me, "## Identity\n- Other\n", expected_etag=stored.etag)
    await page.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await expect(page.page.locator("#memory-notice")).to_contain_text("was changed meanwhile")
    assert "Not saved yet" in await page.text.input_value()
    await page.save.click()
    await page.state("conflict")
