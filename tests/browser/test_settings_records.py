"""The rest of the settings page: history, search, what is remembered beside the profile, the switch, export, delete everything."""

from __future__ import annotations

import io
import zipfile
from datetime import UTC, datetime

from playwright.async_api import Locator, expect

from memory.model.fact import Source
from memory.model.scope import Scope
from memory.model.task import Task
from memory.ports import CreateContact, CreateTask
from tests.browser.settings_page import BODY, SettingsPage, versions, with_memory
from tests.browser.site import ON_ONE_LOOP, PHONE, Open, Site
from tests.support.api import as_service
from tests.support.stack import START

pytestmark = ON_ONE_LOOP

SAID = "Ada from Globex will send the signed offer by Friday."


async def remembered(site: Site, scope: Scope) -> None:
    """A fact by hand; a contact and a task that rest on a recorded message."""
    event = {"timestamp": START, "sender_id": "user", "receiver_ids": ["assistant"], "content": SAID, "event_id": "e-1"}
    receipt = await site.stack.memory.record_events(scope, [event], allow_user_memory=True)
    assert receipt.recorded == 1
    source = Source(event_id="e-1", seq=1, quote="Ada from Globex will send the signed offer", said_at=START, origin="window:w-1")
    parts, now = site.stack.parts, datetime.now(UTC)
    ada = CreateContact("c-1", {"first_name": "Ada", "surname": "Byron", "job_title": "Buyer"}, sources=(source,))
    await parts.stores.contacts.apply(scope, [ada], origin="window:w-1", now=now)
    task = Task(task_id="t-1", name="Get the signed offer", created_at=now, updated_at=now, sources=(source,))
    await parts.stores.tasks.apply(scope, [CreateTask("k-1", task, "get the signed offer")], now=now)
    await site.stack.memory.add_facts(scope, ["Globex pays within 30 days."])


def item(page: SettingsPage, text: str) -> Locator:
    return page.page.locator("#remembered .item", has_text=text)


async def test_history_shows_differences_and_goes_back(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    stored = await site.stack.profile(me)
    await site.stack.memory.edit_profile(me, BODY.replace("Vienna", "Graz"), expected_etag=stored.etag)
    page = SettingsPage(await open_page(me))
    await page.state("ready")
    shown = page.page.locator("#versions li")
    await expect(shown).to_have_count(2)
    await expect(shown.first).to_contain_text("Now")
    await expect(shown.first.get_by_role("button")).to_have_count(0)

    compare = shown.nth(1).get_by_role("button", name="Show differences between version 1 and now")
    await compare.click()
    await expect(compare).to_have_attribute("aria-expanded", "true")
    await expect(shown.nth(1).locator("del")).to_have_text("Vienna")
    await expect(shown.nth(1).locator("ins")).to_have_text("Graz")
    await page.settled()
    await page.visit.axe_in_both()
    await compare.click()
    await expect(page.page.locator("#version-1")).to_be_hidden()

    back = shown.nth(1).get_by_role("button", name="Go back to version 1")
    await back.click()
    dialog = page.page.get_by_role("dialog", name="Go back to version 1?")
    await page.visit.axe()
    await dialog.get_by_role("button", name="Cancel").click()
    await expect(back).to_be_focused()
    await back.click()
    await dialog.get_by_role("button", name="Go back").click()
    await expect(shown).to_have_count(3)
    await expect(shown.first).to_contain_text("Went back to version 1")
    await expect(page.text).to_have_value((await site.stack.profile(me)).body)
    assert "Vienna" in await page.text.input_value()
    await expect(page.page.locator("#history-title")).to_be_focused()
    assert await versions(site, me) == ["rollback:1", "edit", "edit"]

    # Somebody was faster: nothing is undone that was not seen.
    stored = await site.stack.profile(me)
    await site.stack.memory.edit_profile(me, "## Identity\n- Newest\n", expected_etag=stored.etag)
    await shown.nth(1).get_by_role("button", name="Go back to version 2").click()
    await page.page.get_by_role("dialog").get_by_role("button", name="Go back").click()
    await expect(shown).to_have_count(4)
    assert (await site.stack.profile(me)).version == 4

    site.faults.fail("GET", "/v1/profile/versions", times=1)
    await page.page.reload()
    await expect(page.page.locator("#versions")).to_contain_text("The history could not be loaded.")
    await page.page.locator("#versions").get_by_role("button", name="Try again").click()
    await expect(shown).to_have_count(4)


async def test_what_is_remembered_has_its_sources_and_can_be_corrected_and_forgotten(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    await remembered(site, me)
    page = SettingsPage(await open_page(me))
    for kind, text in (("contact", "Ada Byron"), ("task", "Get the signed offer")):
        shown = item(page, text)
        await shown.get_by_text("Where this comes from").click()
        await expect(shown.locator("blockquote"), kind).to_contain_text("Ada from Globex will send the signed offer")
        await expect(shown.locator("blockquote footer")).to_contain_text("You, 17 Jun 2026")
    fact = item(page, "Globex pays within 30 days.")
    await fact.get_by_text("Where this comes from").click()
    await expect(fact.locator("footer")).to_contain_text("Written by hand")
    await page.settled()
    await page.visit.axe_in_both()

    # A fact: the new statement takes the place of the old one.
    await page.page.get_by_role("button", name="Correct: Globex pays within 30 days.").click()
    dialog = page.page.get_by_role("dialog", name="Correct this fact")
    statement = dialog.get_by_label("What is right")
    await expect(statement).to_be_focused()
    await statement.fill(" ")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog.locator("#field-fact-statement-error")).to_have_text("Write what is right, or forget the fact.")
    await expect(statement).to_have_attribute("aria-invalid", "true")
    await page.visit.axe()
    await statement.fill("Globex pays within 14 days.")
    site.faults.fail("POST", "/v1/facts", detail="the database is away", times=1)
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog.get_by_role("alert")).to_have_text("The database is away.")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog).to_be_hidden()
    await expect(item(page, "Globex pays within 14 days.").locator(".item-title")).to_be_focused()
    assert [fact.statement for fact in await site.stack.memory.facts(me)] == ["Globex pays within 14 days."]
    (ended,) = await site.stack.memory.facts(me, statuses=["superseded"])
    assert ended.statement == "Globex pays within 30 days."

    # A contact and a task: their fields.
    await page.page.get_by_role("button", name="Correct: Ada Byron").click()
    dialog = page.page.get_by_role("dialog", name="Correct Ada Byron")
    await page.visit.axe()
    await dialog.get_by_label("Surname").fill("Lovelace")
    await dialog.get_by_label("Job title").fill("")
    await dialog.get_by_label("E-mail").fill("no address")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("email_address")
    await dialog.get_by_label("E-mail").fill("ada@globex.example")
    await dialog.get_by_role("button", name="Save").click()
    await expect(item(page, "Ada Lovelace")).to_contain_text("ada@globex.example")
    await expect(item(page, "Ada Lovelace")).not_to_contain_text("Buyer")
    await page.page.get_by_role("button", name="Correct: Get the signed offer").click()
    dialog = page.page.get_by_role("dialog", name="Correct this task")
    await dialog.get_by_label("Status").select_option("done")
    await dialog.get_by_label("Due on").fill("2026-06-19")
    await dialog.get_by_role("button", name="Save").click()
    await expect(item(page, "Get the signed offer")).to_contain_text("Done")
    await expect(item(page, "Get the signed offer")).to_contain_text("due 19 Jun 2026")

    # Forgetting asks, can fail, and puts the focus somewhere that is still there.
    await page.page.get_by_role("button", name="Forget: Ada Lovelace").click()
    dialog = page.page.get_by_role("dialog", name="Forget this contact?")
    await expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    site.faults.fail("DELETE", "/v1/contacts/.*", times=1)
    await dialog.get_by_role("button", name="Forget").click()
    await expect(page.page.get_by_role("status").first).to_contain_text("Not forgotten.")
    await page.page.get_by_role("button", name="Forget: Ada Lovelace").click()
    await page.page.get_by_role("dialog").get_by_role("button", name="Forget").click()
    await expect(item(page, "Ada Lovelace")).to_have_count(0)
    await expect(page.page.locator("#contacts .item-title").last).to_be_focused()
    for text, group in (("Get the signed offer", "tasks"), ("Globex pays within 14 days.", "facts")):
        await page.page.get_by_role("button", name=f"Forget: {text}").click()
        await page.page.get_by_role("dialog").get_by_role("button", name="Forget").click()
        await expect(page.page.locator(f"#{group} .nothing-here")).to_be_visible()
        await expect(page.page.locator(f"#{group}-title")).to_be_focused()
    assert not await site.stack.memory.facts(me)
    assert not await site.stack.memory.tasks.list(me)
    assert [contact.contact_id for contact in await site.stack.memory.contacts.filter(me)] == [0, 1]
    await expect(page.page.get_by_role("button", name="Forget: You")).to_have_count(0)


async def test_lists_are_walked_page_by_page_and_fail_alone(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    kinds = ("apples", "bridges", "clouds", "drums", "engines", "forests", "gardens", "harbours", "islands", "jackets", "kites")
    await site.stack.memory.add_facts(me, [f"{one.capitalize()} are kept in warehouse {one[0] * 3}." for one in kinds])
    site.faults.fail("GET", "/v1/tasks", times=1)
    page = SettingsPage(await open_page(me))
    facts = page.page.locator("#facts .item")
    await expect(facts).to_have_count(10)
    await page.page.get_by_role("button", name="Show more facts").click()
    await expect(facts).to_have_count(11)
    await expect(facts.last.locator(".item-title")).to_be_focused()
    await expect(page.page.get_by_role("button", name="Show more facts")).to_be_hidden()
    await expect(page.page.locator("#tasks")).to_contain_text("The tasks could not be loaded.")
    await page.page.locator("#tasks").get_by_role("button", name="Try again").click()
    await expect(page.page.locator("#tasks")).to_contain_text("No task is remembered.")


async def test_search_finds_everything(open_page: Open, site: Site) -> None:
    me = await with_memory(site, BODY + "- Negotiates with Globex\n")
    await remembered(site, me)
    page = SettingsPage(await open_page(me))
    field = page.page.get_by_label("Search everything that is remembered")
    await field.fill("Globex")
    await field.press("Enter")
    found = page.page.locator("#search-found")
    for heading, text in (("In your memory", "Negotiates with Globex"), ("Facts", "30 days"), ("What was said", SAID)):
        await expect(found.locator("section", has_text=heading).first).to_contain_text(text)
    await expect(page.page.get_by_role("status").first).to_contain_text("found for “Globex”")
    await page.settled()
    await page.visit.axe_in_both()
    site.faults.fail("POST", "/v1/search", detail="nothing can be searched", times=1)
    await field.press("Enter")
    await expect(found.get_by_role("alert")).to_contain_text("Nothing can be searched.")
    await found.get_by_role("button", name="Try again").click()
    await expect(found).to_contain_text("30 days")
    site.faults.answer("POST", "/v1/search", {"items": [], "unavailable": {"message": "the vectors are away"}})
    await field.fill("zebra")
    await field.press("Enter")
    await expect(found).to_contain_text("Nothing is remembered that fits “zebra”.")
    await expect(found).to_contain_text("Not searched at the moment: what was said.")


async def test_what_was_found_can_be_opened_and_forgotten(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    await site.stack.memory.add_facts(me, [f"Supplier {number} delivers on time." for number in range(15)])
    page = SettingsPage(await open_page(me, size=PHONE))
    await page.state("ready")
    await page.page.get_by_role("searchbox").fill("Supplier 7")
    await page.page.keyboard.press("Enter")
    found = page.page.locator("#search-found")
    await found.get_by_role("button", name="Open: Supplier 7 delivers on time.").click()
    await expect(found.locator(".item-title")).to_be_focused()
    await found.get_by_role("button", name="Forget: Supplier 7 delivers on time.").click()
    await page.page.get_by_role("dialog").get_by_role("button", name="Forget").click()
    await expect(found.get_by_text("Supplier 7 delivers on time.")).to_have_count(0)
    assert len(await site.stack.memory.facts(me, limit=50)) == 14


async def test_the_switch_is_no_deletion(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    page = SettingsPage(await open_page(me))
    switch = page.page.get_by_role("switch", name="Use my context memory")
    await expect(switch).to_have_attribute("aria-checked", "true")
    await expect(page.page.locator("#allow-hint")).to_contain_text("does not delete anything")
    await expect(page.page.locator("#allow-hint").get_by_role("link", name="Delete everything")).to_have_attribute("href", "#data")
    site.faults.fail("PUT", "/v1/preference", times=1)
    await switch.click()
    await expect(page.page.locator("#preference-problem")).to_contain_text("Not changed.")
    await expect(switch).to_have_attribute("aria-checked", "true")
    await switch.click()
    await expect(switch).to_have_attribute("aria-checked", "false")
    await expect(page.page.locator("#off-notice")).to_contain_text("You have switched it off.")
    await page.settled()
    await page.visit.axe_in_both()
    enablement = await site.stack.memory.enablement(me)
    assert [code.value for code in enablement.codes] == ["user_opted_out"]
    assert (await site.stack.profile(me)).exists
    await page.page.reload()
    await expect(switch).to_have_attribute("aria-checked", "false")
    await switch.click()
    await expect(page.page.locator("#off-notice")).to_have_count(0)


async def test_everything_is_taken_along_and_then_deleted(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    await remembered(site, me)
    page = SettingsPage(await open_page(me))
    await page.state("ready")
    site.faults.fail("GET", "/v1/export", times=1)
    export = page.page.get_by_role("button", name="Download everything")
    await export.click()
    await expect(page.page.locator("#export-state")).to_contain_text("The download failed.")
    async with page.page.expect_download() as downloading:
        await export.click()
    download = await downloading.value
    assert download.suggested_filename.endswith(".zip")
    with zipfile.ZipFile(io.BytesIO((await download.path()).read_bytes())) as archive:
        assert archive.testzip() is None
        whole = b"".join(archive.read(name) for name in archive.namelist()).decode()
    for text in ("Anna Berger", "Globex pays within 30 days.", "Ada", SAID):
        assert text in whole
    await expect(page.page.locator("#export-state")).to_contain_text("Downloaded: ")

    await page.page.get_by_role("switch", name="Use my context memory").click()
    await expect(page.page.locator("#off-notice")).to_be_visible()
    await page.add_line("Unsaved when it happens")
    delete = page.page.get_by_role("button", name="Delete everything…")
    await delete.click()
    dialog = page.page.get_by_role("dialog", name="Delete everything?")
    typed, go = dialog.get_by_label("To go on, type: delete everything"), dialog.get_by_role("button", name="Delete everything")
    await expect(typed).to_be_focused()
    await expect(go).to_be_disabled()
    await page.visit.axe_in_both()
    await typed.fill("delete")
    await expect(go).to_be_disabled()
    await typed.press("Enter")
    await expect(dialog).to_be_visible()
    await typed.press("Escape")
    await expect(dialog).to_be_hidden()
    assert (await site.stack.profile(me)).exists

    await delete.click()
    await typed.fill("Delete everything")
    held = site.faults.hold("GET", "/v1/forget/.*", times=1)
    await typed.press("Enter")
    await expect(page.page.locator("#forget-state")).to_contain_text("Deleting…")
    held.release()
    receipt = page.page.get_by_role("heading", name="Receipt")
    await expect(receipt).to_be_focused()
    await expect(page.page.locator("#forget-state")).to_contain_text("Everything is deleted.")
    await expect(page.page.locator("#memory-off")).not_to_contain_text("You have switched it off")  # that is forgotten too
    assert int(await page.page.locator(".receipt td.number").first.inner_text()) > 0
    await page.settled()
    await page.visit.axe_in_both()
    assert (await site.stack.profile(me)).exists is False
    assert not await site.stack.memory.facts(me)

    await page.page.reload()
    await page.state("empty")
    await expect(page.page.get_by_text("Receipt of the last deletion")).to_be_visible()


async def test_signing_out_asks_for_unsaved_text_and_drops_the_draft(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    page = SettingsPage(await open_page(me))
    await page.state("ready")
    await page.add_line("Never saved")
    await page.page.get_by_role("button", name="Sign out").click()
    await page.page.get_by_role("dialog").get_by_role("button", name="Leave without saving").click()
    await page.page.get_by_role("heading", name="Signed out").wait_for()
    assert await page.page.evaluate("sessionStorage.length") == 0
    answer = await page.visit.context.request.get(f"{site.base}/settings", max_redirects=0)
    assert answer.status == 303


async def test_nobody_is_sent_to_sign_in_and_services_have_no_pages(site: Site) -> None:
    answer = await site.http.get("/settings", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/settings")
    assert (await site.http.get("/settings", headers=as_service("acme", "someone"))).status_code == 403


async def test_assets_are_kept_for_good_by_an_address_that_changes_with_them(open_page: Open, site: Site) -> None:
    visit = await open_page(site.stack.user())
    await visit.page.wait_for_load_state("networkidle")
    (style,) = {url for url in visit.asked if url.endswith("/base.css")}
    answer = await site.http.get(style)
    assert (answer.status_code, answer.headers["content-encoding"]) == (200, "gzip")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    again = await site.http.get(style, headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304
    # A page of an older version that is still open gets what there is now.
    older = await site.http.get("/assets/0123456789abcdef/base.css")
    assert (older.status_code, older.headers["cache-control"]) == (200, "no-cache")
    for path in ("/assets/x/nothing.js", "/assets/x/../templates/base.html", "/assets/x/%2e%2e/__init__.py"):
        assert (await site.http.get(path)).status_code == 404
