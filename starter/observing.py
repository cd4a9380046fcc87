"""What a process shows of itself: metrics at an address, traces to a collector, log lines with the ids of the step at work.

``observed`` is entered once by whatever a process is (worker, API, `afterturn dev`, an orchestrator that wants it); the clients
that are made within, and their workers, take part by themselves.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import structlog
from temporalio import activity
from temporalio.client import Plugin
from temporalio.plugin import SimplePlugin
from temporalio.runtime import Runtime
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from memory import telemetry
from memory.model import names
from memory.model.metrics import STAGE_DURATION, Process
from memory.settings import Settings
from starter.metrics import SdkMeters, metrics_runtime
from starter.tracing import Tracing, start_tracing

WORKER: Final = frozenset({Process.WORKER})
API: Final = frozenset({Process.CLIENT, Process.API})
CLIENT: Final = frozenset({Process.CLIENT})
ALL: Final = WORKER | API

STAGES: Final = {
    names.CLAIM_TURNS: "claim",
    names.GATE_TURNS: "gate",
    names.CONSOLIDATE_TURNS: "consolidate",
    names.UPLOAD_PROFILE: "upload",
    names.EDIT_PROFILE: "edit",
    names.ROLLBACK_PROFILE: "rollback",
    names.SEND_NOTICE: "notice",
    names.FINISH_TURNS: "finish",
    names.PLAN_WINDOW: "plan",
    names.EXTRACT_WINDOW: "extract",
    names.APPLY_CATEGORY: "apply",
    names.COMMIT_WINDOW: "commit",
    names.INDEX_EVENTS: "index",
}
"""Activities whose stage has a name of its own; of all others it is the activity's."""

_tracing: Tracing | None = None


@asynccontextmanager
async def observed(settings: Settings, service: str, reports: Collection[Process] = CLIENT) -> AsyncGenerator[None]:
    """Metrics at ``metrics_address``, traces to ``otlp_endpoint``; each only where it is set. At the end spans are sent.

    For the whole process, so once at a time. Clients of Temporal have to be made inside.

    Args:
        service: the name that traces have this process by, ``afterturn-worker`` say.
        reports: what the process is, see :class:`memory.model.metrics.Process`.

    Raises:
        InvalidSettings: nobody can listen at the address of the metrics, or that of the collector is none.
    """
    global _tracing
    runtime = await asyncio.to_thread(metrics_runtime, settings)
    meters = None
    if runtime is not None:
        # Of all clients that are made from now on, so that the calls of each are among the metrics.
        Runtime.set_default(runtime, error_if_already_set=False)
        meters = SdkMeters(runtime.metric_meter, tenants=settings.metrics_tenants, reports=reports)
    _tracing = await asyncio.to_thread(start_tracing, settings, service)
    telemetry.install(meters=meters, tracer=_tracing)
    try:
        yield
    finally:
        telemetry.install()
        tracing, _tracing = _tracing, None
        if tracing is not None:
            await asyncio.to_thread(tracing.stop)


def plugins() -> Sequence[Plugin]:
    """For every client; its workers take them over."""
    steps = SimplePlugin("afterturn", interceptors=[_Steps()])
    return [steps] if _tracing is None else [_tracing.plugin(), steps]


class _Steps(Interceptor):
    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - the SDK's name
        return _Step(next)


class _Step(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK's name
        """Measures the step; every line that is logged meanwhile says which one it is."""
        info = activity.info()
        began = time.perf_counter()
        with structlog.contextvars.bound_contextvars(
            workflow_id=info.workflow_id or "",
            run_id=info.workflow_run_id or "",
            activity=info.activity_type,
            activity_id=info.activity_id,
            attempt=info.attempt,
        ):
            try:
                return await super().execute_activity(input)
            finally:
                stage = STAGES.get(info.activity_type, info.activity_type)
                telemetry.observe(STAGE_DURATION, time.perf_counter() - began, stage=stage)
