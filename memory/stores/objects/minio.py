"""Any S3 server through the ``minio`` SDK. The SDK blocks, so each call runs in one of this adapter's own threads.

No request is repeated by itself, with one exception: a read on a kept-alive connection that the server had closed. Every call
ends within ``timeout_s``, waiting for a thread included; a hung server can hold this adapter's threads, not the process's.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from io import BytesIO
from itertools import islice
from typing import Any, TypeVar
from xml.etree.ElementTree import ParseError

import certifi
import urllib3
from minio import Minio
from minio.commonconfig import ENABLED
from minio.datatypes import Object
from minio.error import InvalidResponseError, MinioException, S3Error, ServerError
from minio.sse import Sse
from minio.versioningconfig import VersioningConfig
from urllib3.exceptions import HTTPError, NewConnectionError, ProtocolError, SSLError
from urllib3.exceptions import TimeoutError as HTTPTimeoutError

from memory.model.errors import AfterturnError, InvalidInput, InvalidSettings, StoreUnavailable
from memory.ports import ObjectInfo, ObjectTooLarge, PreconditionFailed, StoredObject
from memory.settings import Settings
from memory.stores.objects.probe import probe
from memory.stores.objects.rules import MAX_OBJECT_BYTES, check_body, check_bucket_name, check_key, checked_metadata
from memory.telemetry import store_call

T = TypeVar("T")

FAILURES = (MinioException, HTTPError, OSError, ParseError, UnicodeDecodeError)
"""Everything that the SDK raises when the server or the network is at fault."""

_META = "x-amz-meta-"
_CHUNK = 256 * 1024
_MIN_PART = 5 * 1024 * 1024
_PAGE = 1000
_MANY_PAGES = 6
"""What has no limit gets the time of so many."""

_MISSING = frozenset({"NoSuchKey", "NoSuchBucket", "NoSuchVersion"})
_CONFLICT = frozenset({"PreconditionFailed", "ConditionalRequestConflict"})
_PASSING = frozenset({"SlowDown", "RequestTimeout", "Throttling", "ThrottlingException", "TooManyRequests", "OperationAborted"})
_KEYS = "AFTERTURN_OBJECT_STORE_ACCESS_KEY and AFTERTURN_OBJECT_STORE_SECRET_KEY"
_REMEDIES = {
    "InvalidAccessKeyId": f"it does not know the access key; check {_KEYS}",
    "SignatureDoesNotMatch": f"the secret key does not fit the access key; check {_KEYS}",
    "AccessDenied": f"the keys have no right to do this; check {_KEYS} and the policy of that user",
    "AllAccessDisabled": "access is switched off there",
    "AccountProblem": "the account is not in order there",
    "ExpiredToken": f"the keys have expired; renew {_KEYS}",
    "InvalidToken": f"the keys are not valid; renew {_KEYS}",
    "AuthorizationHeaderMalformed": "the region is not the store's; check AFTERTURN_OBJECT_STORE_REGION",
    "PermanentRedirect": "the bucket lives elsewhere; check AFTERTURN_OBJECT_STORE_ENDPOINT and AFTERTURN_OBJECT_STORE_REGION",
    "Redirect": "the bucket lives elsewhere; check AFTERTURN_OBJECT_STORE_ENDPOINT and AFTERTURN_OBJECT_STORE_REGION",
    "RequestTimeTooSkewed": "the clocks of this machine and of the store differ; set them right",
    "NotImplemented": "it does not implement what profiles need (conditional writes and versioning); use another store",
    "BucketAlreadyExists": "the bucket belongs to somebody else; choose another AFTERTURN_BUCKET_PREFIX",
}


class _Condition(Sse):
    """``put_object`` takes no headers, and sends what is called ``If-…`` in its metadata as metadata: the store would
    overwrite. The headers of its encryption argument are sent as they are."""

    def __init__(self, headers: dict[str, str]) -> None:
        self._headers = headers

    def headers(self) -> dict[str, str]:
        return dict(self._headers)

    def tls_required(self) -> bool:
        return False


_SETTLE_S = 3.0


class MinioObjectStore:
    """The port ``ObjectStore`` over S3. Build it with :meth:`from_settings`; close it with :meth:`aclose`."""

    def __init__(
        self,
        endpoint: str,
        *,
        access_key: str,
        secret_key: str,
        region: str = "us-east-1",
        secure: bool = False,
        timeout_s: float = 10.0,
        threads: int = 32,
        allow_unconditional_writes: bool = False,
    ) -> None:
        """Raises InvalidSettings for an endpoint that is not ``host:port`` or for missing keys. Connects to nothing yet."""
        if not access_key or not secret_key:
            raise InvalidSettings(f"the object store needs keys; set {_KEYS}")
        if not endpoint:
            raise InvalidSettings("AFTERTURN_OBJECT_STORE_ENDPOINT is empty; give host:port")
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._allow_unconditional = allow_unconditional_writes
        self._pool = urllib3.PoolManager(
            maxsize=threads,
            timeout=urllib3.Timeout(total=timeout_s),
            retries=False,
            cert_reqs="CERT_REQUIRED",
            ca_certs=ssl.get_default_verify_paths().cafile or certifi.where(),
        )
        try:
            # With the region given, the SDK does not ask for the bucket's location first.
            self._client = Minio(endpoint, access_key, secret_key, secure=secure, region=region, http_client=self._pool)
        except ValueError as error:
            raise InvalidSettings(f"AFTERTURN_OBJECT_STORE_ENDPOINT: {endpoint[:200]!r} is not host:port ({error})") from None
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="objects")
        self._ensured: set[tuple[str, bool]] = set()
        self._ensuring = asyncio.Lock()
        self._closed = False

    @classmethod
    def from_settings(cls, settings: Settings) -> MinioObjectStore:
        return cls(
            settings.object_store_endpoint,
            access_key=settings.object_store_access_key.get_secret_value(),
            secret_key=settings.object_store_secret_key.get_secret_value(),
            region=settings.object_store_region,
            secure=settings.object_store_secure,
            timeout_s=settings.object_store_timeout_s,
            allow_unconditional_writes=settings.allow_unconditional_writes,
        )

    # ------------------------------------------------------------------------------------------------------------ objects

    async def get(
        self, bucket: str, key: str, version_id: str | None = None, *, max_bytes: int | None = None
    ) -> StoredObject | None:
        check_bucket_name(bucket)
        check_key(key)
        return await self._run("read", lambda: self._get(bucket, key, version_id, max_bytes), absent=None, version_id=version_id)

    def _get(self, bucket: str, key: str, version_id: str | None, max_bytes: int | None) -> StoredObject:
        response = self._client.get_object(bucket, key, version_id=version_id)
        try:
            expected = response.headers.get("content-length")
            if max_bytes is not None and expected is not None and int(expected) > max_bytes:
                raise ObjectTooLarge(_info(key, response.headers, int(expected)))
            # Reads what has arrived, so that a server that sends a byte now and then cannot hold the thread.
            deadline = time.monotonic() + self._timeout_s
            chunks: list[bytes] = []
            size = 0
            while chunk := response.read1(_CHUNK):
                chunks.append(chunk)
                size += len(chunk)
                if size > MAX_OBJECT_BYTES:
                    raise InvalidInput(f"the object is larger than the {MAX_OBJECT_BYTES} bytes that are read")
                if time.monotonic() > deadline:
                    raise HTTPTimeoutError("the body came too slowly")
            if expected is not None and int(expected) != size:
                raise ProtocolError("the body is not complete")
            if max_bytes is not None and size > max_bytes:
                raise ObjectTooLarge(_info(key, response.headers, size))
            return StoredObject(_info(key, response.headers, size), b"".join(chunks))
        except BaseException:
            response.close()  # what is left unread must not meet the next request
            raise
        finally:
            response.release_conn()

    async def head(self, bucket: str, key: str, version_id: str | None = None) -> ObjectInfo | None:
        check_bucket_name(bucket)
        check_key(key)

        def call() -> ObjectInfo:
            found = self._client.stat_object(bucket, key, version_id=version_id)
            return _info(key, found.metadata or {}, found.size or 0)

        return await self._run("read", call, absent=None, version_id=version_id)

    async def put(
        self,
        bucket: str,
        key: str,
        data: bytes,
        *,
        content_type: str = "application/octet-stream",
        metadata: Mapping[str, str] | None = None,
        if_match: str | None = None,
        if_absent: bool = False,
    ) -> ObjectInfo:
        check_bucket_name(bucket)
        check_key(key)
        check_body(data)
        kept = checked_metadata(metadata)
        condition = _Condition({"If-Match": f'"{if_match}"'} if if_match else {"If-None-Match": "*"} if if_absent else {})

        def call() -> ObjectInfo:
            written = self._client.put_object(
                bucket,
                key,
                BytesIO(data),
                len(data),
                content_type=content_type,
                metadata={_META + name: value for name, value in kept.items()},
                sse=condition,
                # One part whatever the size: in a multipart upload the condition would be on its start, not on the object.
                part_size=max(len(data), _MIN_PART),
            )
            headers = written.http_headers
            return ObjectInfo(
                key=key,
                etag=_bare_etag(written.etag),
                size=len(data),
                modified_at=_when(headers.get("last-modified") or headers.get("date")),
                version_id=written.version_id,
                metadata=kept,
            )

        try:
            return await self._run("write", call, repeat=False)
        except _MissingError as missing:
            if missing.code == "NoSuchBucket":
                self._forget(bucket)
                raise StoreUnavailable(f"bucket {bucket} does not exist (yet)") from None
            if if_match:
                raise PreconditionFailed("there is no such object") from None
            raise StoreUnavailable(f"the object store answered {missing.code} to a write") from None

    async def delete(self, bucket: str, key: str, version_id: str | None = None) -> None:
        check_bucket_name(bucket)
        check_key(key)
        await self._run("delete", lambda: self._client.remove_object(bucket, key, version_id=version_id), absent=None)

    async def list(self, bucket: str, prefix: str, *, limit: int = 1000, start_after: str | None = None) -> Sequence[ObjectInfo]:
        check_bucket_name(bucket)

        def call() -> list[ObjectInfo]:
            found = self._client.list_objects(bucket, prefix=prefix, recursive=True, start_after=start_after)
            return [_listed(item) for item in islice((item for item in found if not item.is_dir), limit)]

        return await self._run("list", call, absent=[], pages=1 + limit // _PAGE)

    async def list_versions(self, bucket: str, key: str, *, limit: int = 1000) -> Sequence[ObjectInfo]:
        check_bucket_name(bucket)
        check_key(key)

        def call() -> list[ObjectInfo]:
            versions: list[ObjectInfo] = []
            # One page has up to 1,000 versions and, after them, delete markers: take whole pages, then sort and cut.
            for item in self._client.list_objects(bucket, prefix=key, include_version=True):
                if item.object_name == key:
                    versions.append(_listed(item))
                elif item.object_name and item.object_name > key:
                    break
                if len(versions) >= limit + _PAGE:
                    break
            versions.sort(key=lambda info: (info.is_latest, info.modified_at), reverse=True)
            return versions[:limit]

        return await self._run("list", call, absent=[], pages=2 + limit // _PAGE)

    async def folders(self, bucket: str) -> Sequence[str]:
        check_bucket_name(bucket)

        def call() -> list[str]:
            found = self._client.list_objects(bucket, include_version=True)
            return sorted({item.object_name.rstrip("/") for item in found if item.is_dir and item.object_name})

        return await self._run("list", call, absent=[], pages=_MANY_PAGES)

    async def list_all_versions(self, bucket: str, prefix: str) -> Sequence[ObjectInfo]:
        check_bucket_name(bucket)

        def call() -> list[ObjectInfo]:
            found = self._client.list_objects(bucket, prefix=prefix, recursive=True, include_version=True)
            # Some stores show the folders on the way as well.
            return [_listed(item) for item in found if not item.is_dir and (item.object_name or "").startswith(prefix)]

        return await self._run("list", call, absent=[], pages=_MANY_PAGES)

    async def drop_folder(self, bucket: str, prefix: str) -> None:
        check_bucket_name(bucket)
        check_key(prefix.removesuffix("/"))

        def call() -> None:
            found = self._client.list_objects(bucket, prefix=prefix.removesuffix("/"), include_version=True)
            # Asked for by its name first: elsewhere, deleting what is not there leaves a delete marker.
            if any(item.is_dir and item.object_name == prefix for item in found):
                self._client.remove_object(bucket, prefix)

        await self._run("delete", call, absent=None, pages=_MANY_PAGES)

    # ------------------------------------------------------------------------------------------------------------ buckets

    async def ensure_bucket(self, bucket: str, *, versioned: bool = True) -> None:
        check_bucket_name(bucket)
        if (bucket, versioned) in self._ensured:
            return

        def call() -> None:
            try:
                status = self._client.get_bucket_versioning(bucket).status
            except S3Error as error:
                if error.code != "NoSuchBucket":
                    raise
                try:
                    self._client.make_bucket(bucket)
                except S3Error as race:
                    if race.code not in {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}:
                        raise
                status = self._settled_status(bucket)
            if versioned and status != ENABLED:
                self._client.set_bucket_versioning(bucket, VersioningConfig(ENABLED))

        # One caller of this process makes it, the others find it.
        async with self._ensuring:
            if (bucket, versioned) in self._ensured:
                return
            try:
                await self._run("make a bucket", call, repeat=False)
            except _MissingError:
                raise StoreUnavailable(f"bucket {bucket} was made and is not there yet") from None
            self._ensured.add((bucket, versioned))

    def _settled_status(self, bucket: str) -> str | None:
        """Versioning of a bucket that was just made, by us or by another: the store may need a moment to know it everywhere."""
        deadline = time.monotonic() + min(_SETTLE_S, self._timeout_s / 2)
        while True:
            try:
                return self._client.get_bucket_versioning(bucket).status
            except S3Error as error:
                if error.code != "NoSuchBucket" or time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def _forget(self, bucket: str) -> None:
        self._ensured -= {(bucket, True), (bucket, False)}

    async def check(self, bucket: str) -> None:
        self._forget(bucket)
        await probe(self, bucket, allow_unconditional=self._allow_unconditional)

    async def aclose(self) -> None:
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._pool.clear()

    # ---------------------------------------------------------------------------------------------------------- internals

    async def _run(
        self,
        what: str,
        call: Callable[[], T],
        *,
        absent: Any = ...,
        version_id: str | None = None,
        repeat: bool = True,
        pages: int = 1,
    ) -> T | Any:
        """Run it in a thread, within the time-out, and turn its errors into ours. ``absent``: the result for what is missing."""
        with store_call("objects", what):
            return await self._in_thread(what, call, absent, version_id, repeat, pages)

    async def _in_thread(
        self, what: str, call: Callable[[], T], absent: Any, version_id: str | None, repeat: bool, pages: int
    ) -> T | Any:
        if self._closed:
            raise StoreUnavailable("the object store client is closed")
        limit_s = self._timeout_s * pages
        try:
            async with asyncio.timeout(limit_s):
                return await asyncio.get_running_loop().run_in_executor(self._threads, self._call, call, repeat)
        except TimeoutError:
            raise StoreUnavailable(f"the object store at {self._endpoint} did not answer within {limit_s:g} s") from None
        except FAILURES as error:
            if absent is not ... and _is_absent(error, version_id):
                return absent
            raise _translate(error, what, self._endpoint, self._timeout_s) from None

    @staticmethod
    def _call(call: Callable[[], T], repeat: bool) -> T:
        try:
            return call()
        except ProtocolError:
            if not repeat:
                raise
        return call()


class _MissingError(Exception):
    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def _is_absent(error: BaseException, version_id: str | None) -> bool:
    if not isinstance(error, S3Error):
        return False
    # A version id that is not one of the store's is "InvalidArgument"; a delete marker has no content ("MethodNotAllowed").
    return error.code in _MISSING or (
        version_id is not None and error.code in {"InvalidArgument", "MethodNotAllowed", "BadRequest"}
    )


def _translate(error: BaseException, what: str, endpoint: str, timeout_s: float) -> Exception:
    """Ours for theirs. Messages name codes and settings, never a key or a body."""
    where = f"the object store at {endpoint}"
    if isinstance(error, S3Error):
        code, status = error.code or "", error.response.status
        if code in _CONFLICT:
            return PreconditionFailed(code)
        if code in _MISSING:
            return _MissingError(code)
        if code in _REMEDIES:
            return InvalidSettings(f"{where} refused to {what} ({code}): {_REMEDIES[code]}")
        if status >= 500 or status == 429 or code in _PASSING:
            return StoreUnavailable(f"{where} could not {what} now ({code or status})")
        return InvalidInput(f"{where} refused to {what} ({code or status})")
    return _unreachable(error, what, where, timeout_s)


def _unreachable(error: BaseException, what: str, where: str, timeout_s: float) -> AfterturnError:
    if isinstance(error, ServerError):
        return StoreUnavailable(f"{where} could not {what} now (HTTP {error.status_code})")
    if isinstance(error, InvalidResponseError | ParseError | UnicodeDecodeError):
        return StoreUnavailable(f"{where} does not answer as an S3 server; check AFTERTURN_OBJECT_STORE_ENDPOINT")
    if isinstance(error, SSLError):
        return StoreUnavailable(f"{where}: no TLS connection; check AFTERTURN_OBJECT_STORE_SECURE, and SSL_CERT_FILE for its CA")
    # A refused connection is, to urllib3, a kind of time-out.
    if isinstance(error, HTTPTimeoutError) and not isinstance(error, NewConnectionError):
        return StoreUnavailable(f"{where} did not answer within {timeout_s:g} s")
    return StoreUnavailable(f"{where} cannot be reached ({type(error).__name__})")


def _info(key: str, headers: Mapping[str, str], size: int) -> ObjectInfo:
    lower = {name.lower(): value for name, value in headers.items()}
    return ObjectInfo(
        key=key,
        etag=_bare_etag(lower.get("etag")),
        size=size,
        modified_at=_when(lower.get("last-modified")),
        version_id=lower.get("x-amz-version-id"),
        metadata={name[len(_META) :]: value for name, value in lower.items() if name.startswith(_META)},
    )


def _listed(item: Object) -> ObjectInfo:
    return ObjectInfo(
        key=item.object_name or "",
        etag=_bare_etag(item.etag),
        size=item.size or 0,
        modified_at=item.last_modified or datetime.fromtimestamp(0, UTC),
        version_id=item.version_id,
        is_latest=str(item.is_latest or "true").lower() == "true",
        is_delete_marker=item.is_delete_marker,
    )


def _bare_etag(etag: str | None) -> str:
    return (etag or "").removeprefix("W/").replace('"', "")


def _when(header: str | None) -> datetime:
    try:
        return parsedate_to_datetime(header or "").astimezone(UTC)
    except ValueError:
        return datetime.now(UTC)
