"""What waits in the stores, as metrics. Every worker looks by itself, so that it is seen also while no sweep runs (Temporal is
away, the schedule is paused) and so that no process shows what was true when it last happened to sweep.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

import structlog

from memory import telemetry
from memory.model import metrics
from memory.model.errors import AfterturnError
from memory.ports import EventLog, WindowLedger
from memory.ports.service import ErasureLedger
from memory.settings import Settings
from starter.faults import fault

MOST_ROWS: Final = 100_000
MOST_USERS: Final = 1_000
_log = structlog.get_logger("afterturn.backlogs")


@asynccontextmanager
async def backlogs_measured(
    settings: Settings, log: EventLog, ledger: WindowLedger, erasures: ErasureLedger
) -> AsyncGenerator[None]:
    """While the block runs, now and every ``sweep_interval_s``. Nothing in a process whose metrics nobody reads."""
    if settings.metrics_address is None:
        yield
        return
    looking = asyncio.create_task(_keep_looking(settings, log, ledger, erasures), name="afterturn backlogs")
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def _keep_looking(settings: Settings, log: EventLog, ledger: WindowLedger, erasures: ErasureLedger) -> None:
    while True:
        try:
            await look(log, ledger, erasures, window_size=settings.window_size)
        except AfterturnError as error:
            # What was seen last stays, and the failure counts among those of the store.
            _log.debug("backlogs_not_seen", error=error.message)
        except Exception as error:  # noqa: BLE001 - the worker works, whoever watches it
            _log.error("backlogs_not_seen", error=fault(error))
        await asyncio.sleep(settings.sweep_interval_s)


async def look(log: EventLog, ledger: WindowLedger, erasures: ErasureLedger, *, window_size: int) -> None:
    """One bounded look, each by an index. Raises StoreUnavailable."""
    waiting = await log.waiting(limit=MOST_ROWS)
    telemetry.set_to(metrics.TURNS_WAITING, waiting.turns)
    telemetry.set_to(metrics.OLDEST_TURN_WAITING, _age_s(waiting.oldest_at))
    telemetry.set_to(metrics.WINDOWS_DUE, len(await ledger.due(size=window_size, limit=MOST_USERS)))
    telemetry.set_to(metrics.WINDOWS_FAILED, await ledger.failed(limit=MOST_ROWS))
    telemetry.set_to(metrics.ERASURES_OPEN, len(await erasures.open_ones(limit=MOST_USERS)))
    telemetry.set_to(metrics.OLDEST_ERASURE, _age_s(await erasures.oldest_open()))


def _age_s(since: datetime | None) -> float:
    """0 for nothing, and for what another machine's clock calls the future."""
    return 0.0 if since is None else max((datetime.now(UTC) - since).total_seconds(), 0.0)
