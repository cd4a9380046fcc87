"""What the answering path costs: ``load`` beside a bare read of the same file, ``after_answer`` beside a bare signal-with-start."""

from __future__ import annotations

import statistics
from typing import Final

from minio import Minio

from bench.bare import BARE_WORKFLOW, UNWORKED_QUEUE, WAKE
from bench.results import BenchError, Reach, Row, ratio_row
from bench.world import TENANT, World, make_turn, open_world, timed
from memory.model.directory import DEFAULT_ROOT_FOLDER
from memory.model.scope import Scope
from starter.views import ReceiptStatus

ROUNDS: Final = 7
CALLS: Final = 60
"""Per round and side, one of each in turn."""
WARM_UP: Final = 30
BULLETS: Final = 48
"""A profile of about 1,200 tokens: the token count is not spared by the size of the file."""
MOST: Final = Reach(most=1.5)


async def load() -> list[Row]:
    """The bare side is one blocking ``get_object`` with its body read, without a thread between."""
    async with open_world(worker=False) as world:
        scope = Scope.of(TENANT, "reader")
        await world.seed(scope, bullets=BULLETS)
        bucket, key = world.profiles.bucket(scope.tenant), world.profiles.key(scope, DEFAULT_ROOT_FOLDER)
        minio = _minio(world)
        size = 0

        async def bare() -> None:
            nonlocal size
            response = minio.get_object(bucket, key)
            try:
                size = len(response.read())
            finally:
                response.close()
                response.release_conn()

        async def ours() -> None:
            loaded = await world.memory.load(scope, allow_user_memory=True)
            if not loaded.body or loaded.tokens is None:
                raise BenchError(f"load gave no memory: {loaded.reason}: {loaded.detail}")

        for _ in range(WARM_UP):
            await bare()
            await ours()
        mine: list[float] = []
        theirs: list[float] = []
        for _ in range(ROUNDS):
            pairs = [(await timed(ours), await timed(bare)) for _ in range(CALLS)]
            mine.append(statistics.median(pair[0] for pair in pairs))
            theirs.append(statistics.median(pair[1] for pair in pairs))
        row = ratio_row(
            "load p50",
            mine,
            theirs,
            compared_with="a bare get_object of the same file",
            reach=MOST,
            scale=1000,
            unit_of_both="ms",
            file_bytes=size,
        )
    return [row]


async def after_answer() -> list[Row]:
    """Every turn is a new user's and every bare call a new workflow; nobody works on either, so both pay the server's part only."""
    async with open_world(worker=False) as world:
        count = 0

        async def ours() -> None:
            receipt = await world.memory.after_answer((TENANT, f"user-{count}"), make_turn(f"turn-{count}", update=False))
            if receipt.status is not ReceiptStatus.RECORDED or not receipt.started:
                raise BenchError(f"after_answer gave {receipt.status}, started {receipt.started}: {receipt.reason}")

        async def bare() -> None:
            await world.client.start_workflow(BARE_WORKFLOW, id=f"bare-{count}", task_queue=UNWORKED_QUEUE, start_signal=WAKE)

        mine: list[float] = []
        theirs: list[float] = []
        for position in range(-1, ROUNDS):  # the first round warms up
            pairs: list[tuple[float, float]] = []
            for _ in range(WARM_UP if position < 0 else CALLS):
                count += 1
                pairs.append((await timed(ours), await timed(bare)))
            if position >= 0:
                mine.append(statistics.median(pair[0] for pair in pairs))
                theirs.append(statistics.median(pair[1] for pair in pairs))
        row = ratio_row(
            "after_answer p50",
            mine,
            theirs,
            compared_with="a bare signal-with-start",
            reach=MOST,
            scale=1000,
            unit_of_both="ms",
        )
    return [row]


def _minio(world: World) -> Minio:
    settings = world.settings
    return Minio(
        settings.object_store_endpoint,
        settings.object_store_access_key.get_secret_value(),
        settings.object_store_secret_key.get_secret_value(),
        region=settings.object_store_region,
        secure=False,
    )
