"""What a model writes around, instead of, and in place of an answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.model.errors import MalformedOutput
from memory.model.profile import SECTIONS, Bullet, Profile, parse_body, render_body
from memory.model.reply import (
    CLEAN,
    MAX_REPLY_CHARS,
    NOOP,
    find_json,
    parse_gate,
    parse_profile_reply,
    parse_scrub_reply,
    strip_reply,
)
from tests.support.profiles import ANY_TEXT, BODIES, PROFILES

ANNA = Profile.of(
    {
        "Identity": [Bullet("Anna, data engineer", ("at Siemens",))],
        "Communication Preferences": ["Short answers"],
        "Follow-ups": ["Send the report", "Call Ben"],
    }
)
BODY = render_body(ANNA)
UNTITLED = BODY.removeprefix("# User Memory\n\n")


# -------------------------------------------------------------------------------------------------------------------- gate


@pytest.mark.parametrize(
    "text",
    [
        "NOOP",
        "noop",
        " NOOP.\n",
        '"NOOP"',
        "**NOOP**",
        "`NOOP`",
        "```\nNOOP\n```",
        "# NOOP",
        "- NOOP",
        "[NOOP]",
        "„NOOP“",
        "NO-OP",
        "Decision: NOOP",
        "Final answer: **NOOP**",
        "The decision is: NOOP.",
        "Entscheidung: NOOP",
        "决定：NOOP",
        '{"decision": "NOOP"}',
        "NOOP\n\nThe user only asked a question.",
        '{"decision": "NOOP", "reason": "small talk"}',
        '{"reason": "small talk",\n "decision": "NOOP"}',
        "It was small talk.\n\nNOOP",
        "<think>UPDATE? The user said hi, so no.</think>NOOP",
        "UPDATE would be wrong here.</think>\nNOOP",
        "<THINK>a</THINK><think>b <think>c</think> d</think> NOOP",
    ],
)
def test_explicit_noop(text: str):
    assert parse_gate(text) is False


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE",
        "update",
        "**UPDATE**",
        "Decision: UPDATE",
        "Answer: UPDATE.",
        "<think>NOOP?</think>UPDATE",
        "NOOP</think>UPDATE",
    ],
)
def test_explicit_update(text: str):
    assert parse_gate(text) is True


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "NOOP or UPDATE",
        "UPDATE/NOOP",
        "I would not say NOOP here",
        "The decision is not NOOP",
        "NOOP?",
        "Decision: NOOP or not",
        "<think>NOOP",
        "<think>NOOP</think>",
        "<thinking>so the answer is: NOOP",
        "NOOPERATION",
        "snoop",
        "no",
        "nothing to do",
        "Is NOOP right, I wonder",
        "Answer: NOOP would be wrong here",
        "Answer: NOOP, no, wait",
        "Decision: NOOP?",
        "noop - not applicable: user shares new job",
        "NOOP. But the user has a new job.",
        "NOOP, except for the new job",
        "**NOOP** is not right",
    ],
)
def test_unreadable_gate_replies(text: str):
    assert parse_gate(text) is None


@given(ANY_TEXT)
def test_any_gate_reply_without_the_word_never_skips(text: str):
    if "no" not in text.casefold():
        assert parse_gate(text) is not False


# ----------------------------------------------------------------------------------------------------------------- profile


@pytest.mark.parametrize(
    "text",
    [
        BODY,
        UNTITLED,
        f"Here is the updated profile:\n\n{BODY}",
        f"```markdown\n{BODY}```",
        f"Sure!\n\n```md\n{BODY}```\n\nI added the report.\n- Let me know!",
        f"````\n```markdown\n{BODY}```\n````",
        f"~~~\n{BODY}~~~",
        f"<think>## Identity\n- wrong\n</think>\n{BODY}",
        f"thinking without a start tag\n## Identity\n- wrong\n</think>{BODY}",
        f"<think>never closed\n{BODY}",
        f"---\nuser_id: evil\nturn_count: 99\n---\n\n{BODY}",
        f"\ufeff{BODY}".replace("\n", "\r\n"),
        f"{BODY}\nLet me know if you want anything else changed.",
        f"{BODY}Let me know if you want anything else changed.",
        f"{BODY}\nI removed the old employer and merged two bullets.\n\nAnything else?",
        f"{BODY}\n---\n\nChanges:\n- added the report\n",
        f"{BODY}\n**Summary of changes**\n- Added: report\n- Removed: nothing\n",
        f"{BODY}\n## Changes\n- added the report\n",
        f"{BODY}\nIch habe den Bericht ergänzt.",
        f"{BODY}\n以上是更新后的内容。",
        f"{BODY}\n<!-- truncated to fit memory budget -->\n",
        f"{BODY}</profile>\n",
        f"{BODY}\n<think>Was that right? Yes.</think>",
        f"Hm.\n<think>never closed, <think>twice\n{BODY}",
        f"<think>Draft:\n{BODY}</think>\n{BODY}",
        BODY.replace("## ", "### ").replace("# User Memory", "## User Memory"),
        BODY.replace("_(empty)_", "- None"),
        BODY.replace("_(empty)_", "- No information yet."),
        BODY.replace("_(empty)_", "(none)"),
        BODY.replace("- Short answers", "- Short answers\n- [preference]\n- …"),
    ],
)
def test_what_is_around_a_profile_is_stripped(text: str):
    assert parse_profile_reply(text) == ANNA


def test_order_is_put_right():
    blocks = UNTITLED.strip().split("\n\n")
    assert parse_profile_reply("\n\n".join(reversed(blocks))) == ANNA


def test_wrapped_bullets_and_nested_ones_at_the_end_are_kept():
    text = BODY.replace("- Call Ben\n", "- Call Ben about\n  the offer\n  - before noon\n\n- Book a room\n\n    with a projector\n")
    profile = parse_profile_reply(text)
    assert isinstance(profile, Profile)
    assert profile.section("Follow-ups")[1:] == (
        Bullet("Call Ben about the offer", ("before noon",)),
        Bullet("Book a room with a projector"),
    )


def test_task_boxes_are_no_placeholders():
    profile = parse_profile_reply(BODY.replace("- Call Ben", "- [ ] Call Ben"))
    assert isinstance(profile, Profile)
    assert profile.section("Follow-ups")[1].text == "[ ] Call Ben"


_TAGS = ["<think>", "</think>", "<thinking>", "<think>x</think>", "</think> and <think>"]
_STARTS = ["", "Here it is:\n", "<think>I keep it.</think>\n", "<think>never closed\n"]


@pytest.mark.parametrize("name", SECTIONS)
@pytest.mark.parametrize(
    ("start", "tag"),
    # Where a block that was left open ends is anyone's guess when a bullet holds the closing tag.
    [(start, tag) for start in _STARTS for tag in _TAGS if not (start.endswith("closed\n") and tag.startswith("</"))],
)
def test_a_bullet_may_speak_of_thinking_tags(start: str, tag: str, name: str):
    profile = ANNA.with_section(name, [Bullet(f"Tests {tag} parsing"), Bullet("Next one"), Bullet("Last one")])
    assert parse_profile_reply(start + render_body(profile)) == profile


@pytest.mark.parametrize(
    "text", ["NOOP", "**NOOP**", "```\nNOOP\n```", "<think>x</think>NOOP", "NOOP\n\nNothing new.", "Decision: NOOP"]
)
def test_noop_instead_of_a_profile(text: str):
    assert parse_profile_reply(text) is NOOP


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        (" \n ", "empty"),
        ("<think>a</think>", "none of the six"),
        ("I cannot help with that.", "none of the six"),
        ("not sure whether NOOP fits", "none of the six"),
        ('{"edits": []}', "none of the six"),
        (UNTITLED.replace("## Follow-ups\n", ""), "sections missing: Follow-ups"),
        ("## Identity\n- a", "missing: Communication Preferences, Work Context, Skills & Expertise, Recent Topics, Follow-ups"),
        (UNTITLED + "\n" + UNTITLED, "more than once: Identity"),
        (UNTITLED[: UNTITLED.index("- Send")], "cut off"),
        ("```markdown\n" + BODY, "not closed"),
        (BODY.replace("## Work Context", "## Hobbies\n- chess\n\n## Work Context"), "none of the six"),
        (BODY + "\nOpen things, too:\n- water the plants\n", "bullets follow"),
        (BODY + "Note to self: buy milk\n- Pay rent\n", "bullets follow"),
        (BODY + "\nNote to self: buy milk\n\n- Pay rent\n", "bullets follow"),
        (BODY + "---\n- Pay rent\n", "bullets follow"),
        (BODY + "\n---\n\n- Pay rent\n", "bullets follow"),
        (BODY + "\n## Later\n1. Pay rent\n", "bullets follow"),
        (BODY + "</profile>\n* Pay rent\n", "bullets follow"),
        (BODY + "\nI have added:\n- Pay rent\n", "bullets follow"),
        (BODY + "- ", "bullet without text"),
        (BODY.replace("## Work Context", "<think>hm</think>\n## Work Context"), "between the sections"),
        ("x" * (MAX_REPLY_CHARS + 1), "at most"),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_reason(text: str, problem: str):
    with pytest.raises(MalformedOutput, match=problem) as error:
        parse_profile_reply(text)
    assert "Anna" not in str(error.value)
    assert "chess" not in str(error.value)


@pytest.mark.parametrize("missing", range(1, 60))
def test_a_fenced_profile_cut_off_anywhere_near_its_end_is_refused(missing: int):
    text = f"```markdown\n{BODY}```"
    with pytest.raises(MalformedOutput):
        parse_profile_reply(text[:-missing])


@given(PROFILES)
def test_every_strict_body_is_accepted(profile: Profile):
    parsed = parse_profile_reply(f"Sure:\n```\n{render_body(profile)}```\nDone.")
    assert isinstance(parsed, Profile)
    assert not parsed.truncated
    assert parse_body(render_body(parsed)) == parsed


@given(st.one_of(ANY_TEXT, BODIES))
def test_any_reply_gives_a_profile_noop_or_a_reason(text: str):
    for parse in (parse_profile_reply, parse_scrub_reply):
        try:
            found = parse(text)
        except MalformedOutput:
            continue
        assert found in (NOOP, CLEAN) or isinstance(found, Profile)


@given(st.lists(st.from_regex(r"w[a-z0-9]{3,8}", fullmatch=True), min_size=6, max_size=30, unique=True))
def test_no_real_bullet_is_lost(words: list[str]):
    rows = [words[place::6] for place in range(6)]
    body = "\n\n".join(
        f"## {name}\n" + ("\n".join(f"- {word}" for word in row) or "_(empty)_") for name, row in zip(SECTIONS, rows, strict=True)
    )
    profile = parse_profile_reply(f"Of course.\n\n{body}\n\nLet me know what you think about {words[0]}.")
    assert isinstance(profile, Profile)
    assert [[bullet.text for bullet in bullets] for bullets in profile.sections] == rows


# ------------------------------------------------------------------------------------------------------------------- scrub


@pytest.mark.parametrize(
    "text", ["CLEAN", "clean.", "**CLEAN**", "<think>hm</think>CLEAN", "Verdict: CLEAN", "CLEAN\n\nOnly the user."]
)
def test_a_clean_verdict(text: str):
    assert parse_scrub_reply(text) is CLEAN


def test_a_cleaned_profile():
    assert parse_scrub_reply(f"```\n{BODY}```") == ANNA


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NOOP",
        "not CLEAN",
        "CLEAN, except for Bob Stone",
        "CLEAN - apart from W3",
        "Verdict: CLEAN otherwise",
        "<think>CLEAN",
        "I cleaned it",
        "It is unclean",
    ],
)
def test_what_vouches_for_nothing(text: str):
    with pytest.raises(MalformedOutput):
        parse_scrub_reply(text)


# -------------------------------------------------------------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    "text",
    [
        '{"edits": [1]}',
        '```json\n{"edits": [1]}\n```',
        'Sure, here you go:\n```json\n{"edits": [1]}\n```\nThat is {all} [of] it.',
        '````\n```json\n{"edits": [1]}\n```\n````',
        '<think>{"edits": [2]}</think>{"edits": [1]}',
        '{"edits": [1]}\n{"edits": [1]}',
        '<think>{"edits": [1]}',
        'hm</think>{"edits": [1]}',
    ],
)
def test_json_is_found_in_prose(text: str):
    assert find_json(text, "edits") == {"edits": [1]}


@pytest.mark.parametrize(
    "text", ["", "{}", '{"edits": [', '{"edits": [1]} {"edits": [2]}', "[" * 100_000, '{"a":' * 100_000, "null"]
)
def test_json_that_is_not_there_is_refused(text: str):
    with pytest.raises(MalformedOutput):
        find_json(text, "edits")


@pytest.mark.parametrize("text", ["<think>", "a <think> b </think> c", "</think>"])
def test_a_string_in_json_may_speak_of_thinking_tags(text: str):
    for start in ("", "<think>I add it.</think>\n", "Sure: "):
        assert find_json(start + json.dumps({"edits": [{"op": "add", "text": text}]}), "edits")["edits"][0]["text"] == text


def test_strip_reply_leaves_plain_text_alone():
    assert strip_reply("  a\n```\nb\n```\nc ") == "a\n```\nb\n```\nc"


@pytest.mark.parametrize(
    "text",
    [
        "<" + " " * 500_000,
        "answer" + " " * 500_000 + "NOOP" * 2,
        "<think>" * 100_000,
        "NOOP" + "*" * 500_000 + "x",
        "> " * 300_000,
        "```\n" * 100_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_hostile_replies_are_read_in_linear_time(text: str):
    """Quadratic work on these would run into the test's time-out."""
    assert parse_gate(text) is None
    with pytest.raises(MalformedOutput):
        parse_profile_reply(text)
