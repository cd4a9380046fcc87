"""The connection to Temporal: the SDK's own environment configuration, the data converter, the search attributes.

``TEMPORAL_ADDRESS``, ``TEMPORAL_NAMESPACE``, ``TEMPORAL_API_KEY``, ``TEMPORAL_TLS…`` and ``temporal.toml`` mean what they mean to
every Temporal tool. Where none of them names a server, that of a running ``afterturn dev`` is used, then ``localhost:7233``.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Generator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.common import Priority, SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.runtime import Runtime
from temporalio.service import RPCError, RPCStatusCode

from memory.model.errors import InvalidSettings, MemoryUnavailable
from memory.model.names import SEARCH_ATTRIBUTE_TYPES, SEARCH_ATTRIBUTES, SEARCH_TENANT, SEARCH_USER
from memory.model.scope import Scope
from memory.settings import Settings, read_dev_file, temporal_environment
from starter.observing import plugins
from starter.payloads import data_converter

T = TypeVar("T")

DEFAULT_ADDRESS = "localhost:7233"
DEFAULT_NAMESPACE = "default"
CONNECT_TIMEOUT = timedelta(seconds=5)
CONNECT_S = 15.0
OPERATOR_S = 10.0
REGISTER_WAIT_S = 10.0

INDEXED_TYPES = {
    name: {
        "Keyword": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
        "KeywordList": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST,
    }[kind]
    for name, kind in SEARCH_ATTRIBUTE_TYPES.items()
}
"""Of our search attributes, as the server numbers them."""

_REFUSED = {
    RPCStatusCode.INVALID_ARGUMENT,
    RPCStatusCode.PERMISSION_DENIED,
    RPCStatusCode.UNAUTHENTICATED,
    RPCStatusCode.UNIMPLEMENTED,
}


async def connect(
    settings: Settings,
    *,
    address: str | None = None,
    namespace: str | None = None,
    lazy: bool = False,
    runtime: Runtime | None = None,
) -> Client:
    """A client that speaks pydantic models, encrypted where the settings have keys for it.

    Args:
        settings: for the folder of ``afterturn dev`` and the keys of payloads.
        address: ``host:port``; wins over the environment.
        namespace: wins over the environment.
        lazy: connect at the first call, so that this never needs the server. Not for workers.
        runtime: of the SDK, where it is not the process's common one (see :mod:`starter.metrics`).

    Raises:
        InvalidSettings: the configuration cannot be read, or the server refuses it.
        MemoryUnavailable: the server cannot be reached.
    """
    options = connect_options(settings, address=address, namespace=namespace)
    options.setdefault("target_host", DEFAULT_ADDRESS)
    return await ask(
        Client.connect(
            **options,
            data_converter=data_converter(settings),
            connect_timeout=CONNECT_TIMEOUT,
            lazy=lazy,
            runtime=runtime,
            plugins=plugins(),
        ),
        "connecting",
        within_s=CONNECT_S,
        address=options.get("target_host", ""),
    )


def connect_options(
    settings: Settings,
    *,
    address: str | None = None,
    namespace: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> ClientConnectConfig:
    """Where to connect to, and how. May hold keys: never log it. Raises InvalidSettings."""
    environ = temporal_environment() if environ is None else environ
    chosen = address or any(environ.get(name) for name in ("TEMPORAL_ADDRESS", "TEMPORAL_PROFILE", "TEMPORAL_CONFIG_FILE"))
    dev = {} if chosen else read_dev_file(settings.data_dir)
    options: ClientConnectConfig
    if dev_address := dev.get("temporal_address"):
        # Nothing of a configuration that was made for another server (its namespace, keys, TLS) goes along.
        options = {"target_host": str(dev_address), "namespace": str(dev.get("temporal_namespace") or DEFAULT_NAMESPACE)}
    else:
        try:
            options = ClientConfig.load_client_connect_config(override_env_vars=dict(environ))
        except (RuntimeError, ValueError, OSError) as error:
            raise InvalidSettings(f"the configuration of Temporal (TEMPORAL_*, temporal.toml) cannot be used: {error}") from None
    if address is not None:
        options["target_host"] = address
    if namespace is not None:
        options["namespace"] = namespace
    return options


def user_search_attributes(scope: Scope) -> TypedSearchAttributes:
    """What a user's workflow can be found by."""
    return TypedSearchAttributes(
        [
            SearchAttributePair(SearchAttributeKey.for_keyword(SEARCH_TENANT), scope.tenant),
            SearchAttributePair(SearchAttributeKey.for_keyword(SEARCH_USER), scope.user),
        ]
    )


def user_priority(scope: Scope) -> Priority:
    """Of a user's workflow and its steps where tasks wait: companies in turn."""
    return Priority(fairness_key=scope.tenant[:64])


async def ensure_search_attributes(client: Client) -> tuple[str, ...]:
    """Register the search attributes that are missing. Returns those that were added. Safe to repeat and to race.

    Raises:
        InvalidSettings: one has another type, or this client may not add them; the message says which are needed.
        MemoryUnavailable: the server cannot be reached.
    """
    missing = await missing_attributes(client)
    if not missing:
        return ()
    request = AddSearchAttributesRequest(
        namespace=client.namespace,
        search_attributes={name: INDEXED_TYPES[name] for name in missing},
    )
    try:
        async with asyncio.timeout(OPERATOR_S):
            await client.operator_service.add_search_attributes(request)
    except RPCError as error:
        if error.status in _REFUSED:
            raise InvalidSettings(
                f"the search attributes {', '.join(map(_typed, missing))} are missing in the namespace {client.namespace} and "
                f"cannot be added from here ({error.status.name}); add them with `temporal operator search-attribute create`, "
                "in Temporal Cloud with `tcld namespace search-attributes add`"
            ) from None
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            raise _mapped(error, "adding search attributes") from None
    except TimeoutError:
        raise MemoryUnavailable("Temporal did not answer in time: adding search attributes") from None
    try:
        async with asyncio.timeout(REGISTER_WAIT_S):
            while await missing_attributes(client):
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise MemoryUnavailable("the new search attributes are not known to the server yet; try again") from None
    return missing


def _typed(name: str) -> str:
    return f"{name} ({SEARCH_ATTRIBUTE_TYPES[name]})"


async def missing_attributes(client: Client) -> tuple[str, ...]:
    """Search attributes that the namespace lacks. Where a server does not let this client list them (Temporal Cloud may give its
    key no such right), each is tried in a query.

    Raises InvalidSettings: one has another type. MemoryUnavailable: the server cannot be reached.
    """

    async def listed() -> Mapping[str, IndexedValueType.ValueType] | None:
        try:
            request = ListSearchAttributesRequest(namespace=client.namespace)
            return (await client.operator_service.list_search_attributes(request)).custom_attributes
        except RPCError as error:
            if error.status in {RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED}:
                return None
            raise

    known = await ask(listed(), "reading search attributes", within_s=OPERATOR_S, address=address_of(client))
    if known is None:
        return tuple([name for name in SEARCH_ATTRIBUTES if not await _is_known(client, name)])
    wrong = [n for n in SEARCH_ATTRIBUTES if n in known and known[n] != INDEXED_TYPES[n]]
    if wrong:
        raise InvalidSettings(
            f"search attributes of the namespace {client.namespace} exist with another type than {', '.join(map(_typed, wrong))}"
        )
    return tuple(name for name in SEARCH_ATTRIBUTES if name not in known)


async def _is_known(client: Client, name: str) -> bool:
    async def counted() -> bool:
        try:
            await client.count_workflows(f"{name} = '-'")
        except RPCError as error:
            if error.status is RPCStatusCode.INVALID_ARGUMENT:
                return False
            raise
        return True

    return await ask(counted(), "looking for search attributes", within_s=OPERATOR_S, address=address_of(client))


async def ask(work: Awaitable[T], what: str, *, within_s: float, address: str = "") -> T:
    """Await a call to the server, however it hangs: the SDK's own time-outs do not cover a connection that never answers.

    Raises what :func:`temporal_errors` raises; MemoryUnavailable when the time is over.
    """
    try:
        async with asyncio.timeout(within_s):
            with temporal_errors(what, address=address):
                return await work
    except TimeoutError:
        raise MemoryUnavailable(f"{_at(address)} did not answer within {within_s:g} s: {what}") from None


def address_of(client: Client) -> str:
    """Where a client connects to, for messages."""
    return client.service_client.config.target_host


@contextmanager
def temporal_errors(what: str, *, address: str = "") -> Generator[None]:
    """Errors of the SDK as ours, for ``what``, the attempt, at ``address``."""
    try:
        yield
    except RPCError as error:
        raise _mapped(error, what) from None
    except RuntimeError as error:
        # What the SDK's bridge raises where no connection comes about; the address is ours to tell, the reason in its text.
        raise _no_connection(str(error), what, address) from None


_REASONS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("dns error", "lookup address"), "cannot be reached: the host is not known; set TEMPORAL_ADDRESS to host:port"),
    (("ertificate", "InvalidContentType", "HandshakeFailure", "AlertReceived"), "cannot be reached by TLS; check TEMPORAL_TLS…"),
    (("Timeout expired",), "does not answer; is it a Temporal server? Check TEMPORAL_ADDRESS and TEMPORAL_TLS…"),
    (("call error after connection",), "does not answer as a Temporal server does; check TEMPORAL_ADDRESS and TEMPORAL_TLS…"),
    (("Failed client connect",), "cannot be reached; is the server running? Run `afterturn dev`, or set TEMPORAL_ADDRESS"),
)
"""Words of the SDK's bridge, and ours for them; the first that fits counts."""


def _no_connection(text: str, what: str, address: str) -> InvalidSettings | MemoryUnavailable:
    refusal = re.search(r"code: (Unauthenticated|PermissionDenied)", text)
    if refusal:
        return InvalidSettings(f"{_at(address)} refuses this client: {refusal[1]}; check TEMPORAL_API_KEY and TEMPORAL_TLS…")
    for marks, reason in _REASONS:
        if any(mark in text for mark in marks):
            return MemoryUnavailable(f"{_at(address)} {reason}")
    return MemoryUnavailable(f"{_at(address)}: {what} failed: {text[:200]}")


def _at(address: str) -> str:
    return f"Temporal at {address}" if address else "Temporal"


def _mapped(error: RPCError, what: str) -> InvalidSettings | MemoryUnavailable:
    if error.status in _REFUSED or (error.status is RPCStatusCode.NOT_FOUND and "namespace" in error.message.lower()):
        return InvalidSettings(f"Temporal refuses {what}: {error.status.name}: {error.message[:200]}")
    return MemoryUnavailable(f"Temporal: {what} failed: {error.status.name}")
