"""The admin page: every state of it, with the server slow, failing and conflicting."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest_asyncio
from playwright.async_api import Dialog, Locator, Page, expect

from memory.model.scope import Scope
from memory.ports.service import Process
from memory.stores.objects.minio import MinioObjectStore
from tests.browser.admin_company import CANARY, Company
from tests.browser.conftest import StartSite
from tests.browser.site import ON_ONE_LOOP, PHONE, Open, Site, Visit
from tests.support.waiting import until

pytestmark = ON_ONE_LOOP


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_site(start_site: StartSite) -> AsyncIterator[Site]:
    async with start_site(workers=False, temporal_ui_url="http://temporal.test/ui") as running:
        yield running


def part(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


async def ready(visit: Visit) -> Page:
    """All parts are loaded."""
    await expect(visit.page.locator("[aria-busy=true], .skeleton")).to_have_count(0)
    await expect(visit.page.locator("#tokens [data-body] > *").first).to_be_visible()
    return visit.page


async def open_form(page: Page, space: str) -> Locator:
    await page.get_by_label("Any space").fill(space)
    await page.get_by_role("button", name="Open its settings").click()
    form = page.get_by_role("form", name=f"Settings of {space}")
    await expect(form).to_be_visible()
    return form


async def setting(form: Locator, name: str) -> Locator:
    return form.locator(f'[data-setting="{name}"]')


async def test_a_company_at_work(open_page: Open, site: Site) -> None:
    company = Company.new(site)
    await company.lively()
    visit = await company.visit(open_page)
    page = await ready(visit)
    await expect(part(page, "Company")).to_contain_text("On for this company")
    await expect(part(page, "Company")).to_contain_text("FEATURE_FLAG_ENABLE_CONTEXT_MEMORY_UN_22033")
    await expect(part(page, "Company")).to_contain_text("the operator of this deployment")
    rows = part(page, "Spaces").get_by_role("row")
    await expect(rows).to_have_count(5)
    await expect(rows.filter(has_text="research")).to_contain_text("Off: web search")
    await expect(rows.filter(has_text="archive")).to_contain_text("Off: switched off")
    runs = part(page, "Failed runs")
    await expect(runs.get_by_role("row").filter(has_text="turn-4711")).to_contain_text("the model did not answer in time")
    await expect(runs.get_by_role("row").filter(has_text="chunk-3f9a02")).to_contain_text("Tasks: the reply was cut off")
    by_space = page.get_by_role("region", name="By space").get_by_role("row").filter(has_text="support")
    await expect(by_space).to_contain_text("1 kept")
    users = page.get_by_role("region", name="Tokens of language models")
    await expect(users.get_by_role("rowheader").first).to_have_text("maria.keller")
    await page.get_by_label("By", exact=True).select_option("stage")
    await expect(users.get_by_role("rowheader")).to_have_text(["consolidate", "gate"])
    await page.get_by_label("In the last").select_option("7")
    await ready(visit)
    await expect(part(page, "Service tokens")).to_contain_text("There is no token yet")
    assert CANARY not in await page.content()
    # Usage leads to the settings of a space.
    await by_space.get_by_role("button", name="Settings of support").click()
    form = page.get_by_role("form", name="Settings of support")
    await expect(form.get_by_label("Language model", exact=True)).to_have_value("openai:gpt-4.1")
    await visit.axe_in_both()


async def test_loading_errors_and_retry(open_page: Open, site: Site) -> None:
    company = Company.new(site)
    held = site.faults.hold("GET", "/v1/admin/runs", times=1)
    for path in ("overview", "spaces", "roots", "usage", "usage/spaces", "tokens"):
        site.faults.fail("GET", f"/v1/admin/{path}", detail="the database is away", times=1)
    visit = await company.visit(open_page)
    page = visit.page
    await held.arrived.wait()
    await expect(page.locator("#runs [data-body]")).to_have_attribute("aria-busy", "true")
    await expect(page.locator("#runs .skeleton").first).to_be_visible()
    again = page.get_by_role("button", name="Try again")
    await expect(again).to_have_count(6)
    await expect(page.get_by_role("alert").first).to_contain_text("Company could not be loaded. The database is away.")
    await visit.axe_in_both()
    held.release()
    await expect(part(page, "Failed runs")).to_contain_text("Nothing failed")
    for left in range(5, -1, -1):
        await again.first.click()
        await expect(again).to_have_count(left)
    await ready(visit)
    await expect(part(page, "Spaces")).to_contain_text("all of them follow the defaults")
    await expect(part(page, "Memory roots")).to_contain_text("There is no root yet")
    await expect(page.get_by_role("region", name="By space")).to_contain_text("No turn was recorded")


async def test_settings_of_a_space_from_the_default_to_saved(open_page: Open, site: Site) -> None:
    company = Company.new(site)
    visit = await company.visit(open_page)
    page = await ready(visit)
    form = await open_form(page, "sales/emea")
    await expect(page.get_by_role("heading", name="Settings of sales/emea")).to_be_focused()
    # What the contract says, hidden fields left out.
    memory = form.get_by_role("switch", name="Context memory")
    await expect(memory).to_have_attribute("aria-checked", "true")
    await expect(form.get_by_label("Size of a person's memory, in tokens")).to_have_attribute("placeholder", "2000")
    await expect(form.get_by_role("switch")).to_have_count(12)
    await expect(form.get_by_label("Language model", exact=True)).to_be_hidden()
    assert "root_folder" not in await form.inner_html()
    own = form.get_by_role("switch", name="Write memory with the model that answered")
    await own.press("Space")
    await expect(form.get_by_label("Language model", exact=True)).to_be_visible()
    await expect(form.get_by_role("status")).to_have_text("Unsaved changes")
    await own.press("Space")
    await form.get_by_role("button", name="Use the default of Write memory").click()
    await expect(form.get_by_role("status")).to_have_text("")

    # Leaving asks.
    await form.get_by_label("Size of a person's memory, in tokens").fill("900")
    await form.get_by_role("switch", name="Tasks").click()
    await form.get_by_role("button", name="Close").click()
    await page.get_by_role("dialog", name="Discard the changes?").get_by_role("button", name="Keep editing").click()
    asked: list[str] = []

    async def stay(dialog: Dialog) -> None:
        asked.append(dialog.type)
        await dialog.dismiss()

    page.once("dialog", stay)
    await page.close(run_before_unload=True)
    await until(lambda: asked == ["beforeunload"])

    # Saving, saved, and the root is there.
    held = site.faults.hold("PATCH", "/v1/admin/spaces/.*", times=1)
    save = form.get_by_role("button", name="Save")
    await save.click()
    await held.arrived.wait()
    await expect(form.get_by_role("status")).to_have_text("Saving…")
    await expect(save).to_have_attribute("aria-disabled", "true")
    held.release()
    await expect(form.get_by_role("status")).to_contain_text("Saved at")
    await expect(save).to_be_focused()
    record = await site.stack.parts.directory.space(company.tenant, "sales/emea")
    assert record is not None
    assert (record.max_tokens, {one.value: on for one, on in record.memory_categories.items()}) == (900, {"tasks": True})
    await expect(part(page, "Memory roots").get_by_role("rowheader")).to_have_text(["user-memory"])
    await expect(part(page, "Spaces").get_by_role("rowheader")).to_have_text(["sales/emea"])


async def test_what_cannot_be_saved_stays_in_the_form(open_page: Open, site: Site) -> None:
    company = Company.new(site)
    visit = await company.visit(open_page)
    page = await ready(visit)
    form = await open_form(page, "default")
    size = form.get_by_label("Size of a person's memory, in tokens")
    await size.fill("90")
    await form.get_by_role("button", name="Save").click()
    await expect(size).to_be_focused()
    await expect(size).to_have_attribute("aria-invalid", "true")
    await expect(form.locator("#space-max_tokens-error")).to_contain_text("500")
    await expect(form.get_by_role("status")).to_have_text("Not saved")
    await visit.axe_in_both()
    await size.fill("900")
    site.faults.fail("PATCH", "/v1/admin/spaces/.*", detail="the database is away", times=1)
    await form.get_by_role("button", name="Save").click()
    await expect(form.get_by_role("alert")).to_contain_text("The database is away. What you entered is still here.")
    await expect(size).to_have_value("900")
    site.faults.lose_answer("PATCH", "/v1/admin/spaces/.*")
    await form.get_by_role("button", name="Try again").click()
    await expect(form.get_by_role("alert")).to_contain_text("The server cannot be reached")
    # It had been stored: the next try is told so, as a conflict that holds nothing of anybody else.
    await form.get_by_role("button", name="Try again").click()
    await page.get_by_role("button", name="Save my changes on top").click()
    await expect(form.get_by_role("status")).to_contain_text("Saved at")


async def test_two_administrators(open_page: Open, site: Site) -> None:
    company = Company.new(site)
    await company.space("default", max_tokens=2400)
    visit = await company.visit(open_page)
    page = await ready(visit)
    form = await open_form(page, "default")
    await form.get_by_role("switch", name="Web search").click()
    await form.get_by_label("Size of a person's memory, in tokens").fill("1000")
    await company.space("default", max_tokens=3000, privacy_scrub=True)
    await form.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("heading", name="Somebody else saved these settings meanwhile")).to_be_focused()
    row = form.get_by_role("row").filter(has_text="Size of a person's memory")
    await expect(row.get_by_role("cell")).to_have_text(["2400", "3000", "1000"])
    await expect(form).to_contain_text("Both of you changed: Size of a person's memory, in tokens.")
    await visit.axe_in_both()
    await form.get_by_role("button", name="Save my changes on top").click()
    await expect(form.get_by_role("status")).to_contain_text("Saved at")
    saved = await site.stack.parts.directory.space(company.tenant, "default")
    assert saved is not None
    assert (saved.max_tokens, saved.privacy_scrub, saved.web_search) == (1000, True, True)

    await form.get_by_role("switch", name="Leave other people out").click()
    await company.space("default", max_tokens=3500)
    await form.get_by_role("button", name="Save").click()
    await form.get_by_role("button", name="Take theirs").click()
    await expect(form.get_by_label("Size of a person's memory, in tokens")).to_have_value("3500")
    await expect(form.get_by_role("status")).to_have_text("")


async def test_web_search_excludes_memory_and_the_tooltip_says_so(open_page: Open, site: Site) -> None:
    company = Company.new(site)
    visit = await company.visit(open_page, size=PHONE)
    page = await ready(visit)
    assert await page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    form = await open_form(page, "default")
    await expect(form.get_by_text("Not used while web search is on")).to_have_count(0)
    await form.get_by_role("switch", name="Web search").click()
    button = form.get_by_role("button", name="Why memory is not used with web search")
    await expect(button).to_have_accessible_description(re.compile("so that what is remembered .* ALLOW_CONTEXT_MEMORY"))
    tooltip = form.get_by_role("tooltip")
    await expect(tooltip).to_be_hidden()
    # By keyboard, by touch, by mouse.
    await form.get_by_role("switch", name="Context memory").focus()
    await page.keyboard.press("Tab")
    await expect(button).to_be_focused()
    await expect(tooltip).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(tooltip).to_be_hidden()
    await button.click()
    await expect(tooltip).to_be_visible()
    box = await tooltip.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE[0]
    await visit.axe_in_both()
    await page.get_by_role("heading", name="Settings of default").click(force=True)
    await expect(tooltip).to_be_hidden()
    await form.get_by_role("switch", name="Web search").click()
    await expect(button).to_have_count(0)
    assert await page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


async def test_clashing_roots_are_put_in_order(open_page: Open, site: Site) -> None:
    company = Company.new(site)
    await company.space("default", max_tokens=900)
    await company.root("team-memory")
    await site.stack.parts.profiles.prepare(company.tenant)
    store = MinioObjectStore.from_settings(site.stack.settings)
    await store.put(site.stack.parts.profiles.bucket(company.tenant), "user-memory/somebody/memory.md", b"# User Memory\n")
    await store.aclose()
    visit = await company.visit(open_page)
    page = await ready(visit)
    banner = page.locator("#clash")
    await expect(banner).to_contain_text("The company has 2 active memory roots, so memory is off for everybody")
    await expect(banner).to_contain_text("holds profiles")
    await visit.axe_in_both()
    await banner.get_by_role("button", name="Keep team-memory").click()
    dialog = page.get_by_role("dialog", name="Keep only team-memory?")
    await expect(dialog).to_contain_text("would begin with an empty memory")
    await dialog.get_by_role("button", name="Cancel").click()
    site.faults.fail("DELETE", "/v1/admin/roots/.*", detail="the database is away", times=1)
    for _ in range(2):
        await banner.get_by_role("button", name="Keep user-memory").click()
        await page.get_by_role("dialog").get_by_role("button", name="Keep user-memory").click()
        await expect(banner.get_by_role("alert").or_(page.locator(".toast")).first).to_be_visible()
    await expect(banner).to_have_count(0)
    roots = part(page, "Memory roots")
    await expect(roots.get_by_role("row").filter(has_text="team-memory")).to_contain_text("Out of use")

    # The only one, with profiles in it, stays.
    await roots.get_by_role("button", name="Rename user-memory").click()
    dialog = page.get_by_role("dialog", name="Rename user-memory")
    await dialog.get_by_label("New name").fill("elsewhere")
    await dialog.get_by_role("button", name="Rename").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("its profiles would no longer be found")
    await dialog.get_by_role("button", name="Cancel").click()
    await roots.get_by_role("button", name="Use again team-memory").click()
    await expect(roots.get_by_role("alert")).to_contain_text("a second one would switch memory off")


async def test_processes_with_other_flags_are_named(open_page: Open, site: Site) -> None:
    company = Company.new(site)
    processes, now = site.stack.parts.processes, datetime.now(UTC)
    await processes.seen(Process("worker@alpha-71", "worker", "0.1.0", now, now, {"feature_flag": False}))
    await processes.seen(Process("api@beta-12", "api", "0.1.0", now, now, {"feature_flag": [company.tenant, "globex"]}))
    visit = await company.visit(open_page)
    page = await ready(visit)
    warning = page.locator("#differences")
    await expect(warning).to_contain_text("FEATURE_FLAG_ENABLE_CONTEXT_MEMORY_UN_22033")
    await expect(warning).to_contain_text("on in api@beta-12")
    await expect(warning).to_contain_text("off in worker@alpha-71")
    await expect(part(page, "Company").get_by_role("row")).to_have_count(3)
    assert "globex" not in await page.content()
    await visit.axe_in_both()
    for process in ("worker@alpha-71", "api@beta-12"):
        await processes.gone(process)


async def test_why_is_it_off(open_page: Open, site: Site) -> None:
    company = Company.new(site)
    await company.space("research", web_search=True, context_memory=False)
    await site.stack.parts.directory.set_preference(Scope.of(company.tenant, "maria"), allow_user_memory=False)
    visit = await company.visit(open_page)
    page = await ready(visit)
    why = part(page, "Why is memory off?")
    await why.get_by_role("button", name="Find out").click()
    await expect(why.get_by_role("status")).to_contain_text("Memory is on for everybody who allows it in the space default.")
    await why.get_by_label("Space").fill("research")
    await why.get_by_label("User id").fill("maria")
    await why.get_by_label("The assistant sends the person's consent").uncheck()
    await why.get_by_label("User id").press("Enter")
    reasons = why.get_by_role("listitem")
    await expect(reasons).to_have_count(4)
    assert [await one.get_attribute("data-code") for one in await reasons.all()] == [
        "space_off",
        "web_search_on",
        "user_opted_out",
        "caller_not_allowed",
    ]
    await visit.axe_in_both()


async def test_failed_runs_are_run_again(open_page: Open, site: Site) -> None:
    company = Company.new(site)
    await company.lively()
    visit = await company.visit(open_page)
    page = await ready(visit)
    runs = part(page, "Failed runs")
    row = runs.get_by_role("row").filter(has_text="turn-4711")
    link = row.get_by_role("link", name="Temporal Web UI: turn turn-4711")
    assert (await link.get_attribute("href") or "").startswith(
        "http://temporal.test/ui/namespaces/default/workflows/post-answer%2F"
    )
    site.faults.fail("POST", "/v1/admin/runs/rerun", detail="the database is away", times=1)
    await row.get_by_role("button", name="Run again").click()
    await expect(runs.get_by_role("alert")).to_contain_text("The database is away")
    await row.get_by_role("button", name="Run again").click()
    await expect(row).to_contain_text("Runs again")
    await runs.get_by_role("button", name="Run all again").click()
    await page.get_by_role("dialog").get_by_role("button", name="Run all again").click()
    await expect(page.locator(".toast")).to_contain_text("1 turn and 1 window run again")


async def test_tokens_are_made_shown_once_and_revoked(open_page: Open, site: Site) -> None:
    company = Company.new(site)
    visit = await company.visit(open_page)
    page = await ready(visit)
    tokens = part(page, "Service tokens")
    await tokens.get_by_role("button", name="New token").click()
    dialog = page.get_by_role("dialog", name="New service token")
    await dialog.get_by_role("button", name="Make the token").click()
    await expect(dialog.get_by_role("alert")).to_have_text("Say what the token is for.")
    await visit.axe_in_both()
    await dialog.get_by_label("What it is for").fill("the chat backend")
    await dialog.get_by_label("export and delete everything of a user").check()
    await dialog.get_by_role("button", name="Make the token").click()
    text = tokens.get_by_label("The token", exact=True)
    secret = await text.input_value()
    assert secret.startswith("aft_")
    await tokens.get_by_role("button", name="Done, hide it").click()
    assert secret not in await page.content()
    await expect(tokens.get_by_role("row").filter(has_text="the chat backend")).to_contain_text("read, write, forget")
    await tokens.get_by_role("button", name="Revoke the chat backend").click()
    await page.get_by_role("dialog", name="Revoke the chat backend?").get_by_role("button", name="Revoke").click()
    await expect(tokens.get_by_role("row").filter(has_text="the chat backend")).to_contain_text("revoked")


async def test_a_person_who_is_no_administrator_is_told_so(open_page: Open, site: Site) -> None:
    visit = await open_page(site.stack.user(), "/admin", go=False)
    answer = await visit.page.goto("/admin")
    assert answer is not None
    assert answer.status == 403
    await expect(visit.page.get_by_role("heading", name="This page is for administrators")).to_be_visible()
    assert not [url for url in visit.asked if "/v1/admin" in url]
    await visit.axe_in_both()
    anonymous = await site.http.get("/admin", follow_redirects=False)
    assert (anonymous.status_code, anonymous.headers["location"]) == (303, "/login?next=/admin")
