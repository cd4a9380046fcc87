"""Every exception of afterturn, on one page.

    AfterturnError
    ├── InvalidInput            what the caller gave cannot be used; says what to change
    │   ├── UnreadableProfile   the stored file is too large to be a profile; says the ways out
    │   └── LoopEnded           a knowledge loop that has ended cannot be steered any more
    ├── InvalidSettings         a setting is unknown or wrong; names it
    │   └── UnreadablePayload   what Temporal stores is encrypted with a key that this process has not got
    ├── NotPermitted            the caller may not do this
    │   ├── SpendCapReached     the user's model tokens of today are spent
    │   └── BeingForgotten      everything of this user is being deleted; nothing new is taken meanwhile
    ├── ProfileConflict         the profile changed since it was read
    ├── RootClash               a company has more than one active memory root
    ├── MemoryUnavailable       something memory needs is away; the turn goes on without it
    │   └── StoreUnavailable    the object store or the database
    ├── FolderInUse             another process owns this data folder
    └── ModelError
        ├── ModelRateLimited    429, overloaded; ``retry_after_s`` when the provider said so
        ├── ModelUnavailable    5xx, connection refused
        ├── ModelTimedOut
        ├── MalformedOutput     empty, truncated or unreadable reply
        └── ModelRejected       bad request, authentication, refusal, context too long; never retried

Messages are bounded and carry ids, counts and names of settings, never a user's text, a prompt, a reply or a secret:
they end up in logs and in workflow histories.
"""

from __future__ import annotations

MAX_MESSAGE_CHARS = 500


class AfterturnError(Exception):
    """Base of all errors of this project. ``str(error)`` is at most 500 characters."""

    def __init__(self, message: str) -> None:
        self.message = message if len(message) <= MAX_MESSAGE_CHARS else message[: MAX_MESSAGE_CHARS - 1] + "…"
        super().__init__(self.message)


class InvalidInput(AfterturnError):
    """What the caller gave cannot be used; the message says what to change."""


class UnreadableProfile(InvalidInput):
    """The stored file is too large to be a profile. ``etag`` and ``version`` are those of the file: a save needs the ETag."""

    def __init__(self, message: str, *, etag: str | None, version: int) -> None:
        super().__init__(message)
        self.etag = etag
        self.version = version


class LoopEnded(InvalidInput):
    """A knowledge loop that has ended, or is just ending, can no longer be paused, corrected or answered."""


class InvalidSettings(AfterturnError):
    """A setting is unknown or has a wrong value; the message names it."""


class UnreadablePayload(InvalidSettings):
    """What Temporal stores is encrypted with a key that this process has not got, or was changed. Names the key."""


class NotPermitted(AfterturnError):
    """The caller may not do this."""


class SpendCapReached(NotPermitted):
    """The user's model tokens of today are spent (``AFTERTURN_DAILY_TOKEN_CAP``); what waits goes on tomorrow (UTC)."""


class BeingForgotten(NotPermitted):
    """Everything of this user is being deleted: nothing of them is written until that is done."""

    def __init__(self, message: str = "all of this user's memory is being deleted: nothing is saved until that is done") -> None:
        super().__init__(message)


class ProfileConflict(AfterturnError):
    """The profile changed since the version that the caller read."""


class RootClash(AfterturnError):
    """A company has more than one active memory root; the message names them."""


class MemoryUnavailable(AfterturnError):
    """Something that memory needs is away."""


class StoreUnavailable(MemoryUnavailable):
    """The object store or the database cannot be reached or answered with a passing fault."""


class FolderInUse(AfterturnError):
    """Another process owns this data folder; the message names it."""


class ModelError(AfterturnError):
    """A language model call failed."""


class ModelRateLimited(ModelError):
    """The provider is limiting or overloaded. ``retry_after_s``: seconds, as the provider asked, or None."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ModelUnavailable(ModelError):
    """The provider answered with a server error or could not be reached."""


class ModelTimedOut(ModelError):
    """No complete reply within the time-out."""


class MalformedOutput(ModelError):
    """The reply is empty, cut off or does not parse; nothing of it is stored."""


class ModelRejected(ModelError):
    """The provider will not answer this request; the same request would fail again."""
