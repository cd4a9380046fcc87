"""docs/deploy.md: every command that it shows names folders, phases, objects and files that are there.

What its turn sends and prints runs for real in ``test_processes``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.model.names import SEARCH_ATTRIBUTE_TYPES
from memory.settings import Settings
from starter.cli.settings_table import setting_rows
from tests.deploy.manifests import KUBERNETES, Manifests, labels_of
from tests.unit.test_readme import ROOT, marked

PAGE = (ROOT / "docs/deploy.md").read_text("utf-8")
BLOCKS = dict(re.findall(r"<!-- ([a-z ]+) -->\n```sh\n(.*?)```", PAGE, re.DOTALL))
WALKS = {"local": "overlays/local", "prod": "overlays/prod", "controller": "worker-controller"}
"""Blocks that apply a folder phase by phase."""
OBJECTS = {
    "forward": "overlays/local",
    "turn": "overlays/local",
    "taught": "overlays/local",
    "restart": "overlays/prod",
    "codec": "overlays/prod",
    **WALKS,
}
KINDS = ("deployment", "statefulset", "job", "service", "externalsecret", "workerdeployment", "scaledobject")
GONE = {("controller", "deployment/afterturn-workflows"), ("controller", "scaledobject/afterturn-workflows")}
"""Of the production that was there before."""
JOBS = ("migrate", "search-attributes", "schedules")


def commands(block: str) -> Iterator[list[str]]:
    """Words of each command, loops unrolled and substitutions taken apart."""
    text = BLOCKS[block].replace("\\\n", " ")
    for line in text.splitlines():
        line = re.sub(r"^\s*\w+=\$\((.*)\)$", r"\1", line).strip()
        if re.match(r"(for |done$|\w+=)", line) or not line:
            continue
        for job in JOBS if "$job" in line else ("",):
            yield shlex.split(line.replace("$job", job))


def test_every_block_is_looked_at() -> None:
    fenced = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    free = [block for block in fenced if block not in BLOCKS.values()]
    assert all(block.startswith(("export ", "afterturn ")) for block in free), "a command of kubectl without a mark"
    assert set(BLOCKS) == {*OBJECTS, "cluster", "monitoring", "search attributes", "search attributes cloud"}


@pytest.mark.parametrize("block", OBJECTS)
def test_kubectl_is_asked_for_what_there_is(block: str) -> None:
    built = Manifests(OBJECTS[block])
    (namespace,) = {each["metadata"]["namespace"] for each in built.objects if each["kind"] != "Namespace"}
    there = {f"{each['kind'].lower()}/{each['metadata']['name']}" for each in built.objects}
    seen = False
    for words in commands(block):
        if words[0] != "kubectl":
            assert words[0] == "curl", words
            continue
        seen = True
        if "-k" in words:
            assert ROOT / words[words.index("-k") + 1] == KUBERNETES / OBJECTS[block], words
        if "-n" in words:
            assert words[words.index("-n") + 1] == namespace
        for word in words:
            if word.split("/")[0] in KINDS and "/" in word:
                assert word in there or (block, word) in GONE, word
        if "--selector" in words:
            key, _, value = words[words.index("--selector") + 1].partition("=")
            assert any(pod["spec"]["template"]["metadata"]["labels"].get(key) == value for pod in built.lasting())
        if words[1] == "kustomize":
            assert ROOT / words[2] == KUBERNETES / OBJECTS[block]
    assert seen


@pytest.mark.parametrize("block", WALKS)
def test_the_phases_are_applied_in_order_and_are_all(block: str) -> None:
    built = Manifests(WALKS[block])
    phases = [words[words.index("-l") + 1] for words in commands(block) if "-l" in words]
    told = [phase.removeprefix("afterturn-phase=") for phase in phases]
    all_of_them = [labels_of(each)["afterturn-phase"] for each in built.objects]
    order = [phase for phase in ("prepare", "services", *JOBS, "run") if phase in all_of_them]
    if block == "controller":
        order = ["prepare", "run"]  # after production, whose jobs have run
    if "$job" in BLOCKS[block]:
        looped = re.search(r"for job in ([a-z -]+); do", BLOCKS[block])
        assert looped
        assert looped[1].split() == list(JOBS)
    # Of a loop all rounds of one line stand together: what counts is their order.
    assert told == order


def test_the_wait_for_a_rollout_is_longer_than_the_rollout() -> None:
    steps = Manifests("worker-controller").workload("workflows")["spec"]["rollout"]["steps"]
    minutes = sum(int(step["pauseDuration"].removesuffix("m")) for step in steps)
    told = re.search(r"--timeout=(\d+)m workerdeployment/", BLOCKS["controller"])
    assert told
    assert int(told[1]) > minutes


def test_the_image_of_the_local_overlay_is_the_one_that_is_built_and_loaded() -> None:
    used = {each["spec"]["template"]["spec"]["containers"][0]["image"] for each in Manifests("overlays/local").workloads()}
    lines = list(commands("cluster"))
    build = next(words for words in lines if words[:2] == ["docker", "build"])
    load = next(words for words in lines if words[:3] == ["kind", "load", "docker-image"])
    assert used == {build[build.index("-t") + 1]} == {load[3]}
    assert (ROOT / build[build.index("-f") + 1]).exists()
    assert Path(build[-1]) == Path()
    for each in Manifests("overlays/local").workloads():
        # A node of kind has the image and no registry to ask for it.
        assert each["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"


def test_the_search_attributes_are_all_and_of_their_types() -> None:
    (words,) = commands("search attributes")
    names = [words[at + 1] for at, word in enumerate(words) if word == "--name"]
    types = [words[at + 1] for at, word in enumerate(words) if word == "--type"]
    assert dict(zip(names, types, strict=True)) == SEARCH_ATTRIBUTE_TYPES
    # Temporal Cloud has another command for it, and another way to name a namespace.
    (words,) = commands("search attributes cloud")
    assert words[:4] == ["tcld", "namespace", "search-attributes", "add"]
    pairs = [words[at + 1].split("=") for at, word in enumerate(words) if word == "--search-attribute"]
    assert dict(pairs) == SEARCH_ATTRIBUTE_TYPES
    assert words[words.index("--namespace") + 1] == Manifests("overlays/prod").settings["TEMPORAL_NAMESPACE"]


def test_rules_and_dashboards_are_put_where_the_policies_expect_prometheus() -> None:
    (words,) = commands("monitoring")
    assert words[:2] == ["kubectl", "apply"]
    assert (ROOT / words[words.index("-k") + 1] / "kustomization.yaml").exists()
    (rule,) = Manifests("overlays/prod").one("NetworkPolicy", "scrape")["spec"]["ingress"]
    (where,) = {one["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for one in rule["from"]}
    assert words[words.index("-n") + 1] == where


def test_the_codec_server_runs_in_a_pod_that_there_is_at_the_port_that_is_forwarded() -> None:
    run, forward = commands("codec")
    api = Manifests("overlays/prod").workload("api")
    assert api["kind"] == "StatefulSet", "its pods have names that last"
    pod = f"{api['metadata']['name']}-0"
    assert pod in run
    assert f"pod/{pod}" in forward
    port = Settings.model_fields["codec_address"].default.rpartition(":")[2]
    assert forward[-1] == f"{port}:{port}"


@pytest.mark.parametrize("page", ["deploy/RUNBOOK.md", "docs/changing.md", "docs/operate.md", "docs/payloads.md"])
def test_other_pages_name_objects_of_production(page: str) -> None:
    short = {"deploy": "deployment", "sts": "statefulset", "svc": "service"}
    there = {f"{each['kind'].lower()}/{each['metadata']['name']}" for each in Manifests("overlays/prod").objects}
    text = (ROOT / page).read_text("utf-8")
    kinds = "|".join((*KINDS, *short))
    for kind, name in re.findall(rf"\b({kinds})/(afterturn[a-z-]*[a-z])", text):
        assert f"{short.get(kind, kind)}/{name}" in there, f"{page}: {kind}/{name}"


def test_every_secret_is_in_the_list_of_the_page() -> None:
    listed = PAGE.partition("Into the secret store")[2].partition("```text\n")[2].partition("```")[0]
    for each in (*Manifests("overlays/prod").all("ExternalSecret"), *Manifests("overlays/staging").all("ExternalSecret")):
        for one in each["spec"]["data"]:
            assert one["remoteRef"]["property"] in listed
    secret = {name for row in setting_rows() if row.secret for name in row.names}
    assert set(re.findall(r"[A-Z][A-Z_]{8,}", listed)) <= secret | {
        "TEMPORAL_API_KEY",
        "TEMPORAL_TLS_CLIENT_CERT",
        "TEMPORAL_TLS_CLIENT_KEY",
    }


def test_the_page_says_what_was_not_checked() -> None:
    assert marked("turn", PAGE)
    told = PAGE.partition("## What has been checked, and what not")[2]
    for file in re.findall(r"`(?:tests/\w+/)?(test_\w+\.py)`", told):
        assert list((ROOT / "tests").rglob(file)), file
    assert "Not checked" in told
