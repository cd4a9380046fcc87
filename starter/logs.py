"""Structured logs: ids, counts and decisions as key=value (or JSON), never a user's text. Logs go to standard error."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Mapping, MutableMapping
from types import TracebackType
from typing import Any, TextIO

import structlog
from temporalio.exceptions import TemporalError

from memory.model.errors import AfterturnError
from memory.settings import Settings
from memory.telemetry import trace_id

MAX_FRAMES = 12
MAX_CAUSES = 5

_IDS = {
    "workflow_id": "workflow_id",
    "run_id": "run_id",
    "workflow_run_id": "run_id",
    "activity_type": "activity",
    "activity_id": "activity_id",
    "attempt": "attempt",
}
"""In the SDK's words, and in ours."""
_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def configure_logging(settings: Settings) -> None:
    """One format for our own lines and for those of the libraries, from the level of the settings."""
    level = getattr(logging, settings.log_level.upper())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        _add_ids,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # Tracebacks as the libraries render them show local variables and messages of any exception: a user's text.
    renderers: list[Any] = (
        [structlog.processors.ExceptionRenderer(told), structlog.processors.JSONRenderer()]
        if settings.log_format == "json"
        else [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_write_told)]
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # HTTP clients log request lines at info: addresses of objects hold user ids, and there is one per call. Alembic lists its
    # plugins at every start.
    for noisy in ("alembic", "uvicorn", "httpx", "httpx2", "httpcore", "httpcore2", "urllib3", "openai", "anthropic"):
        logging.getLogger(noisy).setLevel(max(level, logging.WARNING))


def _add_ids(_: Any, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The trace that a line belongs to; and of a line of Temporal's SDK, which run and step it is about."""
    record: logging.LogRecord | None = line.get("_record")
    for name in ("temporal_workflow", "temporal_activity"):
        about: Mapping[str, Any] = getattr(record, name, None) or {}
        for theirs, ours in _IDS.items():
            if value := about.get(theirs):
                line.setdefault(ours, value)
    if found := trace_id():
        line["trace_id"] = found
    return line


def told(exc_info: _ExcInfo) -> str:
    """An exception for the log: its frames and those of its causes, and a message only where it is one of ours or Temporal's.

    Any other message may quote what the code choked on. Nothing of the frames is shown but their place.
    """
    lines: list[str] = []
    error: BaseException | None = exc_info[1]
    for _ in range(MAX_CAUSES):
        if error is None:
            break
        frames = traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
        lines += [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
        lines.append(
            f"{type(error).__name__}: {error}" if isinstance(error, AfterturnError | TemporalError) else type(error).__name__
        )
        following = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if following is not None:
            lines.append("caused by" if error.__cause__ else "while handling")
        error = following
    return "\n".join(lines)


def _write_told(stream: TextIO, exc_info: _ExcInfo) -> None:
    stream.write("\n" + told(exc_info))
