"""What the options before the command say, and how commands get at settings."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from memory.model.scope import Scope
    from memory.settings import Settings
    from memory.stores.tables import Tables
    from starter.client import MemoryClient

T = TypeVar("T")

DEFAULT_TENANT = "demo"
DEFAULT_USER = "me"

TenantOption = Annotated[str, typer.Option("--tenant", "-t", help="The company.", show_default=True)]
UserOption = Annotated[str, typer.Option("--user", "-u", help="The user.", show_default=True)]
JsonOption = Annotated[bool, typer.Option("--json", help="Report as JSON on standard output.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@dataclass
class State:
    """One run of the command line. ``debug``: tracebacks and debug logs on standard error."""

    debug: bool = False
    data_dir: Path | None = None

    def settings(self, **overrides: Any) -> Settings:
        """Read all settings and send logs to standard error. Raises InvalidSettings."""
        from memory.settings import load_settings

        if self.data_dir is not None:
            overrides["data_dir"] = self.data_dir
        settings = load_settings(**overrides)
        self.logs(settings)
        return settings

    def logs(self, settings: Settings, *, level: str = "warning") -> None:
        """Logs go to standard error from ``level`` up, or as AFTERTURN_LOG_LEVEL says; all of them with ``--debug``."""
        from starter.logs import configure_logging

        if self.debug:
            level = "debug"
        elif "log_level" in settings.model_fields_set:
            level = settings.log_level
        configure_logging(settings.model_copy(update={"log_level": level}))
        if level == "warning":
            # The SDK warns of every failed try of a step, with a traceback; outcomes and reasons are what commands show.
            logging.getLogger("temporalio").setLevel(logging.ERROR)
        else:
            logging.getLogger("temporalio").setLevel(logging.NOTSET)


def state_of(ctx: typer.Context) -> State:
    return ctx.ensure_object(State)


def scope_of(tenant: str, user: str) -> Scope:
    from memory.model.scope import Scope

    return Scope.of(tenant, user)


def run(work: Coroutine[Any, Any, T], *, patient: bool = False) -> T:
    """Run a command's work. Ctrl-C and SIGTERM cancel it and let its clean-up finish.

    Args:
        work: the coroutine.
        patient: signals after the first one are ignored, for what must stop servers in order (wrappers such as make, timeout or
            uv often pass a signal on twice); otherwise the second one ends the process at once.

    Raises typer.Exit with 130 or 143 when it was cancelled.
    """
    return asyncio.run(_under_signals(work, patient=patient))


class _Signals:
    """What SIGINT and SIGTERM do, in this order: end a wait for them, cancel the work, nothing (or end the process)."""

    def __init__(self, task: asyncio.Task[Any], *, patient: bool) -> None:
        self._task = task
        self._patient = patient
        self.received: signal.Signals | None = None
        self.awaited: asyncio.Event | None = None

    def __call__(self, number: signal.Signals) -> None:
        if self.received is None:
            self.received = number
            if self.awaited is not None:
                self.awaited.set()
            else:
                self._task.cancel()
        elif not self._patient:
            os._exit(128 + number)


_signals: ContextVar[_Signals] = ContextVar("signals")


async def _under_signals(work: Coroutine[Any, Any, T], *, patient: bool) -> T:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101
    signals = _Signals(task, patient=patient)
    _signals.set(signals)
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, signals, number)
    try:
        return await work
    except asyncio.CancelledError:
        if signals.received is not None:
            raise typer.Exit(128 + signals.received) from None
        raise
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def until_signalled() -> None:
    """Wait for Ctrl-C or SIGTERM, the ordinary end of what runs until it is told to stop."""
    signals = _signals.get()
    signals.awaited = asyncio.Event()
    if signals.received is None:
        await signals.awaited.wait()


@asynccontextmanager
async def open_client(settings: Settings) -> AsyncGenerator[MemoryClient]:
    """The client that an orchestrator would hold."""
    from memory.model.errors import InvalidSettings
    from memory.settings import read_dev_file
    from starter.client import MemoryClient

    if not settings.object_store_access_key.get_secret_value() and not read_dev_file(settings.data_dir):
        raise InvalidSettings(
            f"no `afterturn dev` runs in {settings.data_dir.absolute()}: start it, or name the servers "
            "(AFTERTURN_OBJECT_STORE_ENDPOINT, …_ACCESS_KEY, …_SECRET_KEY, AFTERTURN_DATABASE_URL, TEMPORAL_ADDRESS)"
        )
    client = MemoryClient.from_settings(settings)
    try:
        yield client
    finally:
        await client.aclose()


@asynccontextmanager
async def open_tables(settings: Settings) -> AsyncGenerator[Tables]:
    """Turn ledger and directory."""
    from memory.stores.tables import build_tables

    tables = build_tables(settings)
    try:
        yield tables
    finally:
        await tables.aclose()
