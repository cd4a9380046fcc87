"""Previews that cannot run script, and differences between versions."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from api.differences import MAX_LINES, MAX_ROWS, differences
from api.markdown import MAX_LINES as MAX_SHOWN
from api.markdown import render_profile
from memory.model.profile import SECTIONS, parse_body
from tests.support.api import StartApi, as_person


def _html(text: str) -> str:
    return "".join(section.html for section in render_profile(parse_body(text)).sections)


@pytest.mark.parametrize(
    "attack",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<svg onload=alert(1)><script>alert(1)</script></svg>",
        "[click](javascript:alert(1))",
        "[click](JaVaScRiPt&#58;alert(1))",
        "[click](data:text/html;base64,PHNjcmlwdD4=)",
        "[click](vbscript:msgbox)",
        "<javascript:alert(1)>",
        "![x](https://elsewhere.example/pixel.png)",
        '<a href="https://x.example" onclick="alert(1)" style="x">x</a>',
        "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
        "`<script>alert(1)</script>`",
        "</li></ul><style>*{display:none}</style>",
        '[x](https://x.example "onmouseover=alert(1)")',
    ],
)
def test_nothing_that_a_document_says_becomes_script_or_a_request(attack: str) -> None:
    html = _html(f"## Identity\n- before {attack} after\n")
    assert html.startswith("<ul><li>before ")
    # What is left of an attack is text: no tag but ours, no attribute but those of a link, which leads to a web page.
    seen = _Tags()
    seen.feed(html)
    assert {tag for tag, _ in seen.found} <= {"ul", "li", "a", "code"}
    for _, attributes in seen.found:
        assert set(attributes) <= {"href", "rel"}
        assert attributes.get("href", "https://").startswith("https://")


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_marks_of_markdown_are_shown_and_links_tell_nothing_of_the_reader() -> None:
    html = _html("## Identity\n- **Anna**, _PM_ at [Acme](https://acme.example/?a=1&b=2) `code`\n  - ~~old~~ new & <more>\n")
    assert html == (
        "<ul><li><strong>Anna</strong>, <em>PM</em> at "
        '<a href="https://acme.example/?a=1&amp;b=2" rel="noopener noreferrer nofollow">Acme</a> <code>code</code>'
        "<ul><li><s>old</s> new &amp; &lt;more&gt;</li></ul></li></ul>"
    )


def test_of_a_very_long_profile_the_beginning_is_shown() -> None:
    shown = render_profile(parse_body("## Identity\n" + "".join(f"- fact number {n}\n" for n in range(5_000))))
    assert not shown.complete
    assert shown.sections[0].lines == 5_000
    assert shown.sections[0].html.count("<li>") == MAX_SHOWN


def test_differences_are_told_by_lines_and_words() -> None:
    before = "# A\n\n- Anna lives in Vienna\n- likes tea\n- one\n- two\n- three\n- four\n- five\n- six\n"
    after = "# A\n\n- Anna lives in Graz\n- one\n- two\n- three\n- four\n- five\n- six\n- seven\n"
    found = differences(before, after)
    assert (found.removed, found.added, found.coarse, found.complete) == (2, 2, False, True)
    told = [
        (row.kind, row.lines, row.before and "".join(p.text for p in row.before), row.after and "".join(p.text for p in row.after))
        for row in found.rows
        if row.kind != "same"
    ]
    assert told == [
        ("changed", 1, "- Anna lives in Vienna", "- Anna lives in Graz"),
        ("removed", 1, "- likes tea", None),
        ("added", 1, None, "- seven"),
    ]
    changed = next(row for row in found.rows if row.kind == "changed")
    assert [(piece.text, piece.marked) for piece in changed.after or ()] == [("- Anna lives in ", False), ("Graz", True)]


def test_what_is_equal_is_no_difference_and_far_lines_are_left_out() -> None:
    text = "# A\n" + "".join(f"- line {n}\n" for n in range(100))
    assert differences(text, text.replace("\n", " \r\n")).same
    found = differences(text, text.replace("line 50", "row 50"))
    assert sum(row.lines for row in found.rows if row.kind == "gap") > 80
    assert found.rows[0].before is not None  # the heading above the change
    assert found.rows[0].before[0].text == "# A"


def test_differences_are_bounded_whatever_the_texts_are() -> None:
    many = differences("a\n" * 500_000, "b\n" * 500_000)
    assert many.coarse
    assert len(many.rows) <= MAX_ROWS
    assert not many.complete
    assert (many.removed, many.added) == (500_000, 500_000)
    hard = differences("x y\n" * (MAX_LINES - 1), "x y\nx z\n" * (MAX_LINES // 2))
    assert not hard.coarse
    differences("word " * 200_000, "drow " * 200_000)


async def test_over_http(api: StartApi) -> None:
    async with api() as a:
        scope = a.stack.user()
        me = as_person(scope)
        sent = {"document": "## Skills\n- Python\n\nstray text\n\n## Identity\n- **Anna**\n- my password is hunter2secret\n"}
        preview = (await a.http.post("/v1/memory/preview", headers=me, json=sent)).json()
        assert [section["title"] for section in preview["sections"]] == list(SECTIONS)
        assert preview["sections"][0]["html"].startswith("<ul><li><strong>Anna</strong></li>")
        assert "hunter2secret" not in str(preview)
        assert sum(preview["removed"].values()) == 1
        assert 0 < preview["tokens"] < preview["max_tokens"] == 2000
        assert preview["over_budget"] is False
        assert (await a.stack.profile(scope)).exists is False

        assert (await a.http.get("/v1/profile/differences?from=1", headers=me)).status_code == 404
        first = await a.stack.memory.edit_profile(scope, "## Identity\n- Anna in Vienna\n", expected_etag=None)
        second = await a.stack.memory.edit_profile(scope, "## Identity\n- Anna in Graz\n", expected_etag=first.etag)
        told = (await a.http.get("/v1/profile/differences?from=1", headers=me)).json()
        assert (told["from_version"], told["to_version"], told["etag"]) == (1, 2, second.etag)
        assert (told["removed"], told["added"]) == (1, 1)
        assert (await a.http.get("/v1/profile/differences?from=2&to=2", headers=me)).json()["rows"][0]["kind"] == "gap"
        other = (await a.http.post("/v1/profile/differences", headers=me, json={"document": "## Identity\n- Bert\n"})).json()
        assert (other["from_version"], other["to_version"], other["added"]) == (2, None, 1)

        mebi = "## Identity\n- " + "é" * (512 * 1024 - 7)
        assert len(mebi.encode()) == 1024 * 1024
        assert (await a.http.post("/v1/memory/preview", headers=me, json={"document": mebi})).status_code == 200
        refused = await a.http.post("/v1/memory/preview", headers=me, json={"document": mebi + "x"})
        assert refused.status_code in (400, 413)
