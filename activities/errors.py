"""From the project's errors to Temporal failures: typed, bounded, retryable or not, and without any text of a user."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

import structlog
from temporalio.exceptions import ApplicationError, CancelledError

from memory.model.errors import (
    AfterturnError,
    InvalidInput,
    InvalidSettings,
    ModelRateLimited,
    ModelRejected,
    NotPermitted,
    ProfileConflict,
    RootClash,
)

_FINAL = (ModelRejected, ProfileConflict, InvalidInput, InvalidSettings, NotPermitted, RootClash)
_log = structlog.get_logger("afterturn.activities")
_F = TypeVar("_F", bound=Callable[..., Awaitable[Any]])


def to_application_error(error: AfterturnError) -> ApplicationError:
    """``type`` is the error's class name; a rate limit's ``Retry-After`` becomes the next retry delay."""
    delay = None
    if isinstance(error, ModelRateLimited) and error.retry_after_s is not None:
        delay = timedelta(seconds=error.retry_after_s)
    return ApplicationError(
        error.message, type=type(error).__name__, non_retryable=isinstance(error, _FINAL), next_retry_delay=delay
    )


def translated(activity_method: _F) -> _F:
    """Decorator for activity methods: every exception leaves as an ApplicationError that may be shown to operators.

    An unexpected exception keeps only its class: its message could quote what it choked on. Its place in the code goes to the log.
    """

    @functools.wraps(activity_method)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return await activity_method(*args, **kwargs)
        except AfterturnError as error:
            raise to_application_error(error) from None
        except (ApplicationError, CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - the border of the project: nothing may leave unbounded or unchecked
            frames = traceback.extract_tb(error.__traceback__)[-3:]
            place = " < ".join(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in reversed(frames))
            name = activity_method.__name__
            _log.error("activity_failed", activity=name, error=type(error).__name__, at=place)
            raise ApplicationError(f"{type(error).__name__} in {name} at {place}", type="Unexpected") from None

    return wrapper  # pyright: ignore[reportReturnType]
