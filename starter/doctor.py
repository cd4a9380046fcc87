"""One look at everything that memory depends on: what is wrong, and what to do about it. Changes nothing but probe objects."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from memory.llm.factory import build_models
from memory.model.enablement import ReasonCode, is_flagged
from memory.model.errors import AfterturnError, InvalidInput, InvalidSettings, MemoryUnavailable
from memory.model.names import (
    MODEL_TASK_QUEUE,
    RECONCILE_SCHEDULE_ID,
    SEARCH_ATTRIBUTE_TYPES,
    SEARCH_ATTRIBUTES,
    SWEEP_SCHEDULE_ID,
    TASK_QUEUE,
)
from memory.model.process_flags import SEEN_WITHIN
from memory.model.turn import Outcome
from memory.ports import TurnSummary
from memory.ports.service import Process
from memory.profiles import Profiles
from memory.settings import Settings, read_dev_file
from memory.stores.objects.minio import MinioObjectStore
from memory.stores.tables import build_tables
from memory.stores.tables.faults import MIGRATE
from memory.stores.vectors import FOLDER
from starter.heartbeat import key_marks
from starter.search import open_search
from starter.spool import Spool
from starter.temporal import address_of, connect, missing_attributes, temporal_errors

CHECK_TIMEOUT_S = 20.0
LAST_TURNS = 1_000
FLAG = "FEATURE_FLAG_ENABLE_CONTEXT_MEMORY_UN_22033"


@dataclass(frozen=True, slots=True)
class Check:
    """``detail``: what was found, one line. ``advice``: what to do, only when it is not ok."""

    name: str
    ok: bool
    detail: str
    advice: str | None = None


class _Wrong(Exception):
    """Something is not as it must be."""

    def __init__(self, detail: str, advice: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.advice = advice


_Step = Callable[[], Awaitable[str]]


async def examine(settings: Settings) -> tuple[Check, ...]:
    """All checks, independent ones at once. Never raises for what it finds; every check is bounded in time."""
    doctor = _Doctor(settings)
    temporal = await _run("temporal", doctor.temporal, _START_DEV)
    needs_temporal: list[tuple[str, _Step, str]] = [
        ("search attributes", doctor.search_attributes, "run `afterturn migrate --temporal`, or `afterturn dev`"),
        ("task queues", doctor.task_queues, "start a worker: `afterturn worker`"),
        ("sweep schedule", doctor.sweep_schedule, "run `afterturn migrate --temporal`, or `afterturn dev`"),
        ("reconcile schedule", doctor.reconcile_schedule, "run `afterturn migrate --temporal`, or `afterturn dev`"),
    ]
    others: list[tuple[str, _Step, str]] = [
        ("feature flag", doctor.feature_flag, "check AFTERTURN_DATABASE_URL"),
        ("database", doctor.database, "check AFTERTURN_DATABASE_URL"),
        ("object store", doctor.object_store, "check AFTERTURN_OBJECT_STORE_ENDPOINT and its keys, or run `afterturn dev`"),
        ("vectors", doctor.vectors, "check AFTERTURN_VECTOR_URL and AFTERTURN_EMBEDDER, or run `afterturn dev`"),
        ("language model", doctor.language_model, "set AFTERTURN_LANGUAGE_MODEL and the provider's key"),
        ("payload keys", doctor.payload_keys, "see docs/payloads.md"),
        ("spool", doctor.spool, "run `afterturn spool drain`"),
    ]
    if settings.model_fields_set & _API_SETTINGS:
        others.append(("API sign-in", doctor.api, "see AFTERTURN_OIDC_… and AFTERTURN_SESSION_SECRET in the table of settings"))
    first = (Check("settings", ok=True, detail=doctor.settings_line()), temporal)
    if temporal.ok:
        middle = await asyncio.gather(*(_run(*step) for step in needs_temporal))
    else:
        middle = [
            Check(name, ok=False, detail="not looked at: Temporal is away", advice=_START_DEV) for name, _, _ in needs_temporal
        ]
    last = await asyncio.gather(*(_run(*step) for step in others))
    return (*first, *middle, *last)


_API_SETTINGS = frozenset({"oidc_issuer", "oidc_audience", "oidc_client_id", "oidc_jwks_url", "session_secret", "public_url"})
_START_DEV = "run `afterturn dev`, or set TEMPORAL_ADDRESS"


async def _run(name: str, step: _Step, advice: str) -> Check:
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            return Check(name, ok=True, detail=await step())
    except _Wrong as error:
        return Check(name, ok=False, detail=error.detail, advice=error.advice)
    except TimeoutError:
        return Check(name, ok=False, detail=f"no answer within {CHECK_TIMEOUT_S:g} s", advice=advice)
    except AfterturnError as error:
        return Check(name, ok=False, detail=error.message, advice=advice)


class _Doctor:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: Client | None = None

    def settings_line(self) -> str:
        dev = read_dev_file(self._settings.data_dir)
        where = f"`afterturn dev` runs as process {dev['pid']}" if dev else "no `afterturn dev` runs here"
        return f"valid; data folder {self._settings.data_dir.absolute()}; {where}"

    async def temporal(self) -> str:
        try:
            self._client = await connect(self._settings)
            address = address_of(self._client)
            with temporal_errors("the health check", address=address):
                await self._client.service_client.check_health()
        except AfterturnError as error:
            # These messages say what to do behind the semicolon.
            detail, _, advice = error.message.partition("; ")
            raise _Wrong(detail, advice or _START_DEV) from None
        return f"namespace {self._client.namespace} at {address}"

    @property
    def _connected(self) -> Client:
        if self._client is None:
            raise MemoryUnavailable("Temporal is away")
        return self._client

    async def search_attributes(self) -> str:
        client = self._connected
        missing = await missing_attributes(client)
        if missing:
            names = " ".join(f"--name {name} --type {SEARCH_ATTRIBUTE_TYPES[name]}" for name in missing)
            raise _Wrong(
                f"missing: {', '.join(missing)}",
                f"run `afterturn migrate --temporal`, or: temporal operator search-attribute create {names} "
                "(in Temporal Cloud: tcld namespace search-attributes add)",
            )
        return ", ".join(SEARCH_ATTRIBUTES)

    async def task_queues(self) -> str:
        wanted = [
            (TASK_QUEUE, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW, "workflows"),
            (TASK_QUEUE, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY, "store steps"),
            (MODEL_TASK_QUEUE, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY, "model calls"),
        ]
        counts = [(queue, what, await self._pollers(queue, kind)) for queue, kind, what in wanted]
        idle = [f"{queue} ({what})" for queue, what, pollers in counts if not pollers]
        if idle:
            raise _Wrong(f"nobody works on {', '.join(idle)}", "start a worker: `afterturn worker`, or `afterturn dev`")
        return ", ".join(f"{queue} ({what}): {pollers} poll" for queue, what, pollers in counts)

    async def _pollers(self, queue: str, kind: TaskQueueType.ValueType) -> int:
        client = self._connected
        request = DescribeTaskQueueRequest(namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind)
        with temporal_errors("describing a task queue"):
            return len((await client.workflow_service.describe_task_queue(request)).pollers)

    async def sweep_schedule(self) -> str:
        return await self._schedule(SWEEP_SCHEDULE_ID, "turns and events that were recorded but not started stay so")

    async def reconcile_schedule(self) -> str:
        return await self._schedule(RECONCILE_SCHEDULE_ID, "drift between rows and vectors is not looked for")

    async def _schedule(self, schedule_id: str, when_paused: str) -> str:
        with temporal_errors(f"reading the {schedule_id} schedule"):
            described = await self._connected.get_schedule_handle(schedule_id).describe()
        if described.schedule.state.paused:
            raise _Wrong(f"paused: {when_paused}", f"temporal schedule toggle --unpause -s {schedule_id}")
        every = described.schedule.spec.intervals[0].every if described.schedule.spec.intervals else None
        return f"every {every.total_seconds():g} s" if every else "present"

    async def vectors(self) -> str:
        """Collections and payload indexes, and whether they fit the embedder. Makes nothing."""
        local = self._settings.vector_url is None and self._settings.vector_service_url is None
        if local and not (self._settings.data_dir / FOLDER).exists():
            return "Qdrant's engine in the data folder; a worker makes it"
        tables = build_tables(self._settings)
        index = open_search(self._settings, tables, owner="afterturn doctor")
        try:
            await index.vectors.ping()
            missing = await index.missing_indexes()
        finally:
            await index.aclose()
            await tables.aclose()
        if missing:
            raise _Wrong(
                f"payload indexes are missing: {', '.join(missing)}", "start a worker, which makes them, or `afterturn reindex`"
            )
        return f"reachable, embedder {self._settings.embedder}"

    async def feature_flag(self) -> str:
        """Here, and by what the workers did with the last turns: each process has it from its own environment."""
        flag = self._settings.feature_flag
        if not flag:
            raise _Wrong("off for every company in the settings of this process", f"set {FLAG} to true or to a list of companies")
        here = "on for every company" if flag is True else f"on for {len(flag)} of the companies"
        for turn in await self._last_turns():
            skipped = turn.outcome is Outcome.SKIPPED and ReasonCode.FEATURE_FLAG_OFF in (turn.reason or "").split(",")
            if skipped and is_flagged(flag, turn.scope.tenant):
                raise _Wrong(
                    f"{here} in this process, but a worker skipped turns of {turn.scope.tenant} for it",
                    f"start workers with the same {FLAG}, then run `afterturn rerun --skipped --tenant …`",
                )
        return f"{here} in the settings of this process"

    async def payload_keys(self) -> str:
        """Whether running workers read what is encrypted here, and back: what they cannot read stops the run of a user."""
        ours = key_marks(self._settings)
        workers = [one for one in await self._running() if one.kind == "worker" and "payload_keys" in one.flags]
        for worker in workers:
            theirs = [str(mark) for mark in worker.flags["payload_keys"]]
            for here, there, told in (
                (ours, theirs, f"{worker.process_id} cannot read what this process writes: it has not got the key"),
                (theirs, ours, f"this process cannot read what {worker.process_id} writes: it has not got the key"),
            ):
                if here and here[0] not in there:
                    key_id = here[0].partition(":")[0]
                    same = " (only another one of this name)" if key_id in {mark.partition(":")[0] for mark in there} else ""
                    raise _Wrong(f"{told} {key_id}{same}", "give all processes the same AFTERTURN_PAYLOAD_KEYS (docs/payloads.md)")
        here_is = f"{ours[0].partition(':')[0]} encrypts" if ours else "none: in clear"
        return f"{here_is}; {len(workers)} running workers agree"

    async def _running(self) -> Sequence[Process]:
        tables = build_tables(self._settings)
        try:
            return await tables.processes.running(since=datetime.now(UTC) - SEEN_WITHIN)
        except (MemoryUnavailable, InvalidSettings):
            return ()  # the check of the database says what is wrong with it
        finally:
            await tables.aclose()

    async def _last_turns(self) -> Sequence[TurnSummary]:
        tables = build_tables(self._settings)
        try:
            return await tables.log.summaries(limit=LAST_TURNS)
        except (MemoryUnavailable, InvalidSettings):
            return ()  # the check of the database says what is wrong with it
        finally:
            await tables.aclose()

    async def database(self) -> str:
        kind = "PostgreSQL" if self._settings.sqlalchemy_url.startswith("postgresql") else "SQLite"
        try:
            tables = build_tables(self._settings)
            try:
                await tables.log.ping()
            finally:
                await tables.aclose()
        except InvalidSettings as error:
            detail, found, rest = error.message.partition(f": {MIGRATE}")
            raise _Wrong(detail, MIGRATE + rest if found else "check AFTERTURN_DATABASE_URL") from None
        except MemoryUnavailable as error:
            advice = "is the server running? Check AFTERTURN_DATABASE_URL" if kind == "PostgreSQL" else "see who else uses the file"
            raise _Wrong(error.message, advice) from None
        return f"{kind}, at a schema that serves this version"

    async def object_store(self) -> str:
        store = MinioObjectStore.from_settings(self._settings)
        try:
            await Profiles(store, bucket_prefix=self._settings.bucket_prefix).check()
        finally:
            await store.aclose()
        if self._settings.allow_unconditional_writes:
            raise _Wrong(
                f"{self._settings.object_store_endpoint} is used without a guard against lost edits",
                "unset AFTERTURN_ALLOW_UNCONDITIONAL_WRITES on a store that honours conditional writes",
            )
        return f"{self._settings.object_store_endpoint}: conditional writes and versions are honoured"

    async def language_model(self) -> str:
        name = self._settings.language_model
        models = build_models(self._settings)
        try:
            models.model(name)
        except (InvalidInput, InvalidSettings) as error:
            raise _Wrong(error.message, "set AFTERTURN_LANGUAGE_MODEL and the provider's key") from None
        finally:
            await models.aclose()
        if name.split(":")[0] == "simulated":
            return f"{name}: rules, not a language model; set AFTERTURN_LANGUAGE_MODEL for a real one"
        return f"{name}: configured (not called)"

    async def api(self) -> str:
        """Whether the settings of who may ask go together, and whether the issuer's keys can be had from here."""
        from api.auth.issuer import Issuer
        from api.auth.setup import check_access

        settings = self._settings
        check_access(settings)
        if settings.oidc_issuer is None:
            return "service tokens only; no issuer is configured, and nobody can sign in to the pages"
        issuer = Issuer(settings.oidc_issuer, jwks_url=settings.oidc_jwks_url)
        try:
            await issuer.check()
        finally:
            await issuer.aclose()
        pages = "on" if settings.oidc_client_id else "off (AFTERTURN_OIDC_CLIENT_ID)"
        return f"issuer {settings.oidc_issuer}: its keys were fetched; signing in to the pages is {pages}"

    async def spool(self) -> str:
        spool = Spool(self._settings.spool_file, max_bytes=self._settings.spool_max_bytes)
        if not spool.enabled:
            return "switched off"
        waiting = await asyncio.to_thread(spool.waiting_bytes)
        if waiting:
            raise _Wrong(f"{waiting} bytes of turns wait in {spool.path}", "run `afterturn spool drain`")
        return f"empty; takes up to {spool.max_bytes // 2**20} MiB"
