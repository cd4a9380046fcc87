"""Takes the pictures of the settings page in docs/img, outside of the suite: ``pytest tests/browser/pictures_settings.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.async_api import expect

from memory.model.scope import Scope
from tests.browser.settings_page import SettingsPage
from tests.browser.site import DESKTOP, ON_ONE_LOOP, PHONE, Open, Site
from tests.browser.test_settings_records import remembered

IMAGES = Path(__file__).parents[2] / "docs" / "img"
FIRST = """## Identity
- Anna Berger, product manager at Acme in Vienna
- Speaks German and English; time zone Europe/Vienna

## Communication Preferences
- Short answers first, details when asked
- Tables rather than long lists

## Work Context
- Launches **Atlas** in September 2026
  - Budget is approved until December
- Weekly review with the design team on Mondays

## Skills & Expertise
- SQL, Figma; learning Python

## Recent Topics
- 2026-06-16 09:12 UTC: pricing of the Globex offer

## Follow-ups
- Send the offer to Globex by Friday
"""
THEIRS = FIRST.replace("product manager", "head of product").replace("- Send the offer to Globex by Friday\n", "")
MINE = FIRST.replace("in Vienna", "in Graz").replace("learning Python", "learning Python and dbt")
pytestmark = ON_ONE_LOOP


async def test_pictures(open_page: Open, site: Site) -> None:
    me = Scope.of("acme", "anna.berger")
    saved = await site.stack.memory.edit_profile(me, FIRST, expected_etag=None)
    await remembered(site, me)
    await site.stack.memory.add_facts(
        me, [{"statement": "The launch of Atlas was moved to September.", "kind": "decision", "subject": "Atlas"}]
    )

    async def go(**look: Any) -> SettingsPage:
        page = SettingsPage(await open_page(me, **look))
        await page.state("ready")
        await expect(page.page.locator(".skeleton:visible")).to_have_count(0)
        await page.settled()
        return page

    async def take(page: SettingsPage, name: str, *, at: str | None = None) -> None:
        if at is not None:
            await page.page.locator(at).evaluate("(part) => { part.scrollIntoView(); window.scrollBy(0, -8); }")
        size = page.page.viewport_size or {"width": 0, "height": 0}
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 760)}
        await page.page.screenshot(path=IMAGES / f"settings-{name}.png", clip=clip)

    page = await go(size=DESKTOP, scheme="light")
    await page.add_line("Plays the cello")
    await expect(page.page.locator("#preview")).to_contain_text("cello")
    await page.page.evaluate("scrollTo(0, 0)")
    await take(page, "editor-desktop-light")
    page = await go(size=PHONE, scheme="dark")
    await take(page, "editor-phone-dark", at="#memory")

    page = await go(size=DESKTOP, scheme="dark")
    for shown in await page.page.get_by_text("Where this comes from").all():
        await shown.click()
    await expect(page.page.locator("blockquote").first).to_be_visible()
    await take(page, "remembered-desktop-dark", at="#remembered")
    page = await go(size=PHONE, scheme="light")
    await take(page, "remembered-phone-light", at="#remembered")
    await page.page.get_by_role("button", name="Delete everything…").click()
    await take(page, "delete-phone-light")

    page = await go(size=DESKTOP, scheme="light")
    phone = await go(size=PHONE, scheme="dark")
    for one in (page, phone):
        await one.write(MINE)
    await site.stack.memory.edit_profile(me, THEIRS, expected_etag=saved.etag)
    for one, name in ((page, "conflict-desktop-light"), (phone, "conflict-phone-dark")):
        await one.save.click()
        await one.state("conflict")
        await expect(one.page.locator("#conflict ins").first).to_be_visible()
        await take(one, name, at="#conflict")

    page = await go(size=DESKTOP, scheme="dark")
    await page.page.get_by_role("button", name="Show differences between version 1 and now").click()
    await expect(page.page.locator("#version-1 ins").first).to_be_visible()
    await take(page, "history-desktop-dark", at="#history")
