"""The codec server: decrypts (and encrypts) payloads for the Temporal Web UI and the command `temporal`, which have no keys.

The protocol is Temporal's: POST …/decode and …/encode with a ``Payloads`` message as JSON. On a loopback address nobody is asked
who they are: whoever reaches it is on this machine, and pages of other origins than the Web UI's are refused. At any other address
a token of the configured issuer is needed that names the operators' role.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import structlog
from google.protobuf import json_format
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.converter import PayloadCodec

from api.auth.claims import ClaimNames, claim, words_of
from api.auth.issuer import Issuer
from api.auth.tokens import TokenVerifier, bearer
from api.problems import ApiError, Forbidden, Unauthenticated
from memory.model.errors import AfterturnError, InvalidSettings, MemoryUnavailable
from memory.settings import Settings, read_dev_file
from memory.settings_api import LOOPBACK, split_address
from memory.stores.http_server import serving
from starter.payloads import ENCODING, data_converter
from starter.until_told import until_told

NAME: Final = "the codec server"
MAX_BODY_BYTES: Final = 32 * 1024 * 1024
"""A page of a history: Temporal allows 50 MB for the whole of one, 2 MiB for one payload, and base64 adds a third."""
MAX_PAYLOADS: Final = 20_000
AT_ONCE: Final = 256
"""Connections, idle ones too."""
LARGE_BYTES: Final = 256 * 1024
"""Beyond this a body is worked on in a thread, so that others are answered meanwhile."""
LARGE_AT_ONCE: Final = 4
"""A large one takes ten times its bytes while it is worked on; the others wait."""
BODY_WITHIN_S: Final = 20.0
_PART: Final = 100
"""So many payloads, then others are answered."""

_log = structlog.get_logger("afterturn.codec")


@dataclass(frozen=True, slots=True)
class Operators:
    """Whose token may decode. The issuer is that of the API; audience and role may be the Web UI's own."""

    verifier: TokenVerifier
    role: str

    async def check(self, request: Request) -> None:
        """Raises Unauthenticated, Forbidden, MemoryUnavailable."""
        token = bearer(request)
        if token is None:
            raise Unauthenticated("send the token of an operator: Authorization: Bearer …")
        claims = await self.verifier.claims(token)
        if self.role not in words_of(claim(claims, self.verifier.names.roles)):
            raise Forbidden(f"the token has not the role {self.role!r} in its claim {self.verifier.names.roles!r}")


def codec_app(codec: PayloadCodec, *, origins: Sequence[str], hosts: Sequence[str] = (), operators: Operators | None) -> Starlette:
    """The application.

    Args:
        codec: with the keys.
        origins: of Web UIs, ``https://host[:port]``; pages of all others are refused.
        hosts: names under which it may be asked for; none: any. Keeps pages out that let a name of their own lead to this machine.
        operators: None: nobody is asked for a token.
    """

    large_ones = asyncio.Semaphore(LARGE_AT_ONCE)

    async def answer(request: Request) -> Response:
        if hosts and (request.url.hostname or "") not in hosts:
            raise ApiError(421, "misdirected-request", f"ask for one of: {', '.join(hosts)}")
        origin = request.headers.get("origin")
        if origin is not None and origin not in origins:
            raise Forbidden("pages of this origin may not ask here (AFTERTURN_TEMPORAL_UI_URL names the Web UI)")
        if operators is not None:
            await operators.check(request)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            # What a browser sends without asking first is never this.
            raise ApiError(415, "unsupported-media-type", "send the payloads as application/json")
        decoding = request.url.path.endswith("/decode")
        async with nullcontext() if _is_small(request) else large_ones:
            body = await _body(request)
            given = await _read(body)
            made = await (_decoded if decoding else _encoded)(codec, given)
            _log.info("codec", operation="decode" if decoding else "encode", payloads=len(given.payloads))
            return Response(await _written(made, large=len(body) > LARGE_BYTES), media_type="application/json")

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    # Any depth, since the CLI and the Web UI may be told an address for each namespace: https://codec/{namespace}.
    paths = ("/decode", "/encode", "/{namespace:path}/decode", "/{namespace:path}/encode")
    middleware = [
        Middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["POST"],
            allow_headers=["content-type", "x-namespace", "authorization"],
            # For a proxy before this server that knows people by its cookies; this server itself looks at none.
            allow_credentials=True,
            allow_private_network=True,
        )
    ]
    return Starlette(
        routes=[Route("/healthz", health), *(Route(path, answer, methods=["POST"]) for path in paths)],
        middleware=middleware,
        exception_handlers={ApiError: _refused, AfterturnError: _failed},
    )


def _is_small(request: Request) -> bool:
    """By its own word, which the server holds it to."""
    declared = request.headers.get("content-length", "")
    return declared.isdecimal() and len(declared) < 10 and int(declared) <= LARGE_BYTES


async def _body(request: Request) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise ApiError(413, "too-large", f"at most {MAX_BODY_BYTES} bytes are accepted")
    except TimeoutError:
        raise ApiError(408, "too-slow", f"the body did not come within {BODY_WITHIN_S:g} s") from None
    return bytes(body)


async def _read(body: bytes) -> Payloads:
    try:
        if len(body) > LARGE_BYTES:
            given = await asyncio.to_thread(json_format.Parse, body, Payloads(), ignore_unknown_fields=True)
        else:
            given = json_format.Parse(body, Payloads(), ignore_unknown_fields=True)
    except (json_format.ParseError, UnicodeDecodeError, RecursionError):
        raise ApiError(400, "invalid-input", 'send {"payloads": [{"metadata": {…}, "data": "…"}]}, all values in base64') from None
    if len(given.payloads) > MAX_PAYLOADS:
        raise ApiError(413, "too-large", f"at most {MAX_PAYLOADS} payloads are accepted")
    return given


async def _written(payloads: Payloads, *, large: bool) -> str:
    return await asyncio.to_thread(json_format.MessageToJson, payloads) if large else json_format.MessageToJson(payloads)


async def _encoded(codec: PayloadCodec, given: Payloads) -> Payloads:
    made: list[Payload] = []
    for start in range(0, len(given.payloads), _PART):
        made += await codec.encode(given.payloads[start : start + _PART])
        await asyncio.sleep(0)
    return Payloads(payloads=made)


async def _decoded(codec: PayloadCodec, given: Payloads) -> Payloads:
    """One that cannot be decrypted stays as it is and does not hide the others. Raises InvalidSettings: none can."""
    made: list[Payload] = []
    encrypted, failed, why = 0, 0, ""
    for place, payload in enumerate(given.payloads):
        if place % _PART == 0:
            await asyncio.sleep(0)
        encrypted += payload.metadata.get("encoding") == ENCODING.encode()
        try:
            made += await codec.decode([payload])
        except InvalidSettings as error:
            failed, why = failed + 1, error.message
            made.append(payload)
    if failed:
        _log.warning("payloads_not_decrypted", count=failed, of=encrypted, reason=why)
    if failed and failed == encrypted:
        raise InvalidSettings(why)
    return Payloads(payloads=made)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)  # noqa: S101
    return JSONResponse({"error": error.detail}, error.status, headers=error.headers)


async def _failed(_: Request, error: Exception) -> Response:
    assert isinstance(error, AfterturnError)  # noqa: S101
    return JSONResponse({"error": error.message}, 503 if isinstance(error, MemoryUnavailable) else 400)


# ------------------------------------------------------------------------------------------------------------- from settings


def origin_of(url: str) -> str:
    """``https://host[:port]``, as browsers name the origin of a page."""
    parts = urlsplit(url)
    port = "" if parts.port in {None, {"http": 80, "https": 443}.get(parts.scheme)} else f":{parts.port}"
    host = parts.hostname or ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}"


def web_ui_origins(settings: Settings) -> tuple[str, ...]:
    """Of the Web UI that the settings name, else of a running `afterturn dev`; a name of this machine counts for all of them."""
    url = settings.temporal_ui_url or str(read_dev_file(settings.data_dir).get("urls", {}).get("web_ui") or "")
    if not url:
        return ()
    origin = origin_of(url)
    scheme, host = origin.partition("://")[0], urlsplit(url).hostname or ""
    if host not in LOOPBACK:
        return (origin,)
    port = origin.partition("://")[2].rpartition(":")[2] if urlsplit(url).port else ""
    return tuple(f"{scheme}://{name}{f':{port}' if port else ''}" for name in ("localhost", "127.0.0.1", "[::1]"))


@asynccontextmanager
async def codec_for(settings: Settings, *, origins: Sequence[str]) -> AsyncGenerator[Starlette]:
    """The application that the settings ask for.

    Raises InvalidSettings: no keys, or an address beyond this machine without an issuer whose tokens could be checked.
    """
    codec = data_converter(settings).payload_codec
    if codec is None:
        raise InvalidSettings("AFTERTURN_PAYLOAD_KEYS is missing: without keys payloads are in clear, and need no codec server")
    place = split_address(settings.codec_address)
    assert place is not None  # noqa: S101 - the settings have checked it
    if place[0] in LOOPBACK:
        yield codec_app(codec, origins=origins, hosts=sorted(LOOPBACK), operators=None)
        return
    audience = settings.codec_audience or settings.oidc_audience
    if settings.oidc_issuer is None or audience is None:
        raise InvalidSettings(
            f"AFTERTURN_CODEC_ADDRESS is {settings.codec_address}, which other machines reach: set AFTERTURN_OIDC_ISSUER and "
            "AFTERTURN_CODEC_AUDIENCE, so that only operators decode; or serve it on 127.0.0.1"
        )
    async with AsyncExitStack() as stack:
        issuer = Issuer(settings.oidc_issuer, jwks_url=settings.oidc_jwks_url)
        stack.push_async_callback(issuer.aclose)
        verifier = TokenVerifier(
            issuer=settings.oidc_issuer,
            audience=audience,
            algorithms=settings.oidc_algorithms.split(","),
            skew_s=settings.oidc_clock_skew_s,
            keys=issuer,
            names=ClaimNames.of(settings),
        )
        yield codec_app(codec, origins=origins, operators=Operators(verifier, settings.codec_role))


async def run_codec_server(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. Raises InvalidSettings, and MemoryUnavailable: the address is taken."""
    place = split_address(settings.codec_address)
    assert place is not None  # noqa: S101 - the settings have checked it
    origins = web_ui_origins(settings)
    async with (
        until_told() as told,
        codec_for(settings, origins=origins) as app,
        serving(app, name=NAME, host=place[0], port=place[1], limit_concurrency=AT_ONCE) as address,
    ):
        told.ready()
        asked = "nobody" if place[0] in LOOPBACK else "operators"
        _log.info("codec_server_started", address=address, token_asked_of=asked, web_ui=", ".join(origins) or "none")
        if not origins:
            _log.warning("no_web_ui", advice="set AFTERTURN_TEMPORAL_UI_URL to the Web UI's address; the CLI needs none")
        await told.wait()
        _log.info("codec_server_stopping")
