"""Who asks the API, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from memory.model.ids import encode_segment


class Role(StrEnum):
    USER = "user"
    """A person, who sees and changes their own memory and nobody else's."""
    ADMIN = "admin"
    """An administrator of a tenant: settings, roots, usage, runs. Sees nobody's memory."""
    SERVICE = "service"
    """An orchestrator: acts for users of its tenant, as far as its permissions go."""


class Permission(StrEnum):
    READ = "read"
    WRITE = "write"
    FORGET = "forget"
    """Export, delete everything."""
    ADMIN = "admin"
    """Settings, roots, usage and runs of the tenant."""


OWN: frozenset[Permission] = frozenset({Permission.READ, Permission.WRITE, Permission.FORGET})
"""What a person may do with their own memory."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is asking, as a token or a session proves it. Ids as the outside world has them.

    ``subject``: the person; None for a service. ``caller``: for logs and limits; no secret, no user id in the clear.
    ``teams``: of the token's claim; None where the token says nothing of teams and the directory's memberships stand.
    ``csrf``: of a browser's session; None for a bearer token, which no foreign page can send.
    """

    tenant_id: str
    subject: str | None = field(repr=False)
    roles: frozenset[Role]
    permissions: frozenset[Permission]
    caller: str
    teams: tuple[str, ...] | None = None
    read_only_teams: tuple[str, ...] = ()
    via: Literal["token", "service", "session"] = "token"
    csrf: str | None = field(default=None, repr=False)

    @property
    def tenant(self) -> str:
        return encode_segment(self.tenant_id, what="tenant id")
