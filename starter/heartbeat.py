"""A running process says that it runs, and with which flags: so that an administrator sees where two of them disagree."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Literal

import structlog

from memory.model.errors import AfterturnError
from memory.model.payload_key import payload_keys
from memory.model.process_flags import SEEN_EVERY
from memory.ports.service import Process, Processes
from memory.settings import Settings
from starter.faults import fault

WRITE_WITHIN_S: Final = 10.0
LEAVE_WITHIN_S: Final = 2.0

_log = structlog.get_logger("afterturn.heartbeat")


def flags_of(settings: Settings) -> dict[str, Any]:
    """What memory being on, what it learns, and whether one process can read another depends on; JSON values."""
    flag = settings.feature_flag
    return {
        "feature_flag": flag if isinstance(flag, bool) else sorted(flag),
        "allow_with_web_search": settings.allow_with_web_search,
        "language_model": settings.language_model,
        "window_size": settings.window_size,
        "embedder": settings.embedder,
        "payload_keys": key_marks(settings),
        **{f"memory_{category.value}": on for category, on in sorted(settings.memory_flags.items())},
    }


def key_marks(settings: Settings) -> list[str]:
    """Of the keys for what Temporal stores, the one that encrypts first; empty: in clear."""
    keys = settings.payload_keys
    return [] if keys is None else [key.mark for key in payload_keys(keys.get_secret_value())]


@asynccontextmanager
async def announced(
    processes: Processes, *, kind: Literal["api", "worker"], settings: Settings, every_s: float | None = None
) -> AsyncGenerator[Process]:
    """While the block runs the process is in the list of running ones. A database that is away is tried again next time.

    Args:
        every_s: between two signs of life; default: :data:`memory.model.process_flags.SEEN_EVERY`.
    """
    now = datetime.now(UTC)
    me = Process(_process_id(kind), kind, _version(), started_at=now, seen_at=now, flags=flags_of(settings))
    stop = asyncio.Event()
    beating = asyncio.create_task(_beat(processes, me, stop, SEEN_EVERY.total_seconds() if every_s is None else every_s))
    try:
        yield me
    finally:
        # Not cancelled: a write that outlives its caller would come after the removal.
        stop.set()
        done, _ = await asyncio.wait({beating}, timeout=LEAVE_WITHIN_S)
        if not done:
            beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        await _try(processes.gone(me.process_id), LEAVE_WITHIN_S)


async def _beat(processes: Processes, me: Process, stop: asyncio.Event, every_s: float) -> None:
    failing = False
    while not stop.is_set():
        problem = await _try(processes.seen(replace(me, seen_at=datetime.now(UTC))), WRITE_WITHIN_S)
        if problem is not None and not failing:
            _log.warning("process_not_announced", kind=me.kind, error=problem)
        failing = problem is not None
        try:
            async with asyncio.timeout(every_s):
                await stop.wait()
        except TimeoutError:
            continue


async def _try(write: Awaitable[None], within_s: float) -> str | None:
    """None, or what went wrong."""
    try:
        async with asyncio.timeout(within_s):
            await write
    except AfterturnError as error:
        return error.message
    except Exception as error:  # noqa: BLE001 - the process works without being in a list
        return fault(error)
    return None


def _process_id(kind: str) -> str:
    """Readable, and another one for each start."""
    host = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in socket.gethostname())[:60]
    return f"{kind}@{host}-{os.getpid()}-{secrets.token_hex(3)}"


def _version() -> str:
    try:
        return version("afterturn")
    except PackageNotFoundError:
        return "unknown"
