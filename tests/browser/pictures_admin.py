"""Takes the pictures of the admin page in docs/img, outside of the suite: ``pytest tests/browser/pictures_admin.py``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest_asyncio
from playwright.async_api import Page, expect

from memory.model.scope import Scope
from memory.ports.service import Process
from memory.stores.objects.minio import MinioObjectStore
from tests.browser.admin_company import Company
from tests.browser.conftest import StartSite
from tests.browser.site import DESKTOP, ON_ONE_LOOP, PHONE, Open, Site

IMAGES = Path(__file__).parents[2] / "docs" / "img"
pytestmark = ON_ONE_LOOP


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_site(start_site: StartSite) -> AsyncIterator[Site]:
    async with start_site(workers=False, temporal_ui_url="http://temporal.test/ui") as running:
        yield running


async def test_pictures(open_page: Open, site: Site) -> None:
    company = Company(site, "acme", Scope.of("acme", "ada.admin"))
    await company.lively()

    async def go(**look: Any) -> Page:
        page = (await company.visit(open_page, **look)).page
        await expect(page.locator("[aria-busy=true], .skeleton")).to_have_count(0)
        await expect(page.locator("#tokens [data-body] > *").first).to_be_visible()
        return page

    async def take(page: Page, name: str, *, at: str | None = None) -> None:
        if at is not None:
            await page.locator(at).evaluate("(part) => { part.scrollIntoView(); window.scrollBy(0, -76); }")
        await page.screenshot(path=IMAGES / f"admin-{name}.png")

    async def research(page: Page) -> None:
        await page.get_by_role("button", name="Settings of research").first.click()
        await page.get_by_role("heading", name="Settings of research").wait_for()

    page = await go(size=DESKTOP, scheme="light")
    await research(page)
    await page.get_by_role("button", name="Why memory is not used with web search").click()
    await take(page, "space-desktop-light", at="#space")
    page = await go(size=PHONE, scheme="dark")
    await research(page)
    await take(page, "space-phone-dark", at="#space")
    await take(await go(size=DESKTOP, scheme="dark"), "runs-desktop-dark", at="#runs")
    await take(await go(size=PHONE, scheme="light"), "runs-phone-light", at="#runs")

    await company.root("team-memory")
    await site.stack.parts.profiles.prepare(company.tenant)
    store = MinioObjectStore.from_settings(site.stack.settings)
    await store.put(site.stack.parts.profiles.bucket(company.tenant), "user-memory/somebody/memory.md", b"# User Memory\n")
    await store.aclose()
    now = datetime.now(UTC)
    for name, flag in (("worker@alpha-71", True), ("worker@beta-12", False), ("api@gamma-8", True)):
        kind = "api" if name.startswith("api") else "worker"
        await site.stack.parts.processes.seen(Process(name, kind, "0.1.0", now, now, {"feature_flag": flag}))
    await take(await go(size=DESKTOP, scheme="light"), "warnings-desktop-light")
