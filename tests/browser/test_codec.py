"""`afterturn dev` with payload keys: the real Temporal Web UI shows payloads that the server holds encrypted."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from urllib.parse import quote

from playwright.async_api import Browser, expect
from pydantic import SecretStr

from memory.settings import read_dev_file
from starter import MemoryClient
from starter.dev import LocalStack
from tests.browser.site import ON_ONE_LOOP

pytestmark = ON_ONE_LOOP
KEYS = "2026:" + base64.b64encode(b"n" * 32).decode()


async def test_the_web_ui_of_dev_reads_encrypted_payloads(browser: Browser, tmp_path: Path) -> None:
    asked = {"payload_keys": SecretStr(KEYS), "embedder": "none"}
    async with LocalStack(tmp_path / ".afterturn", overrides=asked) as stack, MemoryClient(stack.client_settings) as memory:
        who = ("acme", "ada")
        turn = {"turn_id": "t1", "user_text": "My name is Ada.", "assistant_text": "Hello.", "allow_user_memory": True}
        receipt = await memory.after_answer(who, turn)
        assert receipt.started or receipt.status.value == "pending", receipt
        assert await memory.wait_until_idle(who)
        run = await stack.client.get_workflow_handle("post-answer/acme/ada").describe()
        history = await stack.client.get_workflow_handle(run.id).fetch_history()
        assert "resumed" not in json.dumps(history.to_json_dict())
        page = await browser.new_page()
        address = f"{stack.urls['web_ui']}/namespaces/default/workflows/{quote(run.id, safe='')}/{run.run_id}/history"
        await page.goto(address)
        # The start's argument, which no other part of the page has.
        await expect(page.get_by_text('"resumed"').first).to_be_visible(timeout=30_000)
        await page.close()
        # Other commands on this machine read it too.
        shared = read_dev_file(tmp_path / ".afterturn")["settings"]
        assert shared["payload_keys"] == KEYS
