"""The pages in a real browser: Debian's Chromium, the API over the real stack, one of each per test module.

Tests of this folder run on one event loop per module: ``pytestmark = ON_ONE_LOOP``.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright
from temporalio.client import Client

from memory.settings import Settings, load_settings
from starter.engines import S3Server, TemporalServer
from starter.payloads import IN_CLEAR
from tests.browser.site import CHROMIUM_OPTIONS, Open, Site, Visit, find_chromium, opening
from tests.support.api import served_api
from tests.support.engines import unique_bucket_prefix
from tests.support.faulty_app import Faults
from tests.support.stack import GENEROUS, running_stack

StartSite = Callable[..., AbstractAsyncContextManager[Site]]


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Where Chromium is. Without it the tests of the pages are skipped, except where everything has to be there."""
    found = find_chromium()
    if found is None:
        missing = "there is no Chromium on this machine: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(chromium_path: str) -> AsyncIterator[Browser]:
    """A running Chromium for the tests of a module; each test opens windows of its own."""
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=chromium_path, **CHROMIUM_OPTIONS)
        yield started
        await started.close()


@pytest.fixture(scope="module")
def start_site(s3_server: S3Server, temporal_server: TemporalServer, tmp_path_factory: pytest.TempPathFactory) -> StartSite:
    """``async with start_site(**options) as site``: the API over a stack of its own. Options: ``model``, ``workers``, ``parts``,
    and settings."""

    @asynccontextmanager
    async def start(*, model: Any = None, workers: bool = True, parts: Any = None, **overrides: Any) -> AsyncGenerator[Site]:
        settings: Settings = load_settings(
            {},
            **{
                **GENEROUS,
                "data_dir": tmp_path_factory.mktemp("site"),
                "bucket_prefix": unique_bucket_prefix(),
                "embedder": "none",
                **s3_server.settings,
                **overrides,
            },
        )
        client = await Client.connect(temporal_server.address, data_converter=IN_CLEAR)
        faults = Faults()
        async with (
            running_stack(client, settings, model=model, workers=workers, parts=parts) as stack,
            served_api(stack, around=faults.around) as api,
        ):
            yield Site(api.base, stack, faults, api.http)

    return start


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_site(start_site: StartSite) -> AsyncIterator[Site]:
    async with start_site() as running:
        yield running


@pytest.fixture
def site(shared_site: Site) -> Iterator[Site]:
    """The module's server, without faults of an earlier test."""
    shared_site.faults.clear()
    yield shared_site
    shared_site.faults.clear()


@pytest_asyncio.fixture(loop_scope="module")
async def open_page(browser: Browser, site: Site) -> AsyncIterator[Open]:
    """``visit = await open_page(scope, "/settings")``: a window of that person. At the end every window must have kept to this
    server and to the Content-Security-Policy, and no script may have failed."""
    visits: list[Visit] = []
    yield opening(browser, site, visits)
    for visit in visits:
        await visit.context.close()
    for visit in visits:
        visit.check()
