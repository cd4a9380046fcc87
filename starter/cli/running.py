"""What commands that run something have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from starter.cli.state import until_signalled

if TYPE_CHECKING:
    from rich.console import Console

    from memory.settings import Settings
    from starter.dev import LocalStack


@contextmanager
def steps(console: Console) -> Generator[Callable[[str], None]]:
    """Show what is being done on a terminal; elsewhere it would only be noise beside the one line that says what failed."""
    if console.is_terminal:
        with console.status("…") as status:
            yield lambda step: status.update(f"{step} …")
    else:
        yield lambda _: None


async def until_stopped_or_broken(stack: LocalStack) -> None:
    """Raises MemoryUnavailable when an engine ended for good."""
    watch = asyncio.create_task(stack.watch())
    stopped = asyncio.create_task(until_signalled())
    try:
        await asyncio.wait((watch, stopped), return_when=asyncio.FIRST_COMPLETED)
        if watch.done():
            watch.result()
    finally:
        watch.cancel()
        stopped.cancel()
        await asyncio.gather(watch, stopped, return_exceptions=True)


def check_model(settings: Settings, name: str) -> None:
    """Before anything is started. Raises InvalidInput for a model that is unknown or has no key."""
    from memory.llm.factory import build_models

    async def look() -> None:
        models = build_models(settings)
        try:
            models.model(name)
        finally:
            await models.aclose()

    asyncio.run(look())
