"""The text of a service token: ``aft_<token id>_<secret>``. Only a hash of the secret is ever stored.

The secret has 256 random bits, so a plain SHA-256 of it cannot be searched for, and needs no salt or slow hash.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import Final

PREFIX: Final = "aft"
SECRET_BYTES: Final = 32
_FORM: Final = re.compile(rf"{PREFIX}_([a-z2-7]{{16}})_([A-Za-z0-9_-]{{43}})", re.ASCII)
_ID_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz234567"


@dataclass(frozen=True, slots=True)
class NewToken:
    """``text``: shown once, to whoever asked for it. ``secret_hash``: what is stored, hex."""

    token_id: str
    text: str = field(repr=False)
    secret_hash: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class GivenToken:
    """A token as a caller gives it: its id is looked up, then its secret is compared."""

    token_id: str
    secret_hash: str = field(repr=False)

    def has_secret(self, stored_hash: str) -> bool:
        """In constant time."""
        return hmac.compare_digest(self.secret_hash, stored_hash)


def make_token() -> NewToken:
    token_id = "".join(secrets.choice(_ID_LETTERS) for _ in range(16))
    secret = secrets.token_urlsafe(SECRET_BYTES)
    return NewToken(token_id, f"{PREFIX}_{token_id}_{secret}", _hash(secret))


def parse_token(text: str) -> GivenToken | None:
    """None for what is not of the form of a service token; says nothing of whether there is such a token."""
    found = _FORM.fullmatch(text)
    return None if found is None else GivenToken(found[1], _hash(found[2]))


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("ascii")).hexdigest()
