"""What the code says of itself while it runs: counts, durations, spans. Where they go, the process's entry point decides.

As with a logger, nothing is handed around: until :func:`install` is called every function here does next to nothing, so a test, a
command and an orchestrator that watches nothing pay nothing. No function here raises because of what it reports to.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final, Protocol

from memory.model.errors import AfterturnError, FolderInUse, InvalidSettings, MemoryUnavailable, ModelError
from memory.model.metrics import STORE_ERRORS, Metric

Attributes = Mapping[str, str | int | float | bool]
"""Ids, counts, decisions; never a text of a user."""


class Meters(Protocol):
    """Takes measurements. ``labels``: all of the metric's, by name."""

    def count(self, metric: Metric, number: float, labels: Mapping[str, str]) -> None: ...

    def observe(self, metric: Metric, value: float, labels: Mapping[str, str]) -> None: ...

    def set(self, metric: Metric, value: float, labels: Mapping[str, str]) -> None: ...


class Tracer(Protocol):
    """Makes spans."""

    def span(
        self, name: str, attributes: Attributes, *, server: bool, carrier: Mapping[str, str] | None
    ) -> AbstractContextManager[object]:
        """A span around the block, within the current one or, where it has one, within that of ``carrier`` (W3C headers)."""
        ...

    def note(self, attributes: Attributes, name: str | None) -> None:
        """Add to the current span; ``name``: its name from now on."""
        ...

    def trace_id(self) -> str | None:
        """Of the current span, as 32 hexadecimal digits."""
        ...


_meters: Meters | None = None
_tracer: Tracer | None = None
_NOTHING: Final[AbstractContextManager[object]] = nullcontext()
_FAULTS: Final = (MemoryUnavailable, InvalidSettings, FolderInUse, ModelError)
"""What is wrong with a store. Other errors say what is wrong with a call, and a refused write is an answer."""


def install(*, meters: Meters | None = None, tracer: Tracer | None = None) -> None:
    """For the whole process; None takes away what was there."""
    global _meters, _tracer
    _meters, _tracer = meters, tracer


def count(metric: Metric, number: float = 1, **labels: str) -> None:
    if _meters is not None:
        _meters.count(metric, number, labels)


def observe(metric: Metric, seconds: float, **labels: str) -> None:
    if _meters is not None:
        _meters.observe(metric, seconds, labels)


def set_to(metric: Metric, value: float, **labels: str) -> None:
    if _meters is not None:
        _meters.set(metric, value, labels)


def span(
    name: str, attributes: Attributes | None = None, *, server: bool = False, carrier: Mapping[str, str] | None = None
) -> AbstractContextManager[object]:
    """A span around the block. An exception ends it as failed, with the exception's type and nothing else of it."""
    return _NOTHING if _tracer is None else _tracer.span(name, attributes or {}, server=server, carrier=carrier)


def note(attributes: Attributes, *, name: str | None = None) -> None:
    """What is known only now of what the current span stands for."""
    if _tracer is not None:
        _tracer.note(attributes, name)


def trace_id() -> str | None:
    return None if _tracer is None else _tracer.trace_id()


@contextmanager
def timed(metric: Metric, **labels: str) -> Generator[None]:
    """The duration of the block, also of one that fails."""
    began = time.perf_counter()
    try:
        yield
    finally:
        observe(metric, time.perf_counter() - began, **labels)


class store_call:  # noqa: N801 - used as a function is
    """Around a call of a store: a span of its own, and a count where the store fails.

    Args:
        store: ``rows``, ``objects``, ``vectors`` or ``embedder``.
        what: the call, in words of the code. A callable stands for the name of the function that made it.
    """

    __slots__ = ("_span", "_store", "_what")

    def __init__(self, store: str, what: object) -> None:
        self._store = store
        self._what = what

    def __enter__(self) -> None:
        # Only as a part of something: what a process does in the background by itself is no trace.
        within = _tracer is not None and _tracer.trace_id() is not None
        self._span = span(f"{self._store} {_named(self._what)}") if within else _NOTHING
        self._span.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._span.__exit__(kind, error, trace)  # pyright: ignore[reportArgumentType]
        if isinstance(error, _FAULTS):
            count(STORE_ERRORS, store=self._store, error=error_name(error))


def error_name(error: BaseException) -> str:
    """An error as a label."""
    return type(error).__name__ if isinstance(error, AfterturnError) else "Unexpected"


def _named(what: object) -> str:
    """``SqlEventLog.finish`` for a function that was made inside of it."""
    if isinstance(what, str):
        return what
    name = getattr(what, "__qualname__", None)
    return name.partition(".<locals>")[0] if isinstance(name, str) else type(what).__name__
