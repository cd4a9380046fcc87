"""Real engines for tests: one S3 server and one Temporal server per session, started when a test first asks for them."""

from __future__ import annotations

import argparse
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from memory.settings import Settings, load_settings
from memory.stores.objects.minio import MinioObjectStore
from starter.engines import S3Server, TemporalServer, engine_binary
from starter.payloads import IN_CLEAR

LOCAL = "local"
TIME_SKIPPING = "time-skipping"


def _environment(text: str) -> str:
    host, _, port = text.rpartition(":")
    if text in {LOCAL, TIME_SKIPPING} or (host and port.isdigit()):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is none of {LOCAL}, {TIME_SKIPPING}, HOST:PORT")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--workflow-environment",
        type=_environment,
        default=LOCAL,
        metavar=f"{LOCAL}|{TIME_SKIPPING}|HOST:PORT",
        help="the Temporal of workflow tests: an own development server (default), the time-skipping one, or a running one",
    )


@pytest.fixture(scope="session")
def engine_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data folder of the session's engines."""
    return tmp_path_factory.mktemp("engines")


@pytest.fixture(scope="session")
def s3_server(engine_dir: Path) -> Iterator[S3Server]:
    """A running S3 server that all tests share: do not stop it, use `own_s3_server` for that."""
    with S3Server(engine_dir, stop_grace_s=2) as server:
        yield server


@pytest.fixture
def own_s3_server(tmp_path: Path) -> Iterator[S3Server]:
    """A running S3 server for this test alone, which may kill and restart it."""
    with S3Server(tmp_path / "own", stop_grace_s=2) as server:
        yield server


def unique_bucket_prefix() -> str:
    """Of the form that settings accept; no two tests share buckets."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def s3_settings(s3_server: S3Server, tmp_path: Path) -> Callable[..., Settings]:
    """Build Settings that point at the shared S3 server, with a data folder and buckets of this test's own.

    The buckets are the same for all calls within a test; keyword arguments override any setting.
    """
    prefix = unique_bucket_prefix()

    def build(**overrides: Any) -> Settings:
        return load_settings(
            {}, **{"data_dir": tmp_path / "data", "bucket_prefix": prefix, "embedder": "none", **s3_server.settings, **overrides}
        )

    return build


@pytest.fixture
async def s3_store(s3_settings: Callable[..., Settings]) -> AsyncIterator[MinioObjectStore]:
    """The S3 adapter on the shared server."""
    store = MinioObjectStore.from_settings(s3_settings())
    yield store
    await store.aclose()


@pytest.fixture(scope="session")
def temporal_server(engine_dir: Path) -> Iterator[TemporalServer]:
    """A running Temporal development server (in memory, no UI) that all tests share: do not stop it."""
    with TemporalServer(engine_dir, in_memory=True, ui=False, stop_grace_s=2) as server:
        yield server


@pytest.fixture
def own_temporal_server(tmp_path: Path) -> Iterator[TemporalServer]:
    """A running Temporal development server with a database file for this test alone, which may kill and restart it."""
    with TemporalServer(tmp_path / "own", ui=False, stop_grace_s=2) as server:
        yield server


@pytest.fixture
async def workflow_environment(request: pytest.FixtureRequest) -> AsyncIterator[WorkflowEnvironment]:
    """The Temporal that `--workflow-environment` names."""
    chosen = str(request.config.getoption("--workflow-environment"))
    if chosen == TIME_SKIPPING:
        async with await WorkflowEnvironment.start_time_skipping(
            data_converter=IN_CLEAR, test_server_existing_path=str(engine_binary("temporal-test-server"))
        ) as environment:
            yield environment
        return
    if chosen == LOCAL:
        server: TemporalServer = request.getfixturevalue("temporal_server")
        chosen = server.address
    yield WorkflowEnvironment.from_client(await Client.connect(chosen, data_converter=IN_CLEAR))


@pytest.fixture
async def temporal_client(workflow_environment: WorkflowEnvironment) -> Client:
    """A client with the project's data converter."""
    return workflow_environment.client
