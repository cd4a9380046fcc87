"""The text of service tokens."""

from __future__ import annotations

from datetime import timedelta

import pytest

from memory.model.errors import InvalidInput
from memory.model.service_token import make_token, parse_token
from starter.cli.tokens import duration_of


def test_a_token_is_recognised_by_its_secret_and_by_nothing_else() -> None:
    made, other = make_token(), make_token()
    given = parse_token(made.text)
    assert given is not None
    assert given.token_id == made.token_id
    assert given.has_secret(made.secret_hash)
    assert not given.has_secret(other.secret_hash)
    secret = made.text.split("_", 2)[2]
    assert secret not in repr(made) + repr(given) + made.secret_hash
    assert len({make_token().text for _ in range(100)}) == 100


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-1],
        lambda text: text + "A",
        lambda text: text + "\n",
        lambda text: text.replace("aft_", "AFT_"),
        lambda text: text.replace("aft_", "aft_A", 1),
        lambda text: text[:-1] + "é",
        lambda text: " " + text,
        lambda text: "",
    ],
)
def test_what_is_of_another_form_is_none(change: object) -> None:
    assert callable(change)
    assert parse_token(str(change(make_token().text))) is None


def test_how_long_it_lasts() -> None:
    assert duration_of("90d") == timedelta(days=90)
    assert duration_of(" 12H ") == timedelta(hours=12)
    assert duration_of("never") is None
    for wrong in ("", "d", "0d", "-1d", "90", "1w", "3651d", "٣d", "1e3d"):
        with pytest.raises(InvalidInput, match="--expires"):
            duration_of(wrong)
