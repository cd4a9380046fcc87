"""`make dashboards`: a real Prometheus with our rules looks at real processes while each dependency goes away in turn.

The alert of each outage has to fire, and to end when the dependency is back, without hands. Time is scaled: an hour of the rules is
three minutes here. At the end both dashboards are drawn for docs/img. Minutes long, so it is no part of `make test`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from memory.settings import Settings
from memory.stores.tables import build_tables
from starter.engines import S3Server, TemporalServer
from starter.processes import free_ports
from starter.schedules import ensure_schedules
from starter.temporal import connect, ensure_search_attributes
from tests.api.test_auth_service import stored
from tests.api.test_serve import Served, serving
from tests.deploy.drawing import Prometheus, draw
from tests.deploy.monitoring import DASHBOARDS, ROOT, RULE_FILES, dashboard
from tests.support.fleet import Command, as_environment, migrated_file, server_of, worker_command, world_settings
from tests.support.postgres import PostgresServer
from tests.support.servers import ModelServer, VectorService
from tests.support.waiting import until

SCALE = 20
PICTURES = ROOT / "docs/img"
USERS = [(company, f"{company}-{number}") for company in ("acme", "globex", "initech") for number in range(3)]
SAID = (
    "My name is {name} and I work at Globex.",
    "I live in Lisbon.",
    "Thanks!",
    "Please answer in short sentences from now on.",
    "I moved to Porto last week.",
    "What is the capital of Peru?",
    "The beta goes out on {day} October.",
    "I am learning Rust.",
    "The permit for Harbour Street is valid until March.",
    "Our office is on the third floor of the Baltic House.",
    "Please remind me to order the survey on Friday.",
)
STAYS_EMPTY = {
    "Activities that failed",
    "Alerts that fire",
    "Drift that was mended",
    "Forgotten users",
    "Input from the prompt cache",
    "Items that were dropped",
    "Workflow tasks that failed",
    "Lost turns",
}
"""Panels that a run without such a case may leave without data."""


SLOW = {"AfterturnWorkflowTasksLate", "AfterturnActivitiesLate", "AfterturnApiSlow", "AfterturnMemoryStale"}
"""What only says that everything runs on one machine."""


def scaled(text: str) -> str:
    """Rules whose ranges and patience are a twentieth."""

    def shorter(found: re.Match[str]) -> str:
        seconds = int(found[2]) * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[found[3]]
        return f"{found[1]}{max(3, round(seconds / SCALE))}s{found[4]}"

    text = re.sub(r"(\[)(\d+)([smhd])(\])", shorter, text)
    return re.sub(r"(\bfor: )(\d+)([smhd])()$", shorter, text, flags=re.MULTILINE)


@asynccontextmanager
async def prometheus(folder: Path, targets: dict[str, str]) -> AsyncGenerator[str]:
    """A running server with our rules, in scaled time; its address."""
    program = shutil.which("prometheus")
    if program is None:
        missing = "there is no prometheus on this machine: apt-get install prometheus"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    (folder / "rules").mkdir(parents=True)
    for path in RULE_FILES:
        (folder / "rules" / path.name).write_text(scaled(path.read_text("utf-8")), "utf-8")
    jobs = [{"job_name": job, "static_configs": [{"targets": [target]}]} for job, target in targets.items()]
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "rules/*.yaml")],
        "scrape_configs": jobs,
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config), "utf-8")
    (port,) = free_ports(1)
    with (folder / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            program,
            f"--config.file={folder}/prometheus.yaml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}",
            stdout=log,
            stderr=log,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx2.AsyncClient(base_url=url, timeout=5) as http:

            async def ready() -> bool:
                assert process.returncode is None, (folder / "prometheus.log").read_text("utf-8")
                with suppress(httpx2.HTTPError):
                    return (await http.get("/-/ready")).status_code == 200
                return False

            await until(ready, within_s=30, what="Prometheus is ready")
        yield url
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


class Talk:
    """Users who talk through the API for as long as the block runs, whatever is down."""

    def __init__(self, base: str, tokens: dict[str, str]) -> None:
        self._base, self._tokens = base, tokens
        self._random = random.Random(7)

    async def __aenter__(self) -> Talk:
        self._http = httpx2.AsyncClient(base_url=self._base, timeout=10)
        self._tasks = [asyncio.create_task(self._user(*one)) for one in USERS]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._http.aclose()

    async def _user(self, company: str, user: str) -> None:
        headers = {"Authorization": f"Bearer {self._tokens[company]}", "Afterturn-User": user}
        while True:
            said = self._random.choice(SAID).format(name=user.title().replace("-", " "), day=self._random.randint(1, 30))
            turn = {"turn_id": uuid.uuid4().hex, "user_text": said, "assistant_text": "Noted.", "allow_user_memory": True}
            with suppress(httpx2.HTTPError):
                await self._http.get("/v1/memory", params={"allow_user_memory": True}, headers=headers)
                await self._http.post("/v1/turns", json=turn, headers=headers)
                if self._random.random() < 0.08:
                    await self._http.post("/v1/knowledge/ask", json={"text": "Who lives in Porto?"}, headers=headers)
                if self._random.random() < 0.1:
                    await self._http.post("/v1/facts/search", json={"query": "Porto"}, headers=headers)
            await asyncio.sleep(self._random.uniform(1.5, 3.5))


class Alerts:
    """What fires, as Prometheus says."""

    def __init__(self, url: str) -> None:
        self._http = httpx2.AsyncClient(base_url=url, timeout=10)

    async def firing(self) -> list[dict[str, str]]:
        reply = (await self._http.get("/api/v1/alerts")).json()
        return [one["labels"] for one in reply["data"]["alerts"] if one["state"] == "firing"]

    async def of_outages(self) -> list[dict[str, str]]:
        return [one for one in await self.firing() if one["alertname"] not in SLOW]

    async def fires(self, name: str, **labels: str) -> bool:
        return any(one["alertname"] == name and labels.items() <= one.items() for one in await self.firing())

    async def has_ended(self, name: str, **labels: str) -> bool:
        return not await self.fires(name, **labels)

    async def aclose(self) -> None:
        await self._http.aclose()


Step = Callable[[], Awaitable[Any]]


async def test_each_outage_is_told_and_ends(
    tmp_path: Path, own_s3_server: S3Server, own_temporal_server: TemporalServer, postgres_server: PostgresServer
) -> None:
    database = postgres_server.create_database(migrated=True)
    ports = dict(zip(("workflows", "models", "api"), free_ports(3), strict=True))
    async with AsyncExitStack() as exits:
        vectors = await exits.enter_async_context(VectorService(tmp_path / "vectors"))
        model = exits.enter_context(ModelServer())
        settings = world_settings(
            tmp_path / "data",
            migrated_file(tmp_path),
            {**own_s3_server.settings, **vectors.settings, **model.settings},
            database_url=postgres_server.url(database),
            load_budget_ms=300,
            after_answer_budget_ms=500,
            sweep_interval_s=3,
            sweep_grace_s=2,
            window_size=6,
            window_retry_s=5,
            window_attempts=10,
            memory_knowledge=True,
            memory_contacts=True,
            memory_tasks=True,
            metrics_address="127.0.0.1:1",
            model_prices={"openai:stub": [0.4, 0.1, 1.6]},
        )
        client = await connect(settings, address=own_temporal_server.address, namespace="default")
        await ensure_search_attributes(client)
        await ensure_schedules(client, settings)

        def settings_of(process: str) -> Settings:
            return settings.model_copy(update={"metrics_address": f"127.0.0.1:{ports[process]}"})

        def worker(queue: str) -> Any:
            return worker_command(settings_of(queue), client, tmp_path / f"{queue}-{uuid.uuid4().hex[:6]}.err", queue)

        async def replaced(process: Any) -> None:
            process.kill()
            await process.wait()

        env = {**as_environment(settings_of("api")), **server_of(client)}
        tokens: dict[str, str] = {}
        tables = build_tables(settings)
        for company in dict.fromkeys(company for company, _ in USERS):
            tokens[company] = (await stored(tables.tokens, company, "read", "write")).text
        await tables.aclose()
        await exits.enter_async_context(worker("workflows"))
        models: Command = await exits.enter_async_context(worker("models"))
        api: Served = await exits.enter_async_context(serving(tmp_path, env))
        targets = {f"afterturn-{name}": f"127.0.0.1:{port}" for name, port in ports.items()}
        url = await exits.enter_async_context(prometheus(tmp_path / "prometheus", targets))
        alerts, began = Alerts(url), time.time()
        exits.push_async_callback(alerts.aclose)
        async with Talk(api.base, tokens):
            await until(lambda: _has_swept(url), within_s=60, what="turns are processed and seen", every_s=0.5)
            await asyncio.sleep(45)
            assert await alerts.of_outages() == [], "while all is well nothing fires"

            async def start_postgres() -> None:
                # In this thread: the server ends with the thread that started it.
                postgres_server.start()

            async def bring_models() -> None:
                await exits.enter_async_context(worker("models"))

            tour: list[tuple[str, dict[str, str], Step, Step]] = [
                ("AfterturnStoreErrors", {"store": "objects"}, own_s3_server.stop, own_s3_server.start),
                ("AfterturnStoreErrors", {"store": "vectors"}, vectors.stop, vectors.start),
                (
                    "AfterturnModelErrors",
                    {"model": "openai:stub"},
                    lambda: asyncio.to_thread(model.stop),
                    lambda: asyncio.to_thread(model.start),
                ),
                ("AfterturnNoPollers", {"task_queue": "afterturn-llm"}, lambda: replaced(models.process), bring_models),
                ("AfterturnTemporalUnreachable", {}, own_temporal_server.stop, own_temporal_server.start),
                ("AfterturnSpooling", {}, lambda: asyncio.to_thread(postgres_server.stop), start_postgres),
            ]
            seen: dict[str, set[str]] = {}
            for name, labels, take_away, bring_back in tour:
                seen[next(iter(labels.values()), name)] = await _through(alerts, name, labels, take_away, bring_back)
            await until(lambda: _nothing(alerts), within_s=240, what="everything is well again", every_s=1)
            await asyncio.sleep(20)
            source = Prometheus(url, rate="15s", span=f"{int(time.time() - began)}s")
            exits.callback(source.close)
            for path in DASHBOARDS:
                picture = PICTURES / f"dashboard-{path.stem}.png"
                filled = await asyncio.to_thread(draw, dashboard(path), source, begin=began, end=time.time(), to=picture)
                empty = {title for title, series in filled.items() if not series}
                assert empty <= STAYS_EMPTY, empty - STAYS_EMPTY
            await replaced(api.process)
            await until(lambda: alerts.fires("AfterturnApiDown"), within_s=60, what="AfterturnApiDown fires", every_s=0.5)
        print(json.dumps({what: sorted(names) for what, names in seen.items()}, indent=1))  # noqa: T201 - for docs/operate.md


async def _has_swept(url: str) -> bool:
    async with httpx2.AsyncClient(base_url=url, timeout=5) as http:
        asked = {"query": "afterturn:turns_kept:ratio_rate15m >= 0 and on () afterturn:sweep_age_seconds:min < 60"}
        return bool((await http.get("/api/v1/query", params=asked)).json()["data"]["result"])


async def _through(alerts: Alerts, name: str, labels: dict[str, str], take_away: Step, bring_back: Step) -> set[str]:
    """One outage until its alert fires, and until it ends. Returns all alerts that fired by then."""
    await take_away()
    await until(lambda: alerts.fires(name, **labels), within_s=150, what=f"{name} {labels} fires", every_s=0.5)
    told = {one["alertname"] for one in await alerts.firing()}
    await bring_back()
    await until(lambda: alerts.has_ended(name, **labels), within_s=150, what=f"{name} {labels} ends", every_s=0.5)
    return told


async def _nothing(alerts: Alerts) -> bool:
    return not await alerts.of_outages()
