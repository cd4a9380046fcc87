"""An orchestrator in a process of its own: ``python -m tests.support.client_process``.

Reads one JSON object per line (``{"do": "say", "user": …, …}``), does it with a ``MemoryClient`` made from the environment's
settings, and answers each with one line of JSON. Its logs are on standard error, as those of any service that embeds the client.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from memory.model.errors import AfterturnError
from memory.settings import Settings, load_settings
from starter import MemoryClient
from starter.logs import configure_logging
from starter.steering import LoopAnswer, SteerableHandle
from starter.who import scope_of
from tests.support.fleet import ROOT, as_environment, plain_environment

TENANT = "acme"


async def perform(memory: MemoryClient, step: Mapping[str, Any]) -> dict[str, Any]:
    """The result, without any text of the user's."""
    match step:
        case {"do": "say", "user": user, "turn": turn}:
            receipt = await memory.after_answer((TENANT, user), turn)
            return {"status": receipt.status, "reason": receipt.reason, "started": receipt.started}
        case {"do": "load", "user": user, "space": space}:
            loaded = await memory.load((TENANT, user), space_id=space, allow_user_memory=True)
            return {"reason": loaded.reason, "version": loaded.version, "shown": repr(loaded)}
        case {"do": "edit", "user": user, "document": document, "etag": etag}:
            edited = await memory.edit_profile((TENANT, user), document, expected_etag=etag)
            return {"status": edited.status, "version": edited.version, "etag": edited.etag, "shown": repr(edited)}
        case {"do": "rollback", "user": user, "to": version}:
            back = await memory.rollback((TENANT, user), version)
            return {"status": back.status, "version": back.version, "shown": repr(back)}
        case {"do": "status", "user": user}:
            return {"shown": repr(await memory.status((TENANT, user)))}
        case {"do": "rerun", "user": user}:
            return {"reopened": len((await memory.rerun(scope=(TENANT, user))).reopened)}
        case {"do": "events", "user": user, "events": events}:
            recorded = await memory.record_events((TENANT, user), events, allow_user_memory=True)
            return {"status": recorded.status, "shown": repr(recorded)}
        case {"do": "flush", "user": user, "wait_s": wait_s}:
            return {"waiting": (await memory.flush((TENANT, user), wait_s=wait_s)).waiting}
        case {"do": "chunk", "user": user, "transcript": transcript, "guidance": guidance}:
            window = await memory.windows.process_chunk(scope_of((TENANT, user)), transcript, guidance=guidance)
            return {"state": window.state, "shown": repr(window)}
        case {"do": "windows", "user": user}:
            scope = scope_of((TENANT, user))
            windows = await memory.windows.list(scope=scope)
            views = [await memory.windows.show(scope, one.window_id) for one in windows]
            return {
                "states": [one.state for one in windows],
                "reasons": [one.reason for one in windows],
                "shown": repr(await memory.windows.status(scope)) + repr(views),
            }
        case {"do": "add_fact", "user": user, "statement": statement}:
            return {"shown": repr(await memory.add_facts((TENANT, user), statement))}
        case {"do": "search", "user": user, "query": query}:
            facts = await memory.search_facts((TENANT, user), query, sources=True)
            events = await memory.search_events((TENANT, user), query)
            people = await memory.contacts.search((TENANT, user), query)
            tasks = await memory.tasks.list((TENANT, user))
            return {
                "found": [len(found) for found in (facts, events, people, tasks)],
                "shown": repr((facts, events, people, tasks)),
            }
        case {"do": "forget", "user": user}:
            ids = [fact.fact_id for fact in await memory.facts((TENANT, user))]
            return {"gone": await memory.forget_facts((TENANT, user), ids)}
        case {"do": "knowledge", "verb": verb, "user": user, "text": text, "options": options}:
            handle = await getattr(memory.knowledge, verb)((TENANT, user), text, **options)
            return {"loop_id": handle.loop_id, "shown": repr(handle)}
        case {"do": "loop", "user": user, "loop_id": loop_id, "act": act, "given": given}:
            return await steer(await memory.knowledge.attach((TENANT, user), loop_id), act, given)
        case _:
            raise ValueError(f"no such step: {step.get('do')}")


async def steer(handle: SteerableHandle, act: str, given: list[Any]) -> dict[str, Any]:
    """One method of a loop's handle, named ``act``; ``result`` and ``answer`` give what a test waits for."""
    if act == "answer":
        asked = await handle.next_clarification(60)
        assert asked is not None
        await handle.answer_clarification(asked.clarification_id, given[0])
        return {"shown": repr(asked)}
    done = await getattr(handle, act)(*given)
    shown = {"shown": repr(done) if not isinstance(done, str) else "a text"}
    return {**shown, "state": done.state, "reason": done.reason} if isinstance(done, LoopAnswer) else shown


async def main() -> None:
    settings = load_settings()
    configure_logging(settings)
    reader = asyncio.StreamReader(limit=16 * 1024 * 1024)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with MemoryClient(settings) as memory:
        sys.stdout.write("{}\n")
        sys.stdout.flush()
        async for line in reader:
            try:
                answer = await perform(memory, json.loads(line))
            except AfterturnError as error:
                answer = {"error": type(error).__name__, "message": error.message}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


class ClientProcess:
    """The other side of the pipe."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self.log = log

    async def ask(self, do: str, **step: Any) -> dict[str, Any]:
        """One step and its answer; steps of one process follow each other."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"do": do, **step}).encode() + b"\n")
        async with asyncio.timeout(150):
            line = await self.process.stdout.readline()
        assert line, _text(self.log)
        return json.loads(line)


@asynccontextmanager
async def client_process(settings: Settings, where: Mapping[str, str], log: Path) -> AsyncGenerator[ClientProcess]:
    """``where``: the ``TEMPORAL_…`` variables. At the end its input is closed, and it has to end well by itself."""
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.client_process"),
            cwd=ROOT,
            env=plain_environment({**as_environment(settings), **where}),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
        )
    client = ClientProcess(process, log)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"{}\n", _text(log)
        yield client
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(60):
            assert await process.wait() == 0, _text(log)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _text(path: Path) -> str:
    return path.read_text("utf-8", "replace")


if __name__ == "__main__":
    asyncio.run(main())
