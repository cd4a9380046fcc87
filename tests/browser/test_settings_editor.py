"""The editor of the settings page: every state of it, with the server slow, failing and lost."""

from __future__ import annotations

from playwright.async_api import Dialog, expect

from memory.model.headings import SECTIONS
from tests.browser.settings_page import BODY, SettingsPage, versions, with_memory
from tests.browser.site import ON_ONE_LOOP, Open, Site

pytestmark = ON_ONE_LOOP

FILL = "(field, text) => { field.value = text; field.dispatchEvent(new Event('input', { bubbles: true })); }"
ROOT_CLASH = {"code": "root_clash", "message": "the company has 2 active memory roots", "remedy": "an administrator removes one"}


async def test_loading_then_ready(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    held = site.faults.hold("GET", "/v1/profile")
    visit = await open_page(me)
    page = SettingsPage(visit)
    await held.arrived.wait()
    await page.state("loading")
    await expect(page.page.locator("#memory")).to_have_attribute("aria-busy", "true")
    await expect(page.page.get_by_role("status").first).to_have_text("Loading your memory…")
    await expect(page.text).to_be_hidden()
    await visit.axe_in_both()
    held.release()

    await page.state("ready")
    await expect(page.text).to_have_value((await site.stack.profile(me)).body)
    await expect(page.page.locator("#memory-version")).to_contain_text("Version 1")
    await expect(page.page.locator("#memory-version")).to_contain_text("Edited by you")
    for title, shown in (("Identity", "Anna Berger"), ("Follow-ups", "Nothing here yet")):
        await expect(page.page.locator(f'#preview [data-section="{title}"]')).to_contain_text(shown)
    meter = page.page.get_by_role("meter", name="Token budget")
    assert (await meter.get_attribute("aria-valuetext") or "").endswith(" %")
    await page.settled()
    await visit.axe_in_both()


async def test_empty_explains_itself_and_can_be_written(open_page: Open, site: Site) -> None:
    me = site.stack.user()
    visit = await open_page(me)
    page = SettingsPage(visit)
    await page.state("empty")
    await expect(page.page.get_by_role("heading", name="Nothing is remembered yet")).to_be_visible()
    await page.settled()
    await visit.axe_in_both()
    assert (await site.stack.profile(me)).exists is False, "reading creates nothing"

    await page.page.get_by_role("button", name="Write it yourself").click()
    await expect(page.text).to_be_focused()
    await page.add_line("Anna from Graz")
    await page.state("unsaved")
    await page.save.click()
    await page.state("saved")
    await expect(page.saved_state).to_contain_text("Saved as version 1 at")
    stored = await site.stack.profile(me)
    assert "- Anna from Graz" in stored.body
    await expect(page.text).to_have_value(stored.body)
    await expect(page.page.locator("#versions li")).to_have_count(1)


async def test_unavailable_and_error_can_be_tried_again(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    site.faults.fail("GET", "/v1/profile", times=1)
    visit = await open_page(me)
    page = SettingsPage(visit)
    await page.state("unavailable")
    notice = page.page.locator("#memory-notice")
    await expect(notice).to_contain_text("The object store is away.")
    await expect(notice).to_contain_text("Nothing is lost")
    await page.settled()
    await visit.axe_in_both()

    site.faults.fail("GET", "/v1/profile", status=500, kind="error", detail="a fault of this program; its log has more", times=1)
    await page.page.get_by_role("button", name="Try again").click()
    await page.state("error")
    await expect(notice).to_contain_text("could not be loaded")
    await visit.axe_in_both()
    await page.page.get_by_role("button", name="Try again").click()
    await page.state("ready")
    await expect(page.text).to_have_value((await site.stack.profile(me)).body)
    await expect(notice).to_be_empty()


async def test_off_says_every_reason_and_who_can_change_it(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    codes = ["feature_flag_off", "space_off", "web_search_on", "user_opted_out"]
    reasons = [{"code": code, "message": "m", "remedy": "r"} for code in codes] + [ROOT_CLASH]
    reasons.append({"code": "something_new", "message": "Told by a newer server.", "remedy": "Ask there."})
    site.faults.answer("GET", "/v1/enablement", {"active": False, "reasons": reasons})
    page = SettingsPage(await open_page(me))
    notice = page.page.locator("#off-notice")
    await expect(notice.get_by_role("listitem")).to_have_count(6)
    told = await notice.inner_text()
    for words in (
        "your company",
        "An administrator of the space",
        "web search",
        "On or off",
        "rename or remove",
        "Told by a newer",
    ):
        assert words in told
    await page.state("ready")
    await page.visit.axe_in_both()

    site.faults.fail("GET", "/v1/profile", status=409, kind="root-clash", detail=ROOT_CLASH["message"])
    await page.page.reload()
    await page.state("unavailable")


async def test_a_file_that_cannot_be_read_can_be_written_over(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    stored = await site.stack.profile(me)
    problem = {"type": "/problems/unreadable-profile", "detail": "the file has 3 MiB", "etag": stored.etag, "version": 1}
    site.faults.answer("GET", "/v1/profile", problem, status=409, media_type="application/problem+json")
    page = SettingsPage(await open_page(me))
    await expect(page.page.locator("#memory-notice")).to_contain_text("cannot be read")
    await page.add_line("Written over it")
    site.faults.clear()
    await page.save.click()
    await page.state("saved")
    assert "Written over it" in (await site.stack.profile(me)).body


async def test_unsaved_text_is_guarded_and_survives_a_reload(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    visit = await open_page(me, admin=True)
    page = SettingsPage(visit)
    await page.state("ready")
    await page.add_line("Plays the cello")
    await page.state("unsaved")
    await expect(page.saved_state).to_have_text("Unsaved changes")
    await expect(page.page.locator('#preview [data-section="Identity"]')).to_contain_text("Plays the cello")
    await page.settled()
    await visit.axe_in_both()

    # A link to another page asks; Escape and "Stay" keep everything.
    for stay in ("Escape", "Enter"):
        await page.page.get_by_role("link", name="Administration").click()
        dialog = page.page.get_by_role("dialog", name="Leave without saving?")
        await expect(dialog.get_by_role("button", name="Stay")).to_be_focused()
        await visit.axe()
        await page.page.keyboard.press(stay)
        await expect(dialog).to_be_hidden()
        await expect(page.page.get_by_role("link", name="Administration")).to_be_focused()

    # A link within the page does not.
    await page.page.get_by_role("link", name="History").click()
    await expect(page.page.get_by_role("dialog")).to_be_hidden()

    # The browser asks before a reload, and the text is there after it.
    asked: list[str] = []

    async def accept(dialog: Dialog) -> None:
        asked.append(dialog.type)
        await dialog.accept()

    page.page.on("dialog", accept)
    typed = await page.text.input_value()
    await page.page.reload()
    assert asked == ["beforeunload"]
    await page.state("unsaved")
    await expect(page.text).to_have_value(typed)
    await expect(page.page.locator("#memory-notice")).to_contain_text("Your unsaved text from before is back.")

    await page.page.get_by_role("button", name="Discard changes").click()
    await page.page.get_by_role("dialog").get_by_role("button", name="Discard changes").click()
    await page.state("ready")
    await expect(page.text).to_have_value((await site.stack.profile(me)).body)
    await page.page.reload()
    await page.state("ready")
    assert asked == ["beforeunload"], "nothing is unsaved, so nobody is asked"
    assert await versions(site, me) == ["edit"]


async def test_saving_is_shown_and_text_typed_meanwhile_stays(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    page = SettingsPage(await open_page(me))
    await page.state("ready")
    await page.add_line("First")
    held = site.faults.hold("PUT", "/v1/profile", times=1)
    await page.page.keyboard.press("Control+s")
    await held.arrived.wait()
    await page.state("saving")
    await expect(page.saved_state).to_have_text("Saving…")
    await page.visit.axe_in_both()
    await page.add_line("Second")
    await page.save.click()
    held.release()
    await page.state("unsaved")
    assert "Second" in await page.text.input_value()
    assert "Second" not in (await site.stack.profile(me)).body
    await page.save.click()
    await page.state("saved")
    await page.visit.axe_in_both()
    assert "- Second\n- First\n" in (await site.stack.profile(me)).body
    assert await versions(site, me) == ["edit", "edit", "edit"]


async def test_a_failed_save_keeps_the_text_and_can_be_tried_again(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    page = SettingsPage(await open_page(me))
    await page.state("ready")
    await page.add_line("Speaks Czech")
    typed = await page.text.input_value()
    problem = page.page.locator("#save-problem")
    ways = (
        (503, "unavailable", "the save was not confirmed", "at most"),
        (403, "forbidden", "this token may not write", "Your text is kept"),
        (401, "unauthenticated", "send a token", "Sign in again in another tab"),
        (500, "error", "a fault of this program", "Your text is kept"),
    )
    for status, kind, detail, told in ways:
        site.faults.clear()
        site.faults.fail("PUT", "/v1/profile", status=status, kind=kind, detail=detail)
        await page.save.click()
        await expect(problem).to_contain_text(told)
        await page.state("save-error")
        await expect(page.text).to_have_value(typed)
    await page.visit.axe_in_both()
    site.faults.clear()
    await problem.get_by_role("button", name="Try again").click()
    await page.state("saved")
    await expect(problem).to_be_empty()
    assert await versions(site, me) == ["edit", "edit"]


async def test_a_lost_connection_at_save_then_a_retry_is_one_version(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    page = SettingsPage(await open_page(me))
    await page.state("ready")
    await page.add_line("Has a dog")
    lost = site.faults.lose_answer("PUT", "/v1/profile")
    await page.save.click()
    await page.state("save-error")
    await expect(page.page.locator("#save-problem")).to_contain_text("It may have been saved all the same")
    assert lost.met == 1
    assert await versions(site, me) == ["edit", "edit"], "the server did save it"
    await page.page.get_by_role("button", name="Try again").click()
    await page.state("saved")
    await expect(page.saved_state).to_contain_text("Saved as version 2")
    assert await versions(site, me) == ["edit", "edit"]

    # A request that never arrives is the same to the person.
    await page.add_line("And a cat")
    await page.visit.context.set_offline(True)
    await page.save.click()
    await page.state("save-error")
    await page.visit.context.set_offline(False)
    await page.page.get_by_role("button", name="Try again").click()
    await page.state("saved")
    assert await versions(site, me) == ["edit", "edit", "edit"]


async def test_the_budget_is_counted_while_typing(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    page = SettingsPage(await open_page(me))
    await page.state("ready")
    meter = page.page.get_by_role("meter", name="Token budget")
    await page.write(BODY + "".join(f"- {'words upon words ' * 20}{n}\n" for n in range(50)))
    await expect(meter).to_have_attribute("data-level", "over")
    await expect(page.page.locator("#budget-over")).to_contain_text("shortened")
    assert "of 2,000 tokens" in (await meter.get_attribute("aria-valuetext") or "")
    await page.visit.axe_in_both()
    await page.write(BODY)
    await expect(meter).to_have_attribute("data-level", "fine")
    await expect(page.page.locator("#budget-over")).to_be_hidden()
    # A preview that cannot be made does not hinder.
    site.faults.fail("POST", "/v1/memory/preview")
    await page.write(BODY + "- my password is hunter2secret\n")
    await expect(page.page.locator("#preview-note")).to_contain_text("could not be made")
    site.faults.clear()
    await page.write(BODY + "- my password is hunter2secret!\n")
    await expect(page.page.locator("#preview-note")).to_contain_text("1 secret")
    await page.save.click()
    await page.state("saved")
    assert "hunter2secret" not in await page.text.input_value()


async def test_broken_headings_and_half_characters_keep_their_text(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    page = SettingsPage(await open_page(me))
    await page.state("ready")
    broken = "Identity:\n* Anna\n\n### Work contxt\nAtlas\n\n# Hobbies\n- cello \ud83d\n"
    await page.text.evaluate(FILL, broken)
    await expect(page.page.locator('#preview [data-section="Work Context"]')).to_contain_text("Atlas")
    await expect(page.page.locator("#preview")).to_contain_text("cello")
    await page.save.click()
    await page.state("saved")
    stored = (await site.stack.profile(me)).body
    assert [line for line in stored.splitlines() if line.startswith("## ")] == [f"## {name}" for name in SECTIONS]
    for words in ("- Anna", "- Atlas", "cello \ufffd"):
        assert words in stored
    await expect(page.text).to_have_value(stored)


async def test_one_mebibyte_is_saved_and_one_byte_more_is_not(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    page = SettingsPage(await open_page(me))
    await page.state("ready")
    head = "## Identity\n- "
    full = head + "é" * ((1024 * 1024 - len(head)) // 2)
    assert len(full.encode()) == 1024 * 1024
    site.faults.fail("POST", "/v1/memory/preview")  # the text is what this is about
    await page.text.evaluate(FILL, full + "!")
    saves = len([url for url in page.visit.asked if url.endswith("/v1/profile")])
    await page.save.click()
    await expect(page.page.locator("#document-problem")).to_contain_text("1,048,577 bytes; at most 1,048,576")
    await expect(page.text).to_have_attribute("aria-invalid", "true")
    assert len([url for url in page.visit.asked if url.endswith("/v1/profile")]) == saves, "it was not even sent"
    await page.text.evaluate(FILL, full)
    await page.save.click()
    await page.state("saved")
    assert (await site.stack.profile(me)).body.count("é") == full.count("é")


async def test_a_document_cannot_run_script_or_reach_another_host(open_page: Open, site: Site) -> None:
    attacks = (
        "<script>window.hit = 1</script>",
        "<img src=x onerror='window.hit = 1'>",
        "<svg onload='window.hit = 1'><script>window.hit = 1</script></svg>",
        "[click me](javascript:window.hit=1)",
        "![pixel](https://elsewhere.example/pixel.png)",
        "<iframe src='https://elsewhere.example/'></iframe>",
        "</textarea><script>window.hit = 1</script>",
        "</li></ul></section><style>* { display: none }</style>",
        "[out](https://elsewhere.example/)",
    )
    me = await with_memory(site, "## Identity\n" + "".join(f"- {attack} word\n" for attack in attacks))
    await site.stack.memory.add_facts(me, ["Acme says <img src=x onerror='window.hit = 1'> <script>window.hit = 1</script>"])
    visit = await open_page(me)
    page = SettingsPage(visit)
    await page.state("ready")
    preview = page.page.locator("#preview")
    await expect(preview).to_contain_text("<script>window.hit = 1</script>")
    await expect(page.page.locator("#facts")).to_contain_text("<script>window.hit = 1</script>")
    await page.write("## Identity\n- <img src=x onerror='window.hit = 1'> typed\n")
    await expect(preview).to_contain_text("<img src=x onerror='window.hit = 1'> typed")
    await page.page.get_by_role("button", name="Discard changes").click()
    await page.page.get_by_role("dialog").get_by_role("button", name="Discard changes").click()
    await expect(preview.get_by_role("link")).to_have_count(2)
    links = await preview.get_by_role("link").evaluate_all("(all) => all.map((one) => [one.getAttribute('href'), one.rel])")
    assert links == [["https://elsewhere.example/pixel.png", REL], ["https://elsewhere.example/", REL]]
    assert await preview.locator("script, img, svg, iframe, style, [onerror], [onload]").count() == 0
    await page.settled()
    assert await page.page.evaluate("window.hit") is None


REL = "noopener noreferrer nofollow"


async def test_with_the_keyboard_alone(open_page: Open, site: Site) -> None:
    me = await with_memory(site)
    page = SettingsPage(await open_page(me))
    await page.state("ready")
    keyboard = page.page.keyboard
    await keyboard.press("Tab")
    await expect(page.page.get_by_role("link", name="Skip to the content")).to_be_focused()
    await keyboard.press("Enter")
    await expect(page.page.locator("#main")).to_be_focused()

    async def tab_to(wanted: str) -> None:
        target = page.page.locator(wanted)
        for _ in range(60):
            if await target.evaluate("(one) => one === document.activeElement"):
                return
            await keyboard.press("Tab")
        raise AssertionError(f"{wanted} is not reached by Tab")

    await tab_to("#document")
    await keyboard.press("Control+Home")
    await keyboard.insert_text("- Typed by keyboard\n")
    await keyboard.press("Control+s")
    await page.state("saved")
    assert "Typed by keyboard" in (await site.stack.profile(me)).body
    await tab_to("#preview")
    await tab_to('[data-version="1"] button[aria-expanded]')
    await keyboard.press("Enter")
    await expect(page.page.locator("#version-1")).to_contain_text("Typed by keyboard")
    await tab_to("#allow")
    await keyboard.press("Space")
    await expect(page.page.locator("#allow")).to_have_attribute("aria-checked", "false")
    await tab_to("#forget")
    await keyboard.press("Enter")
    dialog = page.page.get_by_role("dialog", name="Delete everything?")
    await expect(dialog.get_by_label("To go on, type")).to_be_focused()
    await keyboard.press("Escape")
    await expect(page.page.locator("#forget")).to_be_focused()
    # Wherever the focus is, it can be seen.
    assert await page.page.locator("#forget").evaluate("(one) => getComputedStyle(one).outlineStyle") == "solid"
