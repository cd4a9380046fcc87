"""Whose memory: a tenant (company) and a user, in the encoded form of :mod:`memory.model.ids`."""

from __future__ import annotations

from dataclasses import dataclass

from memory.model.errors import InvalidInput
from memory.model.ids import body_hash, decode_segment, encode_segment, is_segment

MAX_WORKFLOW_ID_CHARS = 255
"""What a Temporal server on PostgreSQL or MySQL can store of a workflow id."""


@dataclass(frozen=True, slots=True)
class Scope:
    """One user of one tenant. Build it with :meth:`of` from outside ids; the fields hold encoded segments."""

    tenant: str
    user: str

    def __post_init__(self) -> None:
        for name, value in (("tenant", self.tenant), ("user", self.user)):
            if not is_segment(value):
                raise InvalidInput(f"the {name} of a Scope must be an encoded id; use Scope.of(tenant_id, user_id)")

    @classmethod
    def of(cls, tenant_id: str, user_id: str) -> Scope:
        """From the ids of the outside world, whatever is in them. Raises InvalidInput for empty or over-long ids."""
        return cls(encode_segment(tenant_id, what="tenant id"), encode_segment(user_id, what="user id"))

    @property
    def user_id(self) -> str:
        """The outside id (or its encoded form where that was hashed for length)."""
        return decode_segment(self.user)

    @property
    def tenant_id(self) -> str:
        """The outside id of the tenant."""
        return decode_segment(self.tenant)

    @property
    def post_answer_workflow_id(self) -> str:
        """Bounded: two very long ids are hashed together. No other id has ``=h`` in it and a single slash."""
        return self._workflow_id("post-answer")

    @property
    def consolidate_events_workflow_id(self) -> str:
        """Bounded in the same way."""
        return self._workflow_id("consolidate-events")

    def knowledge_workflow_id(self, loop_id: str) -> str:
        """Of one knowledge loop, or of a question about it (``<loop id>/<question>``); bounded in the same way."""
        return self._workflow_id("knowledge", f"/{loop_id}")

    def _workflow_id(self, kind: str, rest: str = "") -> str:
        plain = f"{kind}/{self.tenant}/{self.user}{rest}"
        if len(plain) <= MAX_WORKFLOW_ID_CHARS:
            return plain
        return f"{kind}/=h{body_hash(f'{self.tenant}/{self.user}')}{rest}"
