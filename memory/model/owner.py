"""Whose rows and vectors: one user, one team of a tenant, or the deployment. The one place where scoping is made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from memory.model.errors import InvalidInput
from memory.model.ids import encode_segment, is_segment
from memory.model.scope import Scope

_DEPLOYMENT: Final = "=62uilt-in"
"""The tenant of what a deployment ships. A plain letter is never escaped, so no outside id becomes this segment."""


@dataclass(frozen=True, slots=True)
class Owner:
    """``name``: an encoded segment. ``key`` (``u/<user>`` or ``t/<team>``) is what the tables and the vectors' payload hold."""

    tenant: str
    kind: Literal["u", "t", "b"]
    name: str

    def __post_init__(self) -> None:
        known = self.kind in ("u", "t", "b") and (self.kind == "b") == (self.tenant == _DEPLOYMENT)
        if not known or not is_segment(self.tenant) or not is_segment(self.name):
            raise InvalidInput("an Owner is built with Owner.user(scope), Owner.team(tenant, team id) or Owner.built_in()")

    @classmethod
    def user(cls, scope: Scope) -> Owner:
        return cls(scope.tenant, "u", scope.user)

    @classmethod
    def team(cls, tenant: str, team_id: str) -> Owner:
        """``tenant``: encoded; ``team_id``: as the outside world has it."""
        return cls(tenant, "t", encode_segment(team_id, what="team id"))

    @classmethod
    def built_in(cls) -> Owner:
        """Of the tables that a deployment ships: every user of every tenant reads them, its operator alone writes them."""
        return cls(_DEPLOYMENT, "b", "built-in")

    @classmethod
    def of_key(cls, tenant: str, key: str) -> Owner:
        kind, _, name = key.partition("/")
        if kind not in ("u", "t", "b"):
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
