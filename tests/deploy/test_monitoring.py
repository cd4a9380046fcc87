"""Rules and dashboards fit each other and the metrics that processes really serve."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import urllib.request
import uuid
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from memory.model.metrics import METRICS, Kind
from memory.settings import load_settings
from starter.cli.metrics_table import markdown
from starter.engines import TemporalServer
from starter.metrics import metrics_runtime
from starter.processes import free_ports
from starter.temporal import connect
from tests.deploy.monitoring import (
    ALERTS,
    DASHBOARDS,
    FOLDER,
    PROMETHEUS_RULE,
    RECORDED,
    ROOT,
    RULE_FILES,
    RULE_TESTS,
    all_expressions,
    dashboard,
    dashboard_expressions,
    grouping_labels,
    groups,
    panels,
    prometheus_rule,
    recorded_names,
    selectors,
)
from tests.support.waiting import until
from tests.unit.test_readme import MAX_PICTURE_BYTES, marked

RUNBOOK = ROOT / "deploy/RUNBOOK.md"
OPERATE = ROOT / "docs/operate.md"
PICTURES = ("dashboard-operations.png", "dashboard-memory.png")
BY_NAME = {metric.name: metric for metric in METRICS}
EVERYWHERE = {"instance", "job", "le"}
"""Labels that Prometheus, or the form of a histogram, gives to each series."""
OUTAGES = {
    "Temporal": "AfterturnTemporalUnreachable",
    "the database, as workers see it": "AfterturnStoreErrors",
    "the database, as orchestrators see it": "AfterturnSpooling",
    "the object store": "AfterturnStoreErrors",
    "the vectors": "AfterturnStoreErrors",
    "a model": "AfterturnModelErrors",
    "the workers": "AfterturnNoPollers",
    "the API": "AfterturnApiDown",
}


def promtool(*arguments: str | Path) -> str:
    """Its output. Fails the test where it says that something is wrong."""
    program = shutil.which("promtool")
    if program is None:
        missing = "there is no promtool on this machine: apt-get install prometheus"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# -------------------------------------------------------------------------------------------------------------------- rules


def test_rules_are_right() -> None:
    promtool("check", "rules", *RULE_FILES)


@pytest.mark.parametrize("path", RULE_TESTS, ids=lambda path: path.stem)
def test_alerts_fire_and_stay_quiet(path: Path) -> None:
    promtool("test", "rules", path)


def test_each_alert_is_tested_both_ways() -> None:
    fires, stays_quiet = set[str](), set[str]()
    for path in RULE_TESTS:
        for case in yaml.safe_load(path.read_text("utf-8"))["tests"]:
            for one in case.get("alert_rule_test", ()):
                (fires if one["exp_alerts"] else stays_quiet).add(one["alertname"])
    assert fires == set(ALERTS)
    assert stays_quiet == set(ALERTS)
    assert set(OUTAGES.values()) <= fires


def test_rules_follow_one_form() -> None:
    for name, rule in ALERTS.items():
        assert re.fullmatch(r"Afterturn[A-Z]\w+", name)
        assert rule["labels"] in ({"severity": "critical"}, {"severity": "warning"}), name
        assert set(rule["annotations"]) == {"summary", "description", "runbook"}, name
        assert rule["annotations"]["runbook"] == f"deploy/RUNBOOK.md#{name.lower()}"
    names = [group["name"] for group in groups()]
    assert len(names) == len(set(names))
    used = set[str]().union(*(recorded_names(expression) for expression in all_expressions().values()))
    assert used == set(RECORDED), "what is recorded is used, and what is used is recorded"


def test_the_operator_s_form_has_the_same_rules() -> None:
    written = PROMETHEUS_RULE.read_text("utf-8")
    assert written == prometheus_rule(), "run: python -m tests.deploy.monitoring"
    assert yaml.safe_load(written)["spec"]["groups"] == list(groups())


def test_kustomize_builds_rules_and_dashboards() -> None:
    program = shutil.which("kubectl")
    if program is None:
        missing = "there is no kubectl on this machine"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    done = subprocess.run([program, "kustomize", FOLDER], capture_output=True, text=True, timeout=60, check=True)
    built = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(done.stdout)}
    assert ("PrometheusRule", "afterturn") in built
    maps = [one["data"] for (kind, _), one in built.items() if kind == "ConfigMap"]
    assert {name: text for data in maps for name, text in data.items()} == {
        path.name: path.read_text("utf-8") for path in DASHBOARDS
    }


# --------------------------------------------------------------------------------------------------------------- dashboards


def test_dashboards_are_whole(tmp_path: Path) -> None:
    assert [path.stem for path in DASHBOARDS] == ["memory", "operations"]
    for path in DASHBOARDS:
        board = dashboard(path)
        assert board["uid"] == f"afterturn-{path.stem}"
        assert board["id"] is None
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
        taken = set[tuple[int, int]]()
        for panel in board["panels"]:
            place = panel["gridPos"]
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
            assert place["x"] + place["w"] <= 24, panel["title"]
            assert not cells & taken, f"{panel['title']} lies over another panel"
            taken |= cells
        for panel in panels(board):
            assert panel["description"], panel["title"]
            assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
            assert panel["fieldConfig"]["defaults"].get("unit") or panel["type"] == "table", panel["title"]
            for target in panel["targets"]:
                # The form of Grafana's variables, and no other dollars.
                known = {"__rate_interval", "__range", *(one["name"] for one in board["templating"]["list"])}
                assert set(re.findall(r"\$(\w+)", target["expr"])) <= known, panel["title"]


def test_expressions_of_dashboards_are_right(tmp_path: Path) -> None:
    written = [{"record": f"x:y:z{i}", "expr": one} for i, one in enumerate(dashboard_expressions().values())]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": written}]}), "utf-8")
    promtool("check", "rules", "--lint=none", tmp_path / "rules.yaml")


# ------------------------------------------------------------------------------------------------------------------ metrics


def series_of(metric_name: str) -> str:
    """The metric that a series belongs to: a histogram has several."""
    base = re.sub(r"_(bucket|sum|count)$", "", metric_name)
    return base if base in BY_NAME and BY_NAME[base].kind is Kind.HISTOGRAM else metric_name


def test_our_metrics_are_used_as_they_are() -> None:
    """Names, labels and values of the one list of metrics; ``tests/e2e/test_metrics.py`` sees all of it in real processes."""
    for where, expression in all_expressions().items():
        for name, matchers in selectors(expression):
            if not name.startswith("afterturn_"):
                continue
            metric = BY_NAME.get(series_of(name))
            assert metric is not None, f"{where}: there is no metric {name}"
            assert (metric.kind is Kind.HISTOGRAM) == (name != metric.name), f"{where}: {name} is no {metric.kind}"
            for label, operator, value in matchers:
                assert label in {*metric.labels, *EVERYWHERE}, f"{where}: {name} has no label {label}"
                known = {zero[metric.labels.index(label)] for zero in metric.zeros} if label in metric.labels else set[str]()
                if operator == "=" and known:
                    assert value in known or value in metric.help, f"{where}: {name} has no {label} {value}"
        ours = [BY_NAME[series_of(name)] for name, _ in selectors(expression) if name.startswith("afterturn_")]
        if ours and len(ours) == len(selectors(expression)):
            labels = EVERYWHERE.union(*(metric.labels for metric in ours))
            assert grouping_labels(expression) <= labels, f"{where}: {grouping_labels(expression) - labels}"


@activity.defn
async def fails() -> None:
    raise ValueError("on purpose")


@activity.defn
async def succeeds() -> None:
    return None


_TRIES = {"count": 0}


@workflow.defn(sandboxed=False)
class Restless:
    """Asks for another step at each replay, raises, or is well."""

    @workflow.run
    async def run(self, how: str) -> None:
        short = timedelta(seconds=10)
        if how == "raises":
            raise RuntimeError("on purpose")
        if how == "changes":
            _TRIES["count"] += 1
            if _TRIES["count"] > 1:
                await workflow.sleep(60)
        once = RetryPolicy(maximum_attempts=1)
        await workflow.execute_activity(succeeds, start_to_close_timeout=short)
        for step in (
            workflow.start_activity(fails, start_to_close_timeout=short, retry_policy=once),
            workflow.start_local_activity(fails, start_to_close_timeout=short, retry_policy=once),
        ):
            await asyncio.gather(step, return_exceptions=True)


async def test_metrics_of_temporal_s_sdk_are_those_of_a_real_scrape(temporal_server: TemporalServer) -> None:
    """A worker on a real server whose runs fail in the ways that the alerts are about; then it is asked what it counted."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    runtime = metrics_runtime(load_settings({}, metrics_address=address))
    client = await connect(load_settings({}), address=temporal_server.address, namespace="default", runtime=runtime)
    queue = f"monitoring-{uuid.uuid4().hex}"

    def scrape() -> str:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as reply:
            return reply.read().decode()

    async def seen(*parts: str) -> bool:
        text = await asyncio.to_thread(scrape)
        return all(part in text for part in parts)

    async with Worker(
        client,
        task_queue=queue,
        workflows=[Restless],
        activities=[fails, succeeds],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_cached_workflows=0,
    ):
        ids = {how: f"{queue}-{how}" for how in ("is well", "raises", "changes")}
        options = {"task_queue": queue, "task_timeout": timedelta(seconds=1)}
        handles = {how: await client.start_workflow(Restless.run, how, id=ids[how], **options) for how in ids}
        await handles["is well"].result()
        with pytest.raises(RPCError):
            await client.get_workflow_handle(f"{queue}-nobody").signal("nothing")
        stuck = 'temporal_workflow_task_execution_failed_total{failure_reason="NonDeterminismError"'
        await until(lambda: seen(stuck, 'failure_reason="WorkflowError"'), within_s=60, what="failed workflow tasks are counted")
        # The query that the RUNBOOK looks for such runs with.
        await until(lambda: reported(client, ids["changes"]), within_s=60, what="the server marks the run")
        text = await asyncio.to_thread(scrape)
        for how in ("raises", "changes"):
            await handles[how].terminate()
    # The long poll that fails needs a server that is away; tests/faults has those. Its name is that of its siblings.
    served = {*re.findall(r"^# TYPE (\S+)", text, re.MULTILINE), "temporal_long_request_failure_total"}
    labels = {
        name: set(re.findall(r'(\w+)="', inside))
        for name, inside in re.findall(r"^(temporal_\w+)\{(.*)\} \S+$", text, re.MULTILINE)
    }
    assert "temporal_request_failure_total" in served
    for where, expression in all_expressions().items():
        for name, matchers in selectors(expression):
            if name.startswith("temporal_"):
                assert re.sub(r"_bucket$", "", name) in served, f"{where}: the SDK serves no {name}"
                for label, _, _ in matchers:
                    assert label in labels.get(name, {label}), f"{where}: {name} has no label {label}"


async def reported(client: Client, workflow_id: str) -> bool:
    query = re.search(r"'(TemporalReportedProblems = [^']+?)'", RUNBOOK.read_text("utf-8"))
    assert query, "the RUNBOOK finds stuck runs"
    try:
        return bool((await client.count_workflows(f"{query[1]} AND WorkflowId = '{workflow_id}'")).count)
    except RPCError:
        return False


# --------------------------------------------------------------------------------------------------------- docs/operate.md


def test_the_table_of_metrics_is_that_of_the_list() -> None:
    assert marked("metrics", OPERATE.read_text("utf-8")) == markdown() + "\n", "run: python -m starter.cli.metrics_table"


def test_pictures_of_both_dashboards_are_there() -> None:
    for name in PICTURES:
        assert f"(img/{name})" in OPERATE.read_text("utf-8")
        picture = (ROOT / "docs/img" / name).read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) < MAX_PICTURE_BYTES
