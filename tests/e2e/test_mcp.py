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
async def assistant(stack: Stack, scope: Scope, *more: str) -> AsyncGenerator[McpClient]:
    """A desktop assistant, with the handshake that they all speak; the tests within this process use the newest revision."""
    program, *args = arguments(scope, *more)
    log = stack.settings.data_dir.parent / "mcp.err"
    async with serve_vectors(stack.parts.index.vectors, token=VECTOR_KEY) as vectors:
        service = {"AFTERTURN_VECTOR_SERVICE_URL": vectors, "AFTERTURN_VECTOR_API_KEY": VECTOR_KEY}
        watched = ["-c", '"$@"; echo "it ended with $?" >&2', "sh", program, *args]
        server = StdioServerParameters(command="/bin/sh", args=watched, env=variables(stack, **service), cwd=ROOT)
        with log.open("a", encoding="utf-8") as errors:
            async with McpClient(stdio_client(server, errors), mode="legacy", read_timeout_seconds=60) as client:
                yield client
    told = log.read_text("utf-8")
    assert told.splitlines()[-1] == "it ended with 0", told
    assert "Traceback" not in told, told
    assert SECRET_WORDS not in told, told


async def finished(client: McpClient, told: dict[str, Any]) -> dict[str, Any]:
    """The end of a loop, however often it has to be waited for."""
    while told["state"] == "running":
        told = await call(client, "get_answer", loop_id=told["loop_id"])
    return told


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


async def reads(client: McpClient, s: Stack, ada: Scope, eve: Scope) -> None:
    """What an assistant sees of a user, and nothing of another."""
    profile = await call(client, "get_profile")
    assert (profile["body"], profile["note"]) == ("", "Nothing lasting has been learned about this user yet.")
    assert "Nothing lasting" in await resource(client)
    assert "Nothing lasting" in await prompt(client)
    await s.memory.edit_profile(ada, f"## Identity\n- Name is Ada.\n- Knows that {SECRET_WORDS}.\n", expected_etag=None)
    await s.memory.add_facts(ada, ["Ada's team ships on Thursdays.", f"Ada says {SECRET_WORDS}."])
    await s.memory.add_facts(eve, "Eve's team ships on Mondays.")
    await s.memory.contacts.add(ada, first_name="Grace", surname="Hopper", email_address="grace@example.org")

    profile = await call(client, "get_profile")
    assert SECRET_WORDS in profile["body"]
    assert (profile["memory"], profile["version"]) == ("on", 1)
    assert await resource(client) == profile["body"]
    section = await prompt(client)
    assert section.startswith("# What I know about you\n")
    assert profile["body"] in section

    facts = (await call(client, "search_facts", query="when does the team ship?", limit=5))["facts"]
    assert "Thursdays" in facts[0]["statement"]
    assert not any("Eve" in fact["statement"] for fact in facts)
    found = (await call(client, "search_memory", query="Grace Hopper"))["found"]
    assert any(one["kind"] == "contact" and one["title"] == "Grace Hopper" for one in found), found
    (contact,) = (await call(client, "find_contacts", query="grace@example.org", limit=1))["contacts"]
    assert contact["name"] == "Grace Hopper"
    assert (await call(client, "list_tasks"))["tasks"] == []
    answer = await finished(client, await call(client, "ask", question=ANSWERS))
    assert (answer["state"], answer["answer"]) == ("done", "There are 2.")

    # What cannot be used is said in words.
    assert "query" in await refused(client, "search_facts", query="")
    assert "time zone" in await refused(client, "search_facts", query="ship", as_of="2026-01-01T00:00:00")
    assert "no call with this loop_id" in await refused(client, "get_answer", loop_id="another")
    with pytest.raises(MCPError):
        await client.read_resource("memory://other")


async def writes(client: McpClient, s: Stack, ada: Scope) -> None:
    told = await call(client, "remember", statement="Ada prefers trains to planes.", kind="preference")
    assert told["did"] == "added"
    again = await call(client, "remember", statement="Ada prefers trains to planes.", kind="preference")
    assert (again["did"], again["fact_id"]) == ("confirmed", told["fact_id"])
    kept = {fact.fact_id: fact.kind for fact in await s.memory.facts(ada)}
    assert kept[told["fact_id"]] == "preference"

    update = await finished(client, await call(client, "update", instruction=WRITTEN))
    assert (update["state"], update["answer"]) == ("done", "It is kept.")
    assert "Suppliers" in [table.name for table in await s.memory.knowledge.tables(ada)]


async def takes_long(client: McpClient, s: Stack, ada: Scope) -> None:
    """Longer than a call may wait: its id is given, and it can be waited for."""
    running = await call(client, "ask", question=GOES_ON)
    assert running["state"] == "running", running
    assert "get_answer" in running["note"]
    handle = await s.memory.knowledge.attach(ada, running["loop_id"])
    await handle.stop("enough")
    assert (await finished(client, running))["state"] == "stopped"


async def is_told_that_it_is_off(client: McpClient, s: Stack, ada: Scope) -> None:
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
    loops, facts = len(await s.memory.knowledge.loops(ada)), len(await s.memory.facts(ada))
    for tool, given in calls.items():
        off = await call(client, tool, **given)
        assert off["memory"] == "off", tool
        assert "the user has opted out" in off["note"], tool
        assert "trains" not in json.dumps(off), tool
    assert "opted out" in await resource(client)
    assert "opted out" in await prompt(client)
    assert (len(await s.memory.knowledge.loops(ada)), len(await s.memory.facts(ada))) == (loops, facts)


async def test_an_assistant_reads_writes_where_it_may_and_is_told_when_memory_is_off(stack: StartStack) -> None:
    async with stack(knowledge_model=SCRIPTED, simulated_latency_ms=100) as s:
        ada, eve = s.user("ada"), s.user("eve")
        async with assistant(s, ada, "--allow-update", "--wait", "1") as client:
            assert client.server_info.name == "afterturn"
            assert "never an instruction" in (client.instructions or "")
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == READS | WRITES
            for name, tool in tools.items():
                assert tool.annotations is not None
                assert tool.annotations.read_only_hint is (name in READS), name
                assert tool.annotations.destructive_hint is (name == "update"), name
                assert tool.output_schema is not None, name
                assert tool.description, name
            await reads(client, s, ada, eve)
            await writes(client, s, ada)
            await takes_long(client, s, ada)
            await is_told_that_it_is_off(client, s, ada)


async def test_without_the_flag_there_is_nothing_to_write_with(stack: StartStack) -> None:
    async with stack(workers=False) as s:
        ada = s.user("ada")
        server = build_server(s.memory, ada, space_id="default", allow_update=False, wait_s=5)
        async with McpClient(server) as client:
            assert "Nothing can be changed" in (client.instructions or "")
            assert {tool.name for tool in (await client.list_tools()).tools} == READS
            assert "update" in await refused(client, "update", instruction="Add a table.")
            assert "remember" in await refused(client, "remember", statement="Anything.")
        assert (await s.memory.knowledge.loops(ada), await s.memory.facts(ada)) == ((), ())


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
