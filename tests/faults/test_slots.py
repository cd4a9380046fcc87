"""FAULTS 35: steps that block beyond their time-out, again and again. Slots and threads come back."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from datetime import timedelta

import psutil
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError
from temporalio.exceptions import TimeoutError as StepTimedOut
from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkerTuner

from activities.heartbeat import heartbeats
from memory.stores.objects.minio import MinioObjectStore
from starter.engines import S3Server
from tests.support.waiting import until

SLOTS, THREADS, TRIES = 2, 4, 10


class Blocking:
    def __init__(self, store: MinioObjectStore) -> None:
        self._store = store
        self.begun = 0

    @activity.defn(name="read_blocking")
    async def read(self) -> bool:
        self.begun += 1
        async with heartbeats():
            return await self._store.get("bucket-of-slots", "nothing") is None


@workflow.defn(name="ReadBlocking")
class ReadBlocking:
    @workflow.run
    async def run(self, within_s: float, tries: int) -> bool:
        found: bool = await workflow.execute_activity(
            "read_blocking",
            result_type=bool,
            start_to_close_timeout=timedelta(seconds=within_s),
            heartbeat_timeout=timedelta(seconds=within_s),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=10), backoff_coefficient=1, maximum_attempts=tries),
        )
        return found


def threads_of_the_store() -> int:
    return sum(thread.name.startswith("objects") for thread in threading.enumerate())


async def test_slots_and_threads_come_back_after_repeated_time_outs(own_s3_server: S3Server, temporal_client: Client) -> None:
    """The store freezes: its driver blocks in a thread for much longer than the step may take, and no cancellation ends that."""
    engine = own_s3_server.settings
    before = threads_of_the_store()
    store = MinioObjectStore(
        engine["object_store_endpoint"],
        access_key=engine["object_store_access_key"],
        secret_key=engine["object_store_secret_key"],
        timeout_s=60,
        threads=THREADS,
    )
    steps = Blocking(store)
    await store.ensure_bucket("bucket-of-slots")
    pid = own_s3_server.pid
    assert pid is not None
    queue = f"slots-{os.getpid()}"
    worker = Worker(
        temporal_client,
        task_queue=queue,
        workflows=[ReadBlocking],
        activities=[steps.read],
        workflow_runner=UnsandboxedWorkflowRunner(),
        tuner=WorkerTuner.create_fixed(activity_slots=SLOTS),
    )

    async def read(name: str, within_s: float, tries: int) -> bool:
        return await temporal_client.execute_workflow(
            "ReadBlocking", args=[within_s, tries], id=f"{queue}-{name}", task_queue=queue, result_type=bool
        )

    async with worker:
        assert await read("well", 30, 1)
        os.kill(pid, signal.SIGSTOP)
        try:
            await until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
            # More of them than there are slots or threads.
            ended = await asyncio.gather(*(read(f"frozen-{n}", 0.3, TRIES // SLOTS) for n in range(SLOTS)), return_exceptions=True)
        finally:
            os.kill(pid, signal.SIGCONT)
        for error in ended:
            assert isinstance(error, WorkflowFailureError)
            assert isinstance(error.cause, ActivityError)
            assert isinstance(error.cause.cause, StepTimedOut)
        assert steps.begun == 1 + TRIES, "each try got a slot although those before it still block in their threads"
        assert threads_of_the_store() - before <= THREADS
        assert await read("again", 30, 1)
        assert all(await asyncio.gather(*(read(f"many-{n}", 30, 1) for n in range(3 * THREADS))))
    await store.aclose()
    await until(lambda: threads_of_the_store() <= before, what="the threads end")
