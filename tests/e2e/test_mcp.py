"""The real `afterturn mcp` as desktop assistants run it: driven by the SDK's client over its standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client as McpClient
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent, TextResourceContents

from memory.model.scope import Scope
from memory.profiles import Profiles
from memory.stores.objects.minio import MinioObjectStore
from memory.stores.vectors import serve_vectors
from starter import MemoryClient
from starter.client_parts import shared_parts
from starter.mcp_server import build_server
from tests.e2e.command import ROOT, command, environment
from tests.support.fleet import as_environment
from tests.support.stack import Stack, StartStack
from tests.support.waiting import until

READS = {"get_profile", "search_facts", "search_memory", "list_tasks", "find_contacts", "ask", "get_answer"}
WRITES = {"update", "remember"}
SECRET_WORDS = "the heron nests by the old lock"
SCRIPTED = "simulated:script"
ANSWERS = 'How many? ["There are 2."]'
WRITTEN = 'Keep it. [{"calls": [{"name": "create_table", "arguments": {"name": "Suppliers"}}]}, "It is kept."]'
GOES_ON = 'How many? [{"calls": [{"name": "tables_overview", "arguments": {}}], "repeat": true}]'
VECTOR_KEY = "a-key-of-this-test"


def variables(stack: Stack, **more: str) -> dict[str, str]:
    address = stack.client.service_client.config.target_host
    told = {"TEMPORAL_ADDRESS": address, "TEMPORAL_NAMESPACE": stack.client.namespace}
    return environment({**as_environment(stack.settings), **told, **more})


def arguments(scope: Scope, *more: str) -> list[str]:
    return command("mcp", "--tenant", scope.tenant_id, "--user", scope.user_id, *more)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's client sends a signal when a server has not ended soon after its input has."""
    monkeypatch.setattr("mcp.client.stdio.PROCESS_TERMINATION_TIMEOUT", 60.0)


@asynccontextmanager
async def assistant(stack: Stack, scope: Scope, *more: str, mode: str = "legacy") -> AsyncGenerator[McpClient]:
    """A desktop assistant. ``legacy`` is the handshake that they all speak; ``auto`` the newest revision of the protocol."""
    program, *args = arguments(scope, *more)
    log = stack.settings.data_dir.parent / "mcp.err"
    async with serve_vectors(stack.parts.index.vectors, token=VECTOR_KEY) as vectors:
        service = {"AFTERTURN_VECTOR_SERVICE_URL": vectors, "AFTERTURN_VECTOR_API_KEY": VECTOR_KEY}
        watched = ["-c", '"$@"; echo "it ended with $?" >&2', "sh", program, *args]
        server = StdioServerParameters(command="/bin/sh", args=watched, env=variables(stack, **service), cwd=ROOT)
        with log.open("a", encoding="utf-8") as errors:
            async with McpClient(stdio_client(server, errors), mode=mode, read_timeout_seconds=60) as client:
                yield client
    told = log.read_text("utf-8")
    assert told.splitlines()[-1] == "it ended with 0", told
    assert "Traceback" not in told, told
    assert SECRET_WORDS not in told, told


async def call(client: McpClient, tool: str, **given: Any) -> dict[str, Any]:
    """The structured result of a call that went well; its text says the same."""
    result = await client.call_tool(tool, given)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result
    assert result.structured_content is not None
    assert json.loads(text_of(result)) == result.structured_content
    return result.structured_content


async def refused(client: McpClient, tool: str, **given: Any) -> str:
    result = await client.call_tool(tool, given)
    assert isinstance(result, CallToolResult)
    assert result.is_error, result
    return text_of(result)


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


async def resource(client: McpClient) -> str:
    (content,) = (await client.read_resource("memory://profile")).contents
    assert isinstance(content, TextResourceContents)
    assert content.mime_type == "text/markdown"
    return content.text


async def prompt(client: McpClient) -> str:
    (message,) = (await client.get_prompt("about_me")).messages
    assert isinstance(message.content, TextContent)
    return message.content.text


async def test_an_assistant_reads_and_cannot_write(stack: StartStack) -> None:
    async with stack(knowledge_model=SCRIPTED) as s:
        ada, eve = s.user("ada"), s.user("eve")
        await s.memory.edit_profile(ada, f"## Identity\n- Name is Ada.\n- Knows that {SECRET_WORDS}.\n", expected_etag=None)
        await s.memory.add_facts(ada, ["Ada's team ships on Thursdays.", f"Ada says {SECRET_WORDS}."])
        await s.memory.add_facts(eve, "Eve's team ships on Mondays.")
        await s.memory.contacts.add(ada, first_name="Grace", surname="Hopper", email_address="grace@example.org")
        async with assistant(s, ada) as client:
            assert client.server_info.name == "afterturn"
            assert "never an instruction" in (client.instructions or "")
            assert "Nothing can be changed" in (client.instructions or "")
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == READS
            for tool in tools.values():
                assert tool.annotations is not None
                assert tool.annotations.read_only_hint is True, tool.name
                assert tool.annotations.destructive_hint is False, tool.name
                assert tool.output_schema is not None, tool.name
                assert tool.description, tool.name

            profile = await call(client, "get_profile")
            assert SECRET_WORDS in profile["body"]
            assert profile["memory"] == "on"
            assert profile["version"] == 1
            assert await resource(client) == profile["body"]
            assert (await prompt(client)).startswith("# What I know about you\n")
            assert profile["body"] in await prompt(client)

            facts = (await call(client, "search_facts", query="when does the team ship?", limit=5))["facts"]
            assert "Thursdays" in facts[0]["statement"]
            assert not any("Eve" in fact["statement"] for fact in facts)
            found = (await call(client, "search_memory", query="Grace Hopper"))["found"]
            assert any(one["kind"] == "contact" and one["title"] == "Grace Hopper" for one in found), found
            (contact,) = (await call(client, "find_contacts", query="grace@example.org", limit=1))["contacts"]
            assert contact["name"] == "Grace Hopper"
            assert (await call(client, "list_tasks"))["tasks"] == []

            answer = await call(client, "ask", question=ANSWERS)
            assert (answer["state"], answer["answer"]) == ("done", "There are 2.")

            # What is not offered cannot be called, and what cannot be used is said in words.
            assert "update" in await refused(client, "update", instruction="Add a table.")
            assert "remember" in await refused(client, "remember", statement="Anything.")
            assert [loop.operation for loop in await s.memory.knowledge.loops(ada)] == ["knowledge.ask"]
            assert "query" in await refused(client, "search_facts", query="")
            assert "time zone" in await refused(client, "search_facts", query="ship", as_of="2026-01-01T00:00:00")
            assert "no call with this loop_id" in await refused(client, "get_answer", loop_id="another")
            with pytest.raises(MCPError):
                await client.read_resource("memory://other")


async def test_with_the_flag_an_assistant_writes_and_what_is_off_is_told(stack: StartStack) -> None:
    async with stack(knowledge_model=SCRIPTED, simulated_latency_ms=100) as s:
        ada = s.user("ada")
        async with assistant(s, ada, "--allow-update", "--wait", "1", mode="auto") as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == READS | WRITES
            hints = {name: tools[name].annotations for name in WRITES}
            assert [(hint.read_only_hint, hint.destructive_hint) for hint in (hints["update"], hints["remember"]) if hint] == [
                (False, True),
                (False, False),
            ]
            profile = await call(client, "get_profile")
            assert (profile["body"], profile["note"]) == ("", "Nothing lasting has been learned about this user yet.")
            assert "Nothing lasting" in await resource(client)
            assert "Nothing lasting" in await prompt(client)

            told = await call(client, "remember", statement="Ada prefers trains to planes.", kind="preference")
            assert told["did"] == "added"
            again = await call(client, "remember", statement="Ada prefers trains to planes.", kind="preference")
            assert (again["did"], again["fact_id"]) == ("confirmed", told["fact_id"])
            (fact,) = await s.memory.facts(ada)
            assert (fact.fact_id, fact.kind) == (told["fact_id"], "preference")

            update = await call(client, "update", instruction=WRITTEN)
            while update["state"] == "running":
                update = await call(client, "get_answer", loop_id=update["loop_id"])
            assert (update["state"], update["answer"]) == ("done", "It is kept.")
            assert "Suppliers" in [table.name for table in await s.memory.knowledge.tables(ada)]

            # Longer than a call may wait: its id is given, and it can be waited for.
            beats: list[str | None] = []

            async def heard(_progress: float, _total: float | None, message: str | None) -> None:
                beats.append(message)

            asked = await client.call_tool("ask", {"question": GOES_ON}, progress_callback=heard)
            assert isinstance(asked, CallToolResult)
            running = asked.structured_content or {}
            assert running["state"] == "running", running
            assert "get_answer" in running["note"]
            handle = await s.memory.knowledge.attach(ada, running["loop_id"])
            await handle.stop("enough")
            ended = await call(client, "get_answer", loop_id=running["loop_id"])
            while ended["state"] == "running":
                ended = await call(client, "get_answer", loop_id=running["loop_id"])
            assert ended["state"] == "stopped"

            await s.memory.set_preference(ada, allow_user_memory=False)
            calls: dict[str, dict[str, Any]] = {
                "get_profile": {},
                "search_facts": {"query": "trains"},
                "search_memory": {"query": "trains"},
                "list_tasks": {},
                "find_contacts": {"query": "Ada"},
                "ask": {"question": ANSWERS},
                "update": {"instruction": ANSWERS},
                "remember": {"statement": "Ada likes tea."},
            }
            before = len(await s.memory.knowledge.loops(ada))
            for tool, given in calls.items():
                off = await call(client, tool, **given)
                assert off["memory"] == "off", tool
                assert "the user has opted out" in off["note"], tool
                assert "trains" not in json.dumps(off), tool
            assert "opted out" in await resource(client)
            assert "opted out" in await prompt(client)
            assert len(await s.memory.knowledge.loops(ada)) == before
            assert len(await s.memory.facts(ada)) == 1


async def test_a_store_that_is_away_is_an_error_of_the_tool(stack: StartStack) -> None:
    async with stack(workers=False) as s:
        ada = s.user("ada")
        elsewhere = s.settings.model_copy(update={"object_store_endpoint": "127.0.0.1:9"})
        store = MinioObjectStore.from_settings(elsewhere)
        parts = replace(shared_parts(s.parts, s.client), profiles=Profiles(store, bucket_prefix=s.settings.bucket_prefix))
        async with MemoryClient.from_parts(s.settings, parts) as memory:
            server = build_server(memory, ada, space_id="default", allow_update=False, wait_s=5)
            async with McpClient(server) as client:
                assert "cannot be read now" in await refused(client, "get_profile")
                with pytest.raises(MCPError, match="cannot be read now"):
                    await client.read_resource("memory://profile")
                with pytest.raises(MCPError, match="cannot be read now"):
                    await client.get_prompt("about_me")
                assert (await call(client, "search_facts", query="anything"))["facts"] == []
        await store.aclose()


HELLO = {
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


async def test_a_signal_ends_it_in_a_call_and_only_messages_are_on_standard_output(stack: StartStack) -> None:
    async with stack(knowledge_model=SCRIPTED, simulated_latency_ms=300) as s:
        user = s.user()
        process = await asyncio.create_subprocess_exec(
            *arguments(user), cwd=ROOT, env=variables(s), stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=8 * 1024 * 1024
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:

            def send(message: dict[str, Any]) -> None:
                assert process.stdin is not None
                process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

            async def reply(number: int) -> dict[str, Any]:
                assert process.stdout is not None
                while True:
                    message = json.loads(await asyncio.wait_for(process.stdout.readline(), 60))
                    if message.get("id") == number:
                        return message["result"]

            send(HELLO)
            assert (await reply(1))["serverInfo"]["name"] == "afterturn"
            send({"method": "notifications/initialized"})
            # Neither nonsense nor a message that is far too long does any harm.
            process.stdin.write(b"nonsense\n" + b"x" * (5 * 1024 * 1024) + b"\n")
            send({"id": 2, "method": "tools/list"})
            assert {tool["name"] for tool in (await reply(2))["tools"]} == READS
            send({"id": 3, "method": "tools/call", "params": {"name": "ask", "arguments": {"question": GOES_ON}}})

            async def begun() -> bool:
                return bool(await s.memory.knowledge.loops(user))

            await until(begun)
            os.kill(process.pid, signal.SIGTERM)
            errors = await asyncio.wait_for(process.stderr.read(), 60)
            assert await asyncio.wait_for(process.wait(), 60) == 0, errors.decode()
            assert b"Traceback" not in errors, errors.decode()
            for line in (await process.stdout.read()).splitlines():
                assert json.loads(line)["jsonrpc"] == "2.0"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        # What nobody reads is not worth its tokens.
        (loop,) = await s.memory.knowledge.loops(user)
        handle = await s.memory.knowledge.attach(user, loop.loop_id)
        assert (await handle.result(60)).state == "stopped"


def test_what_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    done = subprocess.run(
        command("mcp", "--user", ""), cwd=tmp_path, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.decode().startswith("afterturn: ")
