"""Composition root: settings → adapters → activities → workers.

``run_worker`` is what `afterturn worker` and a container run: it connects, checks what it depends on, works until SIGTERM or
SIGINT, lets running activities finish for ``graceful_shutdown_s`` and exits.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import structlog
from temporalio.client import Client
from temporalio.common import WorkerDeploymentVersion
from temporalio.worker import PollerBehaviorAutoscaling, Worker, WorkerDeploymentConfig, WorkerTuner

from activities import Activities, Collaborators, ForgetRules, KnowledgeRules, PipelineRules, WindowRules, build_activities
from memory.knowledge.search import KnowledgeSearch
from memory.llm.factory import build_models
from memory.metering import Meter
from memory.model.errors import FolderInUse, InvalidSettings
from memory.model.knowledge_loop import Operation
from memory.model.names import MODEL_TASK_QUEUE, TASK_QUEUE
from memory.model.redaction import warm_up as warm_up_redaction
from memory.model.scope import Scope
from memory.profiles import Profiles
from memory.settings import Settings, limits_of
from memory.stores.notices import build_notifier
from memory.stores.objects.minio import MinioObjectStore
from memory.stores.tables import build_tables
from starter.backlogs import backlogs_measured
from starter.connection import Connection
from starter.forget import start_forget
from starter.forget_runs import TemporalUserRuns
from starter.health import Health, Stage, answering, ticking
from starter.heartbeat import announced
from starter.loops import start_loop
from starter.observing import WORKER, observed
from starter.readiness import watching
from starter.search import open_search, stores_of
from starter.signals import TurnSignaller
from starter.temporal import ensure_search_attributes
from starter.until_told import Told, until_told
from starter.window_signals import WindowWaker
from workflows import WORKFLOWS, policies
from workflows.sandbox import workflow_runner

_log = structlog.get_logger("afterturn.worker")

QUEUES = (TASK_QUEUE, MODEL_TASK_QUEUE)
HEARTBEATS_LEAVE = timedelta(seconds=2)
"""Held back at most this long: an activity hears that its loop is being stopped with the answer to a heartbeat."""


POLLERS = PollerBehaviorAutoscaling(minimum=1, maximum=100, initial=5)
"""Calls that wait for tasks, by task queue: the server says when more or fewer are of use. Never more than there are free slots."""


@dataclass(frozen=True, slots=True)
class _SignallerWaker:
    """The sweeper's way to start runs."""

    signaller: TurnSignaller
    windows: WindowWaker
    connected: Callable[[], Awaitable[Client]]

    async def wake(self, scope: Scope, turn_ids: tuple[str, ...]) -> None:
        await self.signaller.signal(scope, turn_ids)

    async def wake_windows(self, scope: Scope, waiting: int) -> None:
        await self.windows.wake(scope, waiting)

    async def start_loop(self, scope: Scope, loop_id: str) -> bool:
        return await start_loop(await self.connected(), scope, loop_id, Operation.UPDATE, again=False)

    async def start_forget(self, tenant: str, erasure_id: str) -> None:
        await start_forget(await self.connected(), tenant, erasure_id)


def pipeline_rules(settings: Settings) -> PipelineRules:
    return PipelineRules(
        default_model=settings.language_model,
        feature_flag=settings.feature_flag,
        allow_with_web_search=settings.allow_with_web_search,
        coalesce_max_turns=settings.coalesce_max_turns if settings.coalesce_turns else 1,
        model_timeout_s=settings.model_timeout_s,
        store_retry_for_s=settings.store_retry_for_s,
        model_retry_for_s=settings.model_retry_for_s,
        continue_as_new_after_turns=settings.continue_as_new_after_turns,
        remote_notices=settings.notice_webhook_url is not None,
    )


def window_rules(settings: Settings) -> WindowRules:
    return WindowRules(
        size=settings.window_size,
        flags=settings.memory_flags,
        model=settings.window_model or settings.language_model,
        model_timeout_s=settings.model_timeout_s,
        store_retry_for_s=settings.store_retry_for_s,
        feature_flag=settings.feature_flag,
        allow_with_web_search=settings.allow_with_web_search,
        embed_events=settings.embed_events and settings.embedder != "none",
        idle_s=settings.window_idle_s,
        attempts=settings.window_attempts,
        retry_s=settings.window_retry_s,
        retention_days=settings.event_retention_days,
    )


def knowledge_rules(settings: Settings) -> KnowledgeRules:
    return KnowledgeRules(
        model=settings.knowledge_model or settings.language_model,
        model_timeout_s=settings.model_timeout_s,
        store_retry_for_s=settings.store_retry_for_s,
        feature_flag=settings.feature_flag,
        allow_with_web_search=settings.allow_with_web_search,
        limits=limits_of(settings),
        continue_after_steps=settings.knowledge_continue_after_steps,
    )


def forget_rules(settings: Settings) -> ForgetRules:
    given = settings.forget_settle_s
    if given is not None:
        return ForgetRules(settle_s=given)
    return ForgetRules(settle_s=policies.WRITE.start_to_close_s, after=policies.longest_steps(settings.model_timeout_s))


def deployment_of(settings: Settings) -> WorkerDeploymentConfig | None:
    """Worker Versioning, where both names are set: the workflow types say themselves whether a run stays on its version.

    Raises InvalidSettings: one of the two alone, which would quietly be a worker without a version.
    """
    name, build = settings.deployment_name, settings.build_id
    if name is None and build is None:
        return None
    if name is None or build is None:
        missing = "TEMPORAL_WORKER_BUILD_ID" if build is None else "TEMPORAL_DEPLOYMENT_NAME"
        raise InvalidSettings(f"{missing} is missing: Worker Versioning needs the deployment's name and the build id")
    if "." in name:
        raise InvalidSettings("TEMPORAL_DEPLOYMENT_NAME must not hold a dot: Temporal writes a version as name.build")
    return WorkerDeploymentConfig(version=WorkerDeploymentVersion(name, build), use_worker_versioning=True)


@asynccontextmanager
async def open_collaborators(
    settings: Settings, client: Client, connection: Connection | None = None
) -> AsyncGenerator[Collaborators]:
    """Build the adapters that the settings name; they are closed when the block ends.

    ``connection``: gives other clients after ``client``, when certificates change.
    """
    async with AsyncExitStack() as stack:
        tables = build_tables(settings)
        stack.push_async_callback(tables.aclose)
        store = MinioObjectStore.from_settings(settings)
        stack.push_async_callback(store.aclose)
        models = build_models(settings)
        stack.push_async_callback(models.aclose)
        notifier = build_notifier(settings, tables.notices)
        stack.push_async_callback(notifier.aclose)
        index = open_search(settings, tables, owner="afterturn worker")
        index.facts.rows_when_in_use = True
        stack.push_async_callback(index.aclose)

        async def connected() -> Client:
            return client if connection is None else await connection.current()

        signaller, runs = TurnSignaller(client), TemporalUserRuns(client)
        if connection is not None:
            connection.follow(signaller.use)
            connection.follow(runs.use)

        yield Collaborators(
            log=tables.log,
            directory=tables.directory,
            profiles=Profiles(store, bucket_prefix=settings.bucket_prefix),
            models=models,
            notifier=notifier,
            waker=_SignallerWaker(signaller, WindowWaker(connected), connected),
            rules=pipeline_rules(settings),
            loss_guard_max_lost_fraction=settings.loss_guard_max_lost_fraction,
            loss_guard_min_bullets=settings.loss_guard_min_bullets,
            review_url=settings.review_url,
            ledger=tables.windows,
            stores=stores_of(tables, index),
            index=index,
            usage=tables.usage,
            meter=Meter(tables.usage, cap=settings.daily_token_cap, prices=settings.model_prices),
            window_rules=window_rules(settings),
            loops=tables.loops,
            knowledge=tables.knowledge,
            knowledge_search=KnowledgeSearch(tables.knowledge, tables.embeddings, vectors=index.vectors, embedder=index.embedder),
            knowledge_rules=knowledge_rules(settings),
            erasures=tables.erasures,
            box=tables.notices,
            processes=tables.processes,
            runs=runs,
            forget_rules=forget_rules(settings),
        )


def build_workers(client: Client, settings: Settings, activities: Activities, queues: Sequence[str] = QUEUES) -> list[Worker]:
    """A worker per task queue. Start them with ``async with`` or ``run()``."""
    common: dict[str, Any] = {
        "graceful_shutdown_timeout": timedelta(seconds=settings.graceful_shutdown_s),
        "max_heartbeat_throttle_interval": HEARTBEATS_LEAVE,
        "deployment_config": deployment_of(settings),
    }
    if settings.poller_autoscaling:
        common |= {"workflow_task_poller_behavior": POLLERS, "activity_task_poller_behavior": POLLERS}
    workers: list[Worker] = []
    if TASK_QUEUE in queues:
        workers.append(
            Worker(
                client,
                task_queue=TASK_QUEUE,
                workflows=WORKFLOWS,
                activities=activities.store,
                workflow_runner=workflow_runner(versioned=common["deployment_config"] is not None),
                max_concurrent_workflow_tasks=settings.max_concurrent_workflow_tasks,
                max_cached_workflows=settings.max_cached_workflows,
                **common,
            )
        )
    if MODEL_TASK_QUEUE in queues:
        workers.append(
            Worker(
                client,
                task_queue=MODEL_TASK_QUEUE,
                activities=activities.model,
                # Fixed: what limits model calls is the provider, which no measure of this machine's load knows.
                tuner=WorkerTuner.create_fixed(activity_slots=settings.model_concurrency),
                max_task_queue_activities_per_second=settings.model_rate_per_s,
                **common,
            )
        )
    return workers


@asynccontextmanager
async def running_workers(settings: Settings, client: Client, queues: Sequence[str] = QUEUES) -> AsyncGenerator[Collaborators]:
    """Workers that run while the block does; what `afterturn dev`, the demo and tests use. Without a version, whatever the
    environment names: a server that nobody told which version is the current one would give them nothing to do."""
    settings = settings.model_copy(update={"deployment_name": None, "build_id": None})
    async with open_collaborators(settings, client) as parts, AsyncExitStack() as stack:
        await stack.enter_async_context(announced(parts.processes, kind="worker", settings=settings))
        for worker in build_workers(client, settings, build_activities(parts), queues):
            await stack.enter_async_context(worker)
        yield parts


async def check_dependencies(settings: Settings, client: Client, parts: Collaborators) -> None:
    """Refuse to work on a wrong schema, a store without conditional writes, a server without our search attributes.

    Raises InvalidSettings or MemoryUnavailable: one line that says what to do.
    """
    await parts.log.ping()
    await parts.profiles.check()
    try:
        await parts.index.check()
    except FolderInUse as error:
        # Several workers on one folder: the one that has the engine indexes, the others find facts by their rows.
        _log.warning("vectors_in_use", detail=error.message)
    await ensure_search_attributes(client)
    parts.models.model(settings.language_model)
    parts.models.model(parts.knowledge_rules.model)
    await asyncio.to_thread(_warm_up, parts, settings.language_model)


def _warm_up(parts: Collaborators, model: str) -> None:
    """Load now what the first turn would wait for otherwise. Raises InvalidSettings where the tokenizer's tables are damaged."""
    warm_up_redaction()
    parts.models.token_counter(model).count("warm")


async def run_worker(settings: Settings, queues: Sequence[str] = QUEUES) -> None:
    """Work until SIGTERM or SIGINT, which call off a start as well.

    Raises what ``check_dependencies``, ``observed`` and ``answering`` raise.
    """
    health = Health(max_tick_s=settings.health_max_tick_s)
    with answering(settings, health):
        async with until_told() as told, ticking(health), observed(settings, "afterturn-worker", WORKER):
            await _work(settings, queues, told, health)
    _log.info("worker_stopped")


async def _work(settings: Settings, queues: Sequence[str], told: Told, health: Health) -> None:
    deployment_of(settings)  # what is half configured stops the start before anything is connected
    connection = Connection(settings)
    client = await connection.current()
    async with open_collaborators(settings, client, connection) as parts:
        health.stage = Stage.CHECKING
        await check_dependencies(settings, client, parts)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(announced(parts.processes, kind="worker", settings=settings))
            workers = build_workers(client, settings, build_activities(parts), queues)
            for worker in workers:
                await stack.enter_async_context(worker)
                connection.follow(partial(setattr, worker, "client"))
            if TASK_QUEUE in queues:
                await stack.enter_async_context(backlogs_measured(settings, parts.log, parts.ledger, parts.erasures))
            await stack.enter_async_context(connection.watched())
            await stack.enter_async_context(watching(health, lambda: connection.client, workers))
            told.ready()
            health.stage = Stage.WORKING
            _log.info(
                "worker_started",
                queues=",".join(queues),
                model=settings.language_model,
                metrics=settings.metrics_address or "off",
                health=settings.health_address or "off",
            )
            await told.wait()
            health.stage = Stage.STOPPING
            _log.info("worker_stopping", grace_s=settings.graceful_shutdown_s)
            # All at once: one after the other would take the time of each.
            await asyncio.gather(*(worker.shutdown() for worker in workers))


def main() -> None:
    """`python worker.py`: the same as `afterturn worker`."""
    from starter.cli import main as cli

    sys.exit(cli(["worker", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
