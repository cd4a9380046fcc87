"""Whose rows and vectors: one user, or one team of a tenant. The one place where scoping is made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from memory.model.errors import InvalidInput
from memory.model.ids import encode_segment, is_segment
from memory.model.scope import Scope


@dataclass(frozen=True, slots=True)
class Owner:
    """``name``: an encoded segment. ``key`` (``u/<user>`` or ``t/<team>``) is what the tables and the vectors' payload hold."""

    tenant: str
    kind: Literal["u", "t"]
    name: str

    def __post_init__(self) -> None:
        if not is_segment(self.tenant) or not is_segment(self.name) or self.kind not in ("u", "t"):
            raise InvalidInput("an Owner is built with Owner.user(scope) or Owner.team(tenant, team id)")

    @classmethod
    def user(cls, scope: Scope) -> Owner:
        return cls(scope.tenant, "u", scope.user)

    @classmethod
    def team(cls, tenant: str, team_id: str) -> Owner:
        """``tenant``: encoded; ``team_id``: as the outside world has it."""
        return cls(tenant, "t", encode_segment(team_id, what="team id"))

    @classmethod
    def of_key(cls, tenant: str, key: str) -> Owner:
        kind, _, name = key.partition("/")
        if kind not in ("u", "t"):
            raise InvalidInput("not the key of an owner")
        return cls(tenant, kind, name)

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.name}"

    @property
    def path(self) -> str:
        """Unique over all tenants: ``<tenant>/<key>``; the value that vector searches are filtered by."""
        return f"{self.tenant}/{self.key}"


@dataclass(frozen=True, slots=True)
class View:
    """What one user may see: the user's own rows and those of the user's teams, all of one tenant."""

    scope: Scope
    teams: tuple[Owner, ...] = ()

    def __post_init__(self) -> None:
        if any(team.tenant != self.scope.tenant or team.kind != "t" for team in self.teams):
            raise InvalidInput("a View holds teams of the user's own tenant only")

    @classmethod
    def of(cls, scope: Scope, team_ids: Iterable[str] = ()) -> View:
        return cls(scope, tuple(Owner.team(scope.tenant, team_id) for team_id in team_ids))

    @property
    def owners(self) -> tuple[Owner, ...]:
        return (Owner.user(self.scope), *self.teams)
