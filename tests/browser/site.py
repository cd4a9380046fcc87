"""What tests of the pages work with: the served site, windows of people in it, checks of accessibility."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol
from urllib.parse import urlsplit

import httpx2
import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect

from memory.model.scope import Scope
from tests.support.api import sign_in_path
from tests.support.faulty_app import Faults
from tests.support.stack import Stack

ON_ONE_LOOP: Final = pytest.mark.asyncio(loop_scope="module")
CHROMIUM_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_OPTIONS: Final[dict[str, Any]] = {
    "headless": True,
    "args": [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ],
}
PHONE: Final = (390, 844)
DESKTOP: Final = (1280, 900)
WAIT_MS: Final = 20_000

expect.set_options(timeout=WAIT_MS)


def find_chromium() -> str | None:
    return next((found for name in CHROMIUM_NAMES if (found := shutil.which(name))), None)


@dataclass
class Site:
    """``base``: its address; ``http``: a client without a browser; ``faults``: what goes wrong in the server."""

    base: str
    stack: Stack
    faults: Faults
    http: httpx2.AsyncClient


@dataclass
class Visit:
    """A window of one person, and what went on in it."""

    site: Site
    context: BrowserContext
    page: Page
    said: list[str] = field(default_factory=list)
    """What scripts and the browser wrote to the console as errors and warnings."""
    failed: list[str] = field(default_factory=list)
    """Exceptions of scripts."""
    asked: list[str] = field(default_factory=list)
    """Addresses of all requests."""

    def check(self) -> None:
        """Fails the test for what no page may ever do."""
        host = urlsplit(self.site.base).netloc
        foreign = [url for url in self.asked if not url.startswith(("data:", "blob:")) and urlsplit(url).netloc != host]
        assert not foreign, f"the page asked other hosts: {foreign}"
        assert not self.failed, f"a script failed: {self.failed}"
        refused = [text for text in self.said if "Content Security Policy" in text or "Content-Security-Policy" in text]
        assert not refused, f"the page broke its own policy: {refused}"

    async def axe(self, *, rules: Sequence[str] | None = None) -> None:
        """No serious or critical finding, in the colours that the window has. ``rules``: only these."""
        options = {"resultTypes": ["violations"], **({} if rules is None else {"runOnly": list(rules)})}
        result = await Axe().run(self.page, options=options)
        grave = [one for one in result.response["violations"] if one["impact"] in {"serious", "critical"}]
        told = [f"{one['id']}: {one['help']}: {[node['target'] for node in one['nodes'][:3]]}" for one in grave]
        assert not told, "\n".join(told)

    async def axe_in_both(self) -> None:
        """As it is, and in the other colours: of the rules only contrast depends on them."""
        await self.axe()
        dark = await self.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
        await self.page.emulate_media(color_scheme="light" if dark else "dark")
        await self.axe(rules=["color-contrast"])
        await self.page.emulate_media(color_scheme="dark" if dark else "light")


class Open(Protocol):
    def __call__(
        self,
        scope: Scope,
        path: str = "/settings",
        *,
        admin: bool = False,
        size: tuple[int, int] = DESKTOP,
        scheme: Literal["light", "dark"] = "light",
        beside: Visit | None = None,
        go: bool = True,
    ) -> Awaitable[Visit]: ...


def opening(browser: Browser, site: Site, visits: list[Visit]) -> Open:
    """See the fixture ``open_page``. ``beside``: a second tab of that window's person. ``go=False``: the page is not loaded yet."""

    async def open_(
        scope: Scope,
        path: str = "/settings",
        *,
        admin: bool = False,
        size: tuple[int, int] = DESKTOP,
        scheme: Literal["light", "dark"] = "light",
        beside: Visit | None = None,
        go: bool = True,
    ) -> Visit:
        if beside is None:
            context = await browser.new_context(
                base_url=site.base,
                viewport={"width": size[0], "height": size[1]},
                color_scheme=scheme,
                reduced_motion="reduce",
                locale="en-GB",
                timezone_id="UTC",
            )
            context.set_default_timeout(WAIT_MS)
            await sign_in(context, site, scope, admin=admin)
        else:
            context = beside.context
        page = await context.new_page()
        visit = Visit(site, context, page)
        _watch(page, visit)
        visits.append(visit)
        if go:
            await page.goto(path)
        return visit

    return open_


async def sign_in(context: BrowserContext, site: Site, scope: Scope, *, admin: bool) -> None:
    """A session of that person in this window."""
    assert scope.user_id is not None
    link = sign_in_path(scope, "/healthz", role="admin" if admin else "user")
    answer = await context.request.get(site.base + link)
    assert answer.ok, answer.status


def _watch(page: Page, visit: Visit) -> None:
    def console(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            visit.said.append(message.text)

    def request(one: Request) -> None:
        visit.asked.append(one.url)

    page.on("console", console)
    page.on("request", request)
    page.on("pageerror", lambda error: visit.failed.append(str(error)))


def texts(found: Sequence[str]) -> list[str]:
    """Without blanks around them."""
    return [one.strip() for one in found]
