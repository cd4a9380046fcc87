"""The settings page as a person uses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from playwright.async_api import Locator, Page, expect

from memory.model.scope import Scope
from tests.browser.site import Site, Visit

BODY: Final = "# User Memory\n\n## Identity\n- Anna Berger, product manager\n- Lives in Vienna\n"


@dataclass
class SettingsPage:
    """``visit``: the window that it is in."""

    visit: Visit

    @property
    def page(self) -> Page:
        return self.visit.page

    @property
    def text(self) -> Locator:
        return self.page.get_by_label("Edit as text")

    @property
    def save(self) -> Locator:
        return self.page.get_by_role("button", name="Save", exact=True)

    @property
    def saved_state(self) -> Locator:
        return self.page.locator("#save-state")

    async def state(self, name: str) -> None:
        """Wait until the editor is in this state."""
        await expect(self.page.locator("#memory")).to_have_attribute("data-state", name)

    async def settled(self) -> None:
        """Wait until the page asks the server for nothing more."""
        await self.page.wait_for_load_state("networkidle")

    async def write(self, text: str) -> None:
        """Put this into the editor in place of what is there."""
        await self.text.fill(text)

    async def add_line(self, line: str) -> None:
        """Type a bullet under the first section, as a person would."""
        text = await self.text.input_value()
        place = text.index("## Identity\n") + len("## Identity\n")
        await self.text.evaluate("(field, at) => { field.focus(); field.setSelectionRange(at, at); }", place)
        await self.page.keyboard.insert_text(f"- {line}\n")

    async def section(self, title: str) -> str:
        """What the preview shows of a section."""
        return await self.page.locator(f'#preview [data-section="{title}"] .preview-body').inner_text()


async def with_memory(site: Site, text: str = BODY) -> Scope:
    """A new user with a memory in one version."""
    scope = site.stack.user()
    saved = await site.stack.memory.edit_profile(scope, text, expected_etag=None)
    assert saved.saved
    return scope


async def versions(site: Site, scope: Scope) -> list[str]:
    """What wrote each version, newest first."""
    return [str(version.cause) for version in await site.stack.memory.history(scope)]
