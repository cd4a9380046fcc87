"""Notice sinks: the log, the box for the streams of the API, and a signed webhook.

What a receiver of webhooks needs is in :func:`verify_signature`.

A webhook call is a POST of JSON (:func:`notice_payload`) with the headers

    Content-Type: application/json
    X-Afterturn-Signature: t=<Unix seconds>,v1=<hex HMAC-SHA256 of "<t>.<body>" with the shared secret>
    X-Afterturn-Key: <the notice's key; the same key again is a repeat>

Any 2xx is success. Redirects are not followed, and of the reply only the status is read.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import httpx2

from memory import telemetry
from memory.model import metrics
from memory.model.errors import AfterturnError, InvalidInput, InvalidSettings, MemoryUnavailable
from memory.ports import Notice, Notifier
from memory.ports.service import NoticeBox
from memory.settings import Settings

SIGNATURE_HEADER = "X-Afterturn-Signature"
KEY_HEADER = "X-Afterturn-Key"
SIGNATURE_TOLERANCE_S = 300.0
MAX_CONNECTIONS = 20
MAX_REPLY_BYTES = 16 * 1024

_log = logging.getLogger(__name__)


class LogNotifier:
    """Notices as log lines at level info: ids and steps, never a text of the user."""

    @property
    def name(self) -> str:
        return "log"

    async def send(self, notice: Notice) -> None:
        _log.info(
            "notice %s id=%s tenant=%s user=%s turns=%d outcome=%s",
            notice.step,
            ascii(notice.notice_id),
            notice.scope.tenant,
            notice.scope.user,
            len(notice.turn_ids),
            notice.outcome.value if notice.outcome else "-",
        )

    async def aclose(self) -> None:
        return None


class WebhookNotifier:
    """Posts each notice to one address, signed.

    Args:
        url: ``http(s)://host…``.
        secret: key of the signature, shared with the receiver.
        timeout_s: the whole call, connection included.

    Raises:
        InvalidSettings: the URL is not usable or the secret is empty.
    """

    def __init__(self, url: str, secret: str, *, timeout_s: float) -> None:
        _check_url(url)
        if not secret:
            raise InvalidSettings("AFTERTURN_NOTICE_WEBHOOK_SECRET: needed with AFTERTURN_NOTICE_WEBHOOK_URL")
        self._url = url
        self._secret = secret.encode()
        self._timeout_s = timeout_s
        self._client: httpx2.AsyncClient | None = None

    @property
    def name(self) -> str:
        return "webhook"

    async def send(self, notice: Notice) -> None:
        """Raises MemoryUnavailable when the receiver is away, too slow, or does not answer with a 2xx."""
        body = json.dumps(notice_payload(notice), separators=(",", ":")).encode("ascii")
        headers = {
            "Content-Type": "application/json",
            SIGNATURE_HEADER: sign(self._secret, body, timestamp=int(time.time())),
            KEY_HEADER: hashlib.sha256(notice.key.encode("utf-8", "surrogatepass")).hexdigest(),
        }
        status = 0
        try:
            async with asyncio.timeout(self._timeout_s):
                async with self._open().stream("POST", self._url, content=body, headers=headers) as response:
                    status = response.status_code
                    await _read_a_little(response)
        except (TimeoutError, httpx2.TimeoutException):
            if not status:
                raise MemoryUnavailable(f"the notice webhook did not answer within {self._timeout_s:g} s") from None
        except httpx2.HTTPError as error:
            if not status:
                raise MemoryUnavailable(f"the notice webhook cannot be reached ({type(error).__name__})") from None
        if not 200 <= status < 300:
            raise MemoryUnavailable(f"the notice webhook answered {status}")

    def _open(self) -> httpx2.AsyncClient:
        if self._client is None:
            limits = httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS)
            self._client = httpx2.AsyncClient(timeout=self._timeout_s, limits=limits, follow_redirects=False)
        return self._client

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None


class BoxNotifier:
    """Into the box in the database, from where the API's processes take them to their streams.

    Args:
        timeout_s: the whole write, the wait for the database included.
    """

    def __init__(self, box: NoticeBox, *, timeout_s: float) -> None:
        self._box = box
        self._timeout_s = timeout_s

    @property
    def name(self) -> str:
        return "stream"

    async def send(self, notice: Notice) -> None:
        """Raises MemoryUnavailable when the database is away or too slow."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._box.put(notice, now=datetime.now(UTC))
        except TimeoutError:
            raise MemoryUnavailable(f"the notice box did not take it within {self._timeout_s:g} s") from None

    async def aclose(self) -> None:
        """The box is closed by whoever opened it."""


class FanOut:
    """Every notice to every sink at once; one that fails does not keep it from the others."""

    def __init__(self, sinks: Sequence[LogNotifier | WebhookNotifier | Notifier]) -> None:
        self.sinks = tuple(sinks)

    @property
    def name(self) -> str:
        return "+".join(_name(sink) for sink in self.sinks) or "none"

    async def send(self, notice: Notice) -> None:
        """Raises MemoryUnavailable that sums up which sinks failed; its cause is the group of their errors."""
        results = await asyncio.gather(*(sink.send(notice) for sink in self.sinks), return_exceptions=True)
        failed: list[tuple[str, Exception]] = []
        for sink, result in zip(self.sinks, results, strict=True):
            telemetry.count(metrics.NOTICES, sink=_name(sink), result="sent" if result is None else "failed")
            if isinstance(result, Exception):
                failed.append((_name(sink), result))
            elif result is not None:
                raise result
        if failed:
            told = "; ".join(f"{name}: {_say(error)}" for name, error in failed)
            group = ExceptionGroup("notice sinks", [error for _, error in failed])
            raise MemoryUnavailable(f"{len(failed)} of {len(self.sinks)} notice sinks failed: {told}") from group

    async def aclose(self) -> None:
        for sink in self.sinks:
            close = getattr(sink, "aclose", None)
            if close is not None:
                await close()


def build_notifier(settings: Settings, box: NoticeBox | None = None) -> FanOut:
    """All sinks that the settings name; none of them is a valid choice. Raises InvalidSettings.

    ``box``: what the streams of the API are fed from; without one they get nothing.
    """
    sinks: list[Notifier] = []
    if settings.notice_log:
        sinks.append(LogNotifier())
    if settings.notice_stream and box is not None:
        sinks.append(BoxNotifier(box, timeout_s=settings.notice_timeout_s))
    if settings.notice_webhook_url is not None:
        secret = settings.notice_webhook_secret
        sinks.append(
            WebhookNotifier(
                settings.notice_webhook_url,
                secret.get_secret_value() if secret is not None else "",
                timeout_s=settings.notice_timeout_s,
            )
        )
    return FanOut(sinks)


def notice_payload(notice: Notice) -> dict[str, Any]:
    """The JSON object that a webhook gets. Ids are those of the outside world; times are ISO 8601."""
    return {
        "notice_id": notice.notice_id,
        "key": notice.key,
        "step": notice.step,
        "tenant_id": notice.scope.tenant_id,
        "user_id": notice.scope.user_id,
        "conversation_ids": list(notice.conversation_ids),
        "turn_ids": list(notice.turn_ids),
        "text": notice.text,
        "at": notice.at.isoformat(),
        "expires_at": notice.expires_at.isoformat() if notice.expires_at else None,
        "outcome": notice.outcome.value if notice.outcome else None,
        "review_url": notice.review_url,
    }


def sign(secret: bytes, body: bytes, *, timestamp: int) -> str:
    """The value of the signature header."""
    return f"t={timestamp},v1={_digest(secret, body, timestamp)}"


def verify_signature(
    secret: str, header: str, body: bytes, *, tolerance_s: float = SIGNATURE_TOLERANCE_S, now: float | None = None
) -> None:
    """What a receiver does with a webhook call, before it parses the body.

    Several ``v1`` parts are allowed, one of which must fit (a secret that is being replaced).

    Args:
        secret: the shared secret.
        header: the value of ``X-Afterturn-Signature``.
        body: the raw bytes of the request.
        tolerance_s: a signature older or newer than this is refused, so that a recorded call cannot be sent again later.
        now: Unix time; the clock by default.

    Raises:
        InvalidInput: not signed by the holder of the secret, or too old.
    """
    timestamp: int | None = None
    digests: list[str] = []
    for part in header.split(",")[:20]:
        name, _, value = part.strip().partition("=")
        if name == "t" and value.isascii() and value.isdigit() and len(value) <= 15:
            timestamp = int(value)
        elif name == "v1":
            digests.append(value)
    if timestamp is None or not digests:
        raise InvalidInput(f"{SIGNATURE_HEADER} is not of the form t=…,v1=…")
    expected = _digest(secret.encode(), body, timestamp).encode()
    if not any([hmac.compare_digest(expected, digest.encode("utf-8", "replace")) for digest in digests]):  # noqa: C419
        raise InvalidInput(f"{SIGNATURE_HEADER} does not fit the body and the secret")
    age = (time.time() if now is None else now) - timestamp
    if abs(age) > tolerance_s:
        raise InvalidInput(f"{SIGNATURE_HEADER} is {age:.0f} s old; at most {tolerance_s:.0f} s are accepted")


def _digest(secret: bytes, body: bytes, timestamp: int) -> str:
    return hmac.new(secret, f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()


async def _read_a_little(response: httpx2.Response) -> None:
    """A short reply is read to its end, so that the connection can be used again; a long one is dropped with it."""
    size = 0
    async for chunk in response.aiter_raw():
        size += len(chunk)
        if size > MAX_REPLY_BYTES:
            return


def _check_url(url: str) -> None:
    try:
        parts = httpx2.URL(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.host) and 0 < (80 if parts.port is None else parts.port) < 65536
    except (ValueError, httpx2.InvalidURL):
        usable = False
    if not usable:
        raise InvalidSettings("AFTERTURN_NOTICE_WEBHOOK_URL: not an address of the form https://host/path")


def _name(sink: object) -> str:
    return str(getattr(sink, "name", type(sink).__name__))


def _say(error: Exception) -> str:
    return error.message if isinstance(error, AfterturnError) else type(error).__name__
