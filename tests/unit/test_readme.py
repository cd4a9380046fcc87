"""What README and docs say is so: commands, options, make targets, links, settings, reasons and flags exist as written."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import typer

from memory.model.enablement import ReasonCode
from memory.model.errors import InvalidInput
from memory.model.turn import Outcome
from memory.settings import Settings
from memory.stores.notices import sign
from starter import MemoryClient, Turn
from starter.cli.app import app
from starter.cli.settings_table import markdown, setting_rows
from starter.views import LoadReason, ReceiptStatus

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "deploy").glob("*.md"))]
TEXT = README.read_text("utf-8")
MAX_PICTURE_BYTES = 300 * 1024


def marked(name: str, text: str = TEXT) -> str:
    """The text between ``<!-- name -->`` and ``<!-- /name -->`` of a page, by default the README."""
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", text, re.DOTALL)
    assert found, name
    return found[1]


def code(name: str, text: str = TEXT) -> str:
    found = re.fullmatch(r"```python\n(.*)```\n", marked(name, text), re.DOTALL)
    assert found, name
    return found[1]


def tree() -> Any:
    return typer.main.get_command(app)


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    commands = getattr(command, "commands", None)
    if commands is None:
        yield path, command
    else:
        for name, child in commands.items():
            yield from leaves(child, (*path, name))


LEAVES = dict(leaves(tree()))


def shown_commands() -> Iterator[tuple[Path, str]]:
    """Every ``afterturn …`` of a code block or of inline code, without comments and settings before it."""
    for page in PAGES:
        text = page.read_text("utf-8")
        blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
        lines += re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
        for line in lines:
            words = shlex.split(line, comments=True) if line.count("'") % 2 == 0 else line.split()
            while words and re.fullmatch(r"[A-Z_0-9]+=.*", words[0]):
                words.pop(0)
            if words and words[0].removeprefix(".venv/bin/") == "afterturn" and len(words) > 1:
                yield page, shlex.join(words[1:])


def test_every_command_is_named_in_the_overview() -> None:
    assert len(LEAVES) > 20
    rows = set(re.findall(r"^\| `afterturn ([a-z -]+)` \|", TEXT, re.MULTILINE))
    assert rows == {" ".join(path) for path in LEAVES}


def test_every_command_and_option_that_is_shown_exists() -> None:
    shown = list(shown_commands())
    assert len(shown) > 40
    for page, line in shown:
        words = shlex.split(line)
        path = next((tuple(words[:n]) for n in (2, 1) if tuple(words[:n]) in LEAVES), None)
        if path is None:
            group = [known for known in LEAVES if known[0] == words[0]]
            assert group or words[0].startswith("-"), f"{page.name}: afterturn {line}"
            continue
        known = {option for parameter in LEAVES[path].params for option in (*parameter.opts, *parameter.secondary_opts)}
        for word in words:
            if word.startswith("--") and word != "--help":
                assert word.split("=")[0] in known, f"{page.name}: afterturn {line}"


def test_all_commands_but_those_that_are_named_report_as_json() -> None:
    without = {path for path, command in LEAVES.items() if not any("--json" in one.opts for one in command.params)}
    sandboxes = {("events", "sandbox"), ("knowledge", "sandbox")}
    assert without == {("dev",), ("worker",), ("api",), ("mcp",), ("chat",), ("codec-server",), ("knowledge", "export"), *sandboxes}


def test_every_make_target_that_is_shown_exists_and_all_are_named() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)) - {"help"}
    named = {name for page in PAGES for name in re.findall(r"\bmake ([a-z][a-z-]*)\b", _code_of(page))}
    assert named == targets


def _code_of(page: Path) -> str:
    text = page.read_text("utf-8")
    return "\n".join(re.findall(r"```sh\n.*?```|`[^`\n]+`", text, re.DOTALL))


def test_links_and_pictures_are_there() -> None:
    for page in PAGES:
        prose = re.sub(r"```.*?```|`[^`\n]+`", "", page.read_text("utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", prose):
            if re.match(r"https?:", target):
                continue
            path, _, anchor = unquote(target).partition("#")
            file = (page.parent / path).resolve() if path else page
            assert file.exists(), f"{page.name}: {target}"
            if anchor:
                assert anchor in anchors(file), f"{page.name}: {target}"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}


MADE_ON_THE_WAY = {"deploy/.env"}
"""What a command of the page writes."""


def test_files_that_are_named_exist() -> None:
    for page in PAGES:
        for name in re.findall(r"`((?:memory|starter|workflows|activities|tests|bench|docs|deploy)/[\w./-]+)`", _code_of(page)):
            assert name in MADE_ON_THE_WAY or (ROOT / name).exists(), f"{page.name}: {name}"


def test_pictures_are_small_and_whole() -> None:
    picture = (ROOT / "docs/img/temporal-web-ui.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < MAX_PICTURE_BYTES
    assert "</svg>" in (ROOT / "docs/img/flow.svg").read_text("utf-8")


def test_the_table_of_settings_is_up_to_date() -> None:
    table = markdown(setting_rows())
    assert len(table.splitlines()) == len(Settings.model_fields) + 2
    assert marked("settings") == table, "run: afterturn settings list --format markdown"


def test_every_setting_that_is_named_exists() -> None:
    known = {name for row in setting_rows() for name in row.names}
    for page in PAGES:
        for name in re.findall(r"\b(?:AFTERTURN|FEATURE_FLAG|ALLOW_CONTEXT)_[A-Z0-9_]*[A-Z0-9]\b", page.read_text("utf-8")):
            assert name in known, f"{page.name}: {name}"


def test_the_example_is_short_and_complete() -> None:
    lines = [line for line in code("example").splitlines() if line.strip()]
    assert len(lines) <= 15
    compile(code("example"), "example.py", "exec")


def test_the_methods_of_the_client_are_in_the_table() -> None:
    methods = {name for name in vars(MemoryClient) if not name.startswith("_")} - {"from_settings", "from_parts", "aclose"}
    table = TEXT[TEXT.index("| method |") : TEXT.index("A turn has")]
    assert {name for name in methods if callable(getattr(MemoryClient, name))} <= set(re.findall(r"`(\w+)\(", table))
    assert set(Turn.model_fields) <= set(re.findall(r"`(\w+)`", TEXT))


@pytest.mark.parametrize("words", [LoadReason, ReceiptStatus, ReasonCode, Outcome])
def test_every_status_and_reason_is_named(words: type[LoadReason | ReceiptStatus | ReasonCode | Outcome]) -> None:
    assert {word.value for word in words} <= set(re.findall(r"`(\w+)`", TEXT))


def test_every_flag_and_reason_of_the_pipeline_is_in_the_architecture_page() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    sources = {
        name: (ROOT / name).read_text("utf-8") for name in ("workflows/post_answer.py", "memory/consolidation.py", "memory/gate.py")
    }
    flags = re.findall(r'(?:_flag\(|flags\.append\(f?|flag = )"(\w+)', "\n".join(sources.values()))
    flags += re.findall(r'else "(gate_\w+)"|\("(gate_\w+)",\)', sources["memory/gate.py"])[0]
    reasons = re.findall(r'_end\(None, "(\w+)"\)', sources["memory/consolidation.py"])
    reasons += re.findall(r'batch\.end\([\w.]+, f?"(\w+)', sources["workflows/post_answer.py"])
    assert {"repaired", "gate_failed", "already_applied", "malformed_output", "consolidate_failed", "empty_exchange"} <= {
        *flags,
        *reasons,
    }
    for word in filter(None, {*flags, *reasons}):
        assert f"`{word}" in page, word


def test_the_receiver_takes_a_signed_call_and_no_other() -> None:
    import time

    names: dict[str, object] = {}
    exec(compile(code("receiver"), "receiver.py", "exec"), names)
    receive = names["receive"]
    assert callable(receive)
    body = json.dumps({"step": "updating_started"}).encode()
    header = sign(b"secret", body, timestamp=int(time.time()))
    assert receive({"X-Afterturn-Signature": header}, body, "secret") == {"step": "updating_started"}
    assert receive({"X-Afterturn-Signature": header}, body + b" ", "secret") is None
    assert receive({}, body, "secret") is None
    assert issubclass(InvalidInput, Exception)
