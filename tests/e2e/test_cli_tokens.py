"""Service tokens on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from memory.model.service_token import parse_token
from tests.e2e.command import afterturn


def test_a_token_is_shown_once_listed_without_its_secret_and_revoked(tmp_path: Path) -> None:
    create = ["tokens", "create", "--tenant", "acme", "--name", "the chat"]
    migrated, plain, told, listed, others = (
        afterturn(*words, data_dir=tmp_path / "data")
        for words in [
            ["migrate"],
            [*create, "--allow", "read,forget", "--expires", "12h"],
            [*create, "--expires", "never", "--json"],
            ["tokens", "list", "--tenant", "acme", "--json"],
            ["tokens", "list", "--tenant", "globex"],
        ]
    )
    assert migrated.code == plain.code == 0
    first, second = parse_token(plain.out.strip()), parse_token(told.json["token"])
    assert first is not None
    assert second is not None
    assert "not shown again" in plain.err
    assert plain.out.count("\n") == 1, "the token alone, to be piped to where it is kept"
    rows = {row["token_id"]: row for row in listed.json}
    assert set(rows) == {first.token_id, second.token_id}
    assert rows[first.token_id]["permissions"] == ["read", "forget"]
    assert (rows[second.token_id]["permissions"], rows[second.token_id]["expires_at"]) == (["read", "write"], None)
    assert plain.out.strip().rsplit("_", 1)[-1] not in json.dumps(listed.json)
    assert others.out == "no token\n"

    revoke = ["tokens", "revoke", "--yes", "--tenant"]
    strange, revoked, after, whole, never, allowed = (
        afterturn(*words, data_dir=tmp_path / "data")
        for words in [
            [*revoke, "globex", first.token_id],
            [*revoke, "acme", first.token_id],
            ["tokens", "list", "--tenant", "acme", "--json"],
            [*revoke, "acme", plain.out.strip()],
            [*create, "--expires", "someday"],
            [*create, "--allow", "everything"],
        ]
    )
    assert "no token" in strange.complaint
    assert revoked.out == f"revoked {first.token_id}\n"
    assert {row["token_id"]: row["state"] for row in after.json} == {first.token_id: "revoked", second.token_id: "active"}
    assert "does not belong on a command line" in whole.complaint
    assert plain.out.strip() not in whole.err
    assert "--expires" in never.complaint
    assert "read, write, forget" in allowed.complaint
