"""When memory is on: the whole truth table, and every reason that is listed."""

from __future__ import annotations

import itertools

import pytest

from memory.model.directory import MemoryFacts, SpaceSettings
from memory.model.enablement import Enablement, ReasonCode, effective_enablement
from memory.model.ids import MAX_ID_CHARS, decode_segment, encode_segment

FLAGS: list[tuple[bool | frozenset[str], bool]] = [
    (True, True),
    (False, False),
    (frozenset({"acme", "globex"}), True),
    (frozenset({"globex"}), False),
    (frozenset(), False),
]
TOGGLES = [(None, True), (True, True), (False, False)]
ROOTS = [((), True), (("user-memory",), True), (("user-memory", "team-memory"), False), (("a", "b", "c"), False)]


def enablement(
    *,
    feature_flag: bool | frozenset[str] = True,
    company: str = "acme",
    toggle: bool | None = None,
    space_searches: bool = False,
    turn_searches: bool | None = None,
    allow_with_web_search: bool = False,
    user_allows: bool = True,
    caller_allows: bool = True,
    roots: tuple[str, ...] = ("user-memory",),
) -> Enablement:
    return effective_enablement(
        feature_flag=feature_flag,
        allow_with_web_search=allow_with_web_search,
        tenant=encode_segment(company),
        facts=MemoryFacts(SpaceSettings(context_memory=toggle, web_search=space_searches), user_allows, roots),
        allow_user_memory=caller_allows,
        web_search=turn_searches,
    )


def test_the_whole_truth_table() -> None:
    seen: set[tuple[ReasonCode, ...]] = set()
    yes_no = (True, False)
    for (flag, flag_on), (toggle, toggle_on), space, turn, allowed, user, caller, (roots, roots_ok) in itertools.product(
        FLAGS, TOGGLES, yes_no, (None, True, False), yes_no, yes_no, yes_no, ROOTS
    ):
        found = enablement(
            feature_flag=flag,
            toggle=toggle,
            space_searches=space,
            turn_searches=turn,
            allow_with_web_search=allowed,
            user_allows=user,
            caller_allows=caller,
            roots=roots,
        )
        searches = turn if turn is not None else space
        expected = [
            code
            for code, holds in (
                (ReasonCode.FEATURE_FLAG_OFF, flag_on),
                (ReasonCode.SPACE_OFF, toggle_on),
                (ReasonCode.WEB_SEARCH_ON, not searches or allowed),
                (ReasonCode.USER_OPTED_OUT, user),
                (ReasonCode.CALLER_NOT_ALLOWED, caller),
                (ReasonCode.ROOT_CLASH, roots_ok),
            )
            if not holds
        ]
        assert found.codes == tuple(expected)
        assert found.active is (not expected)
        seen.add(found.codes)
    assert len(seen) == 2**6


LONG = [
    "北京字节跳动网络技术有限公司华东区研发中心产品部",
    "x" * 200,
    "ООО «Ромашка и партнёры, Санкт-Петербург»",
    "é" * MAX_ID_CHARS,
]


@pytest.mark.parametrize("company", ["a/b", "Ärzte GmbH", *LONG])
def test_a_listed_company_is_found_whatever_its_name_is(company: str) -> None:
    listed = frozenset({company, "globex", "y" * (MAX_ID_CHARS + 1)})
    assert enablement(feature_flag=listed, company=company).active
    assert enablement(feature_flag=frozenset({"globex"}), company=company).codes == (ReasonCode.FEATURE_FLAG_OFF,)


def test_the_encoded_form_of_a_company_in_the_list_stands_for_nobody_else() -> None:
    # "a=2Fb" is the segment of "a/b", and a name of its own.
    assert not enablement(feature_flag=frozenset({encode_segment("a/b")}), company="a/b").active
    assert all("=h" in encode_segment(name) and decode_segment(encode_segment(name)) != name for name in LONG)


def test_by_default_only_the_flag_and_the_caller_are_missing() -> None:
    found = effective_enablement(
        feature_flag=False,
        allow_with_web_search=False,
        tenant="acme",
        facts=MemoryFacts(SpaceSettings(), user_allows=True, active_roots=()),
        allow_user_memory=False,
        web_search=None,
    )
    assert found.codes == (ReasonCode.FEATURE_FLAG_OFF, ReasonCode.CALLER_NOT_ALLOWED)


def test_a_clash_names_the_roots() -> None:
    [reason] = enablement(roots=("user-memory", "UserMemory")).reasons
    assert "2 active memory roots: UserMemory, user-memory" in reason.message
    assert "renames or removes" in reason.remedy


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"feature_flag": False}, "FEATURE_FLAG_ENABLE_CONTEXT_MEMORY_UN_22033"),
        ({"turn_searches": True}, "ALLOW_CONTEXT_MEMORY_WITH_WEB_SEARCH_UN_22591"),
        ({"space_searches": True}, "ALLOW_CONTEXT_MEMORY_WITH_WEB_SEARCH_UN_22591"),
        ({"user_allows": False}, "allowUserMemory"),
        ({"caller_allows": False}, "allow_user_memory"),
    ],
)
def test_the_remedy_names_what_to_change(given: dict[str, bool], name: str) -> None:
    [reason] = enablement(**given).reasons  # type: ignore[arg-type]
    assert name in reason.remedy


def test_the_codes_are_stable() -> None:
    assert [code.value for code in ReasonCode] == [
        "being_forgotten",
        "feature_flag_off",
        "space_off",
        "web_search_on",
        "user_opted_out",
        "caller_not_allowed",
        "root_clash",
    ]
