"""Tokens of an issuer whose keys come over HTTP: what holds, what does not, and what happens while the issuer is away."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import Request

from api.auth.claims import ClaimNames, principal_of
from api.auth.teams import TeamSync
from api.auth.tokens import MAX_TOKEN_CHARS, BearerTokens
from api.problems import Forbidden, Unauthenticated
from memory.model.access import OWN, Permission, Principal, Role
from memory.model.errors import InvalidSettings, MemoryUnavailable
from memory.model.scope import Scope
from memory.settings import load_settings
from memory.stores.tables import build_tables
from tests.support.issuer import AUDIENCE, Keys, providing


@pytest.fixture(scope="module")
def rsa_keys() -> Keys:
    return Keys("rsa-1")


def unsigned(header: dict[str, Any], claims: dict[str, Any]) -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, claims)]
    return ".".join([*parts, "c2lnbmF0dXJl"])


async def test_what_does_not_hold_is_refused_and_says_why(rsa_keys: Keys) -> None:
    other = Keys("rsa-1", private=rsa.generate_private_key(65537, 2048))
    async with providing(rsa_keys, Keys("ec-1", "ES256")) as issuer:
        assert (await issuer.verifier.claims(issuer.token()))["sub"] == "ada"
        assert (await issuer.verifier.claims(issuer.token(issuer.keys[1], aud=["else", AUDIENCE])))["sub"] == "ada"
        assert (await issuer.verifier.claims(issuer.token(headers={"typ": "at+jwt"})))["tenant"] == "acme"
        at = int(time.time())
        # Within the difference of clocks, and beyond it.
        for claims in ({"exp": at - 20}, {"nbf": at + 20}, {"iat": at + 20}):
            await issuer.verifier.claims(issuer.token(**claims))
        assert "expired" in await issuer.refusal(issuer.token(exp=at - 60))
        assert "not valid yet" in await issuer.refusal(issuer.token(nbf=at + 60))
        assert "not valid yet" in await issuer.refusal(issuer.token(iat=at + 60))
        assert "audience" in await issuer.refusal(issuer.token(aud="another-api"))
        assert "another issuer" in await issuer.refusal(issuer.token(iss=issuer.url + "/"))
        for missing in ("exp", "aud", "iss"):
            assert "lacks one" in await issuer.refusal(issuer.token(**{missing: None}))
        assert "signature" in await issuer.refusal(issuer.token(other))
        token = issuer.token()
        head, body, signature = token.split(".")
        forged = base64.urlsafe_b64encode(json.dumps({"iss": issuer.url, "sub": "eve"}).encode()).rstrip(b"=").decode()
        assert "signature" in await issuer.refusal(f"{head}.{forged}.{signature}")
        # What the header says of itself is never enough.
        for algorithm in ("none", "None", "HS256", "RS512", "", None, 7):
            assert "algorithm" in await issuer.refusal(unsigned({"alg": algorithm, "kid": "rsa-1"}, {"iss": issuer.url}))
        public = rsa_keys.private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        confused = jwt.utils.base64url_encode(
            jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(f"{head}.{body}".encode(), public)
        ).decode()
        head_hs = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"rsa-1"}').rstrip(b"=").decode()
        assert "algorithm" in await issuer.refusal(f"{head_hs}.{body}.{confused}")
        assert "key is none" in await issuer.refusal(issuer.token(headers={"kid": "ec-1"}))
        assert "header" in await issuer.refusal(unsigned({"alg": "RS256", "kid": ["rsa-1"]}, {}))
        for kind in ("logout+jwt", "dpop+jwt", "secevent+jwt"):
            assert "another type" in await issuer.refusal(issuer.token(headers={"typ": kind}))
        assert await issuer.refusal(issuer.token(headers={"crit": ["exp"]}))
        for nonsense in ("", "x", "a.b", "a.b.c", "a.b.c.d", "e30.e30.e30\n", token + "é", unsigned({}, {})[:-5] + "."):
            assert await issuer.refusal(nonsense)
        assert "no token that is understood" in await issuer.refusal(issuer.token(x="y" * MAX_TOKEN_CHARS))
        for deep in ("[" * 5_000, '{"a":' * 5_000):
            nested = base64.urlsafe_b64encode(deep.encode()).rstrip(b"=").decode()
            assert await issuer.refusal(f"{nested}.{nested}.x")


async def test_keys_that_are_no_keys_for_signatures_are_left_out(rsa_keys: Keys) -> None:
    weak = Keys("weak", private=rsa.generate_private_key(65537, 1024))
    encrypting = Keys("enc", private=rsa_keys.private)
    async with providing(rsa_keys, weak) as issuer:
        secret = {"kty": "oct", "kid": "secret", "k": "c2VjcmV0"}
        issuer.extra = [{**encrypting.jwk, "use": "enc"}, secret, {"kty": "AKP"}, {"kid": "x"}]  # pyright: ignore[reportAttributeAccessIssue]
        assert await issuer.verifier.claims(issuer.token())
        assert "key is none" in await issuer.refusal(issuer.token(headers={"kid": "weak"}))
        assert "key is none" in await issuer.refusal(issuer.token(encrypting))
        # Without an id, a key is only found where it is the only one of its kind.
        del issuer.keys[1]
        issuer.now += 700
        await issuer.refusal(issuer.token(headers={"kid": "unknown"}))
        unnamed = jwt.encode(jwt.decode(issuer.token(), options={"verify_signature": False}), rsa_keys.private, "RS256")
        assert await issuer.verifier.claims(unnamed)


async def test_keys_rotate_and_made_up_ids_do_not_make_us_ask_for_ever(rsa_keys: Keys) -> None:
    async with providing(rsa_keys) as issuer:
        await issuer.verifier.claims(issuer.token())
        assert issuer.asked == 1
        for number in range(50):
            await issuer.refusal(issuer.token(headers={"kid": f"made-up-{number}"}))
        assert issuer.asked == 1, "only just fetched"
        issuer.now += 31
        for number in range(50):
            await issuer.refusal(issuer.token(headers={"kid": f"made-up-{number}"}))
        assert issuer.asked == 2

        fresh = Keys("ec-2", "ES256")
        issuer.keys.insert(0, fresh)
        issuer.now += 31
        assert await issuer.verifier.claims(issuer.token(fresh))
        assert issuer.asked == 3
        assert await issuer.verifier.claims(issuer.token(rsa_keys)), "the old one serves until it is withdrawn"
        issuer.keys.remove(rsa_keys)
        issuer.now += 31
        await issuer.refusal(issuer.token(headers={"kid": "another"}))
        assert "key is none" in await issuer.refusal(issuer.token(rsa_keys))


async def test_while_the_issuer_is_away_known_keys_serve_for_a_day(rsa_keys: Keys) -> None:
    async with providing(rsa_keys) as issuer:
        issuer.away = True
        for _ in range(5):
            with pytest.raises(MemoryUnavailable, match="answers 503"):
                await issuer.verifier.claims(issuer.token())
        assert issuer.asked == 1, "not asked with every request"
        issuer.now += 6
        issuer.away = False
        assert await issuer.verifier.claims(issuer.token())

        issuer.away = True
        issuer.now += 3_600
        for _ in range(5):
            assert await issuer.verifier.claims(issuer.token())
        issuer.now += 86_400
        with pytest.raises(MemoryUnavailable):
            await issuer.verifier.claims(issuer.token())


async def test_a_discovery_document_of_somebody_else_is_not_believed(rsa_keys: Keys) -> None:
    async with providing(rsa_keys) as issuer:
        issuer.url += "/tenant"
        with pytest.raises(MemoryUnavailable, match="another issuer"):
            await issuer.verifier.claims(issuer.token(iss="x"))


@pytest.mark.parametrize(
    ("claims", "names", "expected"),
    [
        ({"tenant": "a", "sub": "u", "roles": ["user"]}, ClaimNames(), ("a", "u", {Role.USER}, OWN)),
        ({"tenant": "a", "sub": "u", "roles": "admin other"}, ClaimNames(), ("a", "u", {Role.ADMIN}, OWN | {Permission.ADMIN})),
        ({"tenant": "a", "roles": ["admin"]}, ClaimNames(), ("a", None, {Role.ADMIN}, {Permission.ADMIN})),
        (
            {"org": {"id": 7}, "https://x.example/user": "u", "realm_access": {"roles": ["user", "offline_access"]}},
            ClaimNames("org.id", "https://x.example/user", "realm_access.roles"),
            ("7", "u", {Role.USER}, OWN),
        ),
        (
            {"tenant": "a", "sub": "bot", "roles": ["service"]},
            ClaimNames(),
            ("a", None, {Role.SERVICE}, {Permission.READ, Permission.WRITE}),
        ),
        (
            {"tenant": "a", "sub": "bot", "roles": ["service", "admin", "user"], "scope": "openid memory:read memory:admin"},
            ClaimNames(),
            ("a", None, {Role.SERVICE}, {Permission.READ}),
        ),
        (
            {"tenant": "a", "roles": ["service"], "permissions": ["memory:forget"]},
            ClaimNames(),
            ("a", None, {Role.SERVICE}, {Permission.FORGET}),
        ),
    ],
)
def test_claims_say_whose_the_token_is(claims: dict[str, Any], names: ClaimNames, expected: tuple[Any, ...]) -> None:
    found = principal_of(claims, names)
    assert (found.tenant_id, found.subject, found.roles, found.permissions) == expected
    assert "u" not in found.caller.removeprefix("person:").removeprefix("service:")


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": "u", "roles": ["user"]},
        {"tenant": "", "sub": "u", "roles": ["user"]},
        {"tenant": ["a"], "sub": "u", "roles": ["user"]},
        {"tenant": "a", "sub": "u"},
        {"tenant": "a", "sub": "u", "roles": ["owner"]},
        {"tenant": "a", "sub": "u", "roles": {"user": True}},
        {"tenant": "a", "roles": ["user"]},
        {"tenant": "a", "sub": True, "roles": ["user"]},
        {"tenant": "a", "sub": "u" * 5_000, "roles": ["user"]},
        {"tenant": "a", "sub": "u", "roles": ["user"], "teams": [["x"]]},
    ],
)
def test_claims_that_say_too_little_are_refused(claims: dict[str, Any]) -> None:
    with pytest.raises(Forbidden):
        principal_of(claims, ClaimNames())


async def test_teams_of_a_token_are_the_directorys_once_per_change() -> None:
    tables = build_tables("sqlite://")
    scope = Scope.of("acme", "ada")
    now = 0.0
    sync = TeamSync(tables.directory, clock=lambda: now)

    def said(*teams: str, reads: tuple[str, ...] = ()) -> Principal:
        claims = {"tenant": "acme", "sub": "ada", "roles": ["user"], "teams": list(teams), "read_only_teams": list(reads)}
        return principal_of(claims, ClaimNames())

    await sync.bring_in_line(said("red", "blue", reads=("blue", "not-mine")), issued_at=10)
    assert await tables.directory.memberships(scope) == {"red": True, "blue": False}
    await tables.directory.set_teams(scope, ["green"])
    await sync.bring_in_line(said("red", "blue", reads=("blue",)), issued_at=11)
    assert await tables.directory.memberships(scope) == {"green": True}, "nothing was written for what did not change"
    await sync.bring_in_line(said("red"), issued_at=12)
    assert await tables.directory.memberships(scope) == {"red": True}
    await sync.bring_in_line(said("red", "blue"), issued_at=11)
    assert await tables.directory.memberships(scope) == {"red": True}, "an older token changes nothing back"
    await tables.directory.set_teams(scope, ["green"])
    now = 601.0
    await sync.bring_in_line(said("red"), issued_at=12)
    assert await tables.directory.memberships(scope) == {"red": True}, "after a while it is looked at again"
    await sync.bring_in_line(said(), issued_at=13)
    assert await tables.directory.memberships(scope) == {}
    silent = principal_of({"tenant": "acme", "sub": "ada", "roles": ["user"]}, ClaimNames())
    await tables.directory.set_teams(scope, ["green"])
    await sync.bring_in_line(silent, issued_at=14)
    assert await tables.directory.memberships(scope) == {"green": True}, "a token that is silent about teams leaves them"
    await tables.aclose()


async def test_only_one_header_with_a_bearer_token_counts(rsa_keys: Keys) -> None:
    tables = build_tables("sqlite://")
    async with providing(rsa_keys) as issuer:
        tokens = BearerTokens([issuer.verifier], TeamSync(tables.directory))

        async def ask(*headers: str) -> Principal | None:
            raw = [(b"authorization", header.encode()) for header in headers]
            return await tokens.authenticate(Request({"type": "http", "method": "GET", "headers": raw}))

        assert await ask() is None
        found = await ask(f"bearer {issuer.token()}")
        assert found is not None
        assert found.subject == "ada"
        for wrong in (["Basic YTpi"], ["Bearer"], ["Bearer a b"], [f"Bearer {issuer.token()}"] * 2, [issuer.token()], [""]):
            with pytest.raises(Unauthenticated):
                await ask(*wrong)
        with pytest.raises(Unauthenticated, match="another issuer"):
            await ask(f"Bearer {issuer.token(iss='https://else.example')}")
    await tables.aclose()


@pytest.mark.parametrize(
    "wrong",
    [
        {"oidc_algorithms": "RS256,none"},
        {"oidc_algorithms": "HS256"},
        {"oidc_algorithms": ""},
        {"oidc_issuer": "http://issuer.example"},
        {"oidc_issuer": "ftp://issuer.example"},
        {"oidc_jwks_url": "https://user:password@issuer.example/keys"},
        {"session_secret": "too short"},
        {"api_address": "8720"},
        {"public_url": "https://x.example/?a=b"},
    ],
)
def test_settings_that_are_not_safe_stop_the_start(wrong: dict[str, str]) -> None:
    name = next(iter(wrong))
    with pytest.raises(InvalidSettings, match=f"^AFTERTURN_{name.upper()}: ") as told:
        load_settings({}, **wrong)
    assert "password" not in told.value.message or "without user, password" in told.value.message
    assert "\n" not in told.value.message
