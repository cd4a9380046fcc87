"""Structured logs: ids, counts and decisions as key=value (or JSON), never a user's text. Logs go to standard error."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from memory.settings import Settings


def configure_logging(settings: Settings) -> None:
    """One format for our own lines and for those of the libraries, from the level of the settings."""
    level = getattr(logging, settings.log_level.upper())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
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
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # HTTP clients log request lines at info: addresses of objects hold user ids, and there is one per call.
    for noisy in ("httpx", "httpx2", "httpcore", "httpcore2", "urllib3", "openai", "anthropic"):
        logging.getLogger(noisy).setLevel(max(level, logging.WARNING))
