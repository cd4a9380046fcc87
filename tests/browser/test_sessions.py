"""Pages that outlive their sign-in, and pages on very small screens."""

from __future__ import annotations

from typing import Final

import pytest
from playwright.async_api import Page, expect

from tests.browser.settings_page import BODY, SettingsPage, versions, with_memory
from tests.browser.site import ON_ONE_LOOP, PHONE, Open, Site, sign_in

pytestmark = ON_ONE_LOOP

SMALL: Final = (320, 640)  # 1280 pixels at 400 %
OVERLAPS: Final = """() => {
  const shown = [...document.querySelectorAll('.comparison tbody tr')].filter((row) => row.offsetHeight > 1);
  return shown.filter((row, at) => at > 0 && row.getBoundingClientRect().top < shown[at - 1].getBoundingClientRect().bottom - 1
    || [...row.cells].some((cell) => cell.offsetHeight && cell.scrollHeight > cell.clientHeight + 1)).length;
}"""


async def come_back(page: Page) -> None:
    """As when a person returns from another tab."""
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


async def test_a_sign_in_that_ended_is_renewed_and_the_text_is_saved(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    page = SettingsPage(await open_page(me, size=PHONE))
    await page.state("ready")
    await page.add_line("Written as the sign-in ended")
    await page.visit.context.clear_cookies()
    await page.save.click()
    await page.state("save-error")
    bar = page.page.locator("#sign-in")
    await expect(bar).to_contain_text("Your sign-in has ended")
    await expect(bar.get_by_role("link", name="Sign in again")).to_have_attribute("href", "/login?next=%2Fsettings")
    await expect(page.page.locator("#save-problem")).to_be_in_viewport()
    await page.visit.axe_in_both()

    await sign_in(page.visit.context, site, me, admin=False)
    await come_back(page.page)
    await expect(bar).to_be_hidden()
    await page.page.get_by_role("button", name="Try again").click()
    await page.state("saved")
    assert await versions(site, me) == ["edit", "edit"]

    # Somebody else in the same browser: nothing of theirs is shown here, and nothing of this page becomes theirs.
    other = await with_memory(site, BODY.replace("Vienna", "Graz"))
    await page.add_line("Not for somebody else")
    await sign_in(page.visit.context, site, other, admin=False)
    await come_back(page.page)
    await expect(bar).to_contain_text("Somebody else is signed in")
    await page.save.click()
    await page.state("save-error")
    await expect(page.page.locator("#save-problem")).to_contain_text("Somebody else is signed in")
    assert await versions(site, other) == ["edit"]
    assert "Graz" not in await page.page.content()
    await page.page.evaluate("sessionStorage.clear()")
    page.page.on("dialog", lambda dialog: dialog.accept())
    await bar.get_by_role("button", name="Reload the page").click()
    await page.state("ready")
    await expect(page.text).to_have_value((await site.stack.profile(other)).body)


async def test_rows_of_a_comparison_grow_with_their_lines(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    stored = await site.stack.profile(me)
    longer = BODY.replace("Vienna", "Vienna, in the street behind the old market, on the third floor of a house with a garden")
    await site.stack.memory.edit_profile(me, longer, expected_etag=stored.etag)
    page = SettingsPage(await open_page(me, size=PHONE))
    await page.state("ready")
    await page.page.get_by_role("button", name="Show differences between version 1 and now").click()
    await expect(page.page.locator(".comparison .added-side").first).to_be_visible()
    assert await page.page.evaluate(OVERLAPS) == 0


@pytest.mark.parametrize("path", ["/settings", "/admin"])
async def test_nothing_is_wider_than_a_very_small_screen(open_page: Open, site: Site, path: str) -> None:
    me = await with_memory(site, BODY + "- " + "W" * 300 + "\n")
    await site.stack.memory.add_facts(me, ["V" * 300])
    visit = await open_page(me, path, admin=True, size=SMALL)
    await expect(visit.page.locator(".skeleton:visible")).to_have_count(0)
    assert await visit.page.evaluate("document.documentElement.scrollWidth") <= SMALL[0]


async def test_the_address_alone_leads_to_ones_own_page(open_page: Open, site: Site) -> None:
    visit = await open_page(site.stack.user(), "/")
    await expect(visit.page).to_have_url(site.base + "/settings")
