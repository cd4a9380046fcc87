"""A server that the tests of one file share, and how much is sent to the API when it is fuzzed."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from temporalio.client import Client

from memory.settings import load_settings
from starter.engines import S3Server, TemporalServer
from starter.payloads import IN_CLEAR
from tests.support.api import Api, served_api
from tests.support.engines import unique_bucket_prefix
from tests.support.stack import GENEROUS, running_stack


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rest(
    s3_server: S3Server, temporal_server: TemporalServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Api]:
    """The API with workers and the simulated model; each test takes users that no other has. For tests with
    ``pytest.mark.asyncio(loop_scope="module")``."""
    given = {"embedder": "none", "memory_contacts": True, "memory_knowledge": True, "memory_tasks": True}
    given |= {"api_rate_per_minute": 0, "forget_settle_s": 0}
    given |= {**GENEROUS, **s3_server.settings}
    settings = load_settings({}, data_dir=tmp_path_factory.mktemp("rest"), bucket_prefix=unique_bucket_prefix(), **given)
    client = await Client.connect(temporal_server.address, data_converter=IN_CLEAR)
    async with running_stack(client, settings) as stack, served_api(stack) as served:
        yield served


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fuzz-examples",
        type=int,
        default=None,
        metavar="N",
        help="requests per operation of the API; default: few, so that the suite stays quick (for tests/api/test_schemathesis.py)",
    )
