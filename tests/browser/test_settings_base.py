"""The shell of the settings page: who gets it, what it is made of."""

from __future__ import annotations

from tests.browser.site import ON_ONE_LOOP, Open, Site
from tests.support.api import as_service

pytestmark = ON_ONE_LOOP


async def test_the_page_opens_for_a_person(open_page: Open, site: Site) -> None:
    visit = await open_page(site.stack.user())
    assert await visit.page.title() == "Context Memory · afterturn"
    await visit.page.get_by_role("heading", name="Context Memory", level=1).wait_for()
    await visit.axe_in_both()


async def test_nobody_is_sent_to_sign_in_and_services_have_no_pages(site: Site) -> None:
    answer = await site.http.get("/settings", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/settings")
    assert (await site.http.get("/settings", headers=as_service("acme", "someone"))).status_code == 403
