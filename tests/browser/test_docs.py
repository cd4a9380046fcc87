"""The API's documentation and the pages around a sign-in, in a real browser."""

from __future__ import annotations

from playwright.async_api import expect

from tests.browser.site import ON_ONE_LOOP, Open, Site

pytestmark = ON_ONE_LOOP


async def test_the_documentation_is_read_and_tried_from_this_server_alone(site: Site, open_page: Open) -> None:
    """The window's own checks see to it that nothing comes from elsewhere and the policy holds."""
    scope = site.stack.user("ada")
    visit = await open_page(scope, "/docs#/preference/set_preference")
    operation = visit.page.locator("#operations-preference-set_preference")
    await operation.get_by_role("button", name="Try it out").click()
    await operation.get_by_role("button", name="Execute").click()
    # It changes something, so it has to name the session's token.
    await expect(operation.locator(".live-responses-table .response .response-col_status").first).to_contain_text("200")
    await expect(visit.page.get_by_role("heading", name="afterturn")).to_be_visible()


async def test_signing_out_leads_to_a_page_that_says_so(site: Site, open_page: Open) -> None:
    visit = await open_page(site.stack.user("ada"), "/settings")
    page = visit.page
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("heading", name="Signed out")).to_be_visible()
    await visit.axe_in_both()
    await page.goto("/settings")
    await expect(page.get_by_role("heading", name="Signing in is not set up here")).to_be_visible()
    await visit.axe_in_both()
