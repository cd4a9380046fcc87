"""deploy/kubernetes: what one object says of another is true, and what has to come first does."""

from __future__ import annotations

import itertools
import re
from typing import Any
from urllib.parse import urlsplit

import pytest

from memory.model.names import MODEL_TASK_QUEUE, TASK_QUEUE
from tests.deploy.manifests import (
    BUILDS,
    KUBERNETES,
    Manifests,
    Object,
    component_of,
    container_of,
    labels_of,
    pod_of,
    ports_of,
    selects,
    walk,
)
from workflows import WORKFLOWS

ORDER = ("prepare", "services", "migrate", "search-attributes", "schedules", "run")


@pytest.fixture(params=BUILDS)
def built(request: pytest.FixtureRequest) -> Manifests:
    return Manifests(request.param)


def test_selectors_find_what_they_are_for(built: Manifests) -> None:
    for workload in built.lasting():
        labels = pod_of(workload)["metadata"]["labels"]
        if workload["kind"] != "WorkerDeployment":
            assert built.pods_selected(workload["spec"]["selector"]) == [workload]
        constraints = pod_of(workload)["spec"]["topologySpreadConstraints"]
        assert {one["topologyKey"] for one in constraints} == {"topology.kubernetes.io/zone", "kubernetes.io/hostname"}
        assert all(selects(one["labelSelector"], labels) for one in constraints)
        assert all(built.pods_selected(one["labelSelector"]) == [workload] for one in constraints)
    protected = [built.pods_selected(each["spec"]["selector"]) for each in built.all("PodDisruptionBudget")]
    templates = [each["spec"]["template"] for each in built.all("WorkerResourceTemplate")]
    for workload in built.lasting():
        if workload["kind"] == "WorkerDeployment":
            (own,) = [each for each in templates if each["kind"] == "PodDisruptionBudget"]
            assert own["spec"]["selector"] == {"matchLabels": {}}, "the controller fills it in"
        else:
            assert protected.count([workload]) == 1
    for service in built.all("Service"):
        (found,) = built.pods_selected({"matchLabels": service["spec"]["selector"]})
        for port in service["spec"]["ports"]:
            assert port["targetPort"] in ports_of(found)
    for stateful in built.all("StatefulSet"):
        assert built.one("Service", stateful["spec"]["serviceName"])
    for ingress in built.all("Ingress"):
        for key, value in walk(ingress):
            if key == "backend":
                service = built.one("Service", value["service"]["name"])
                assert value["service"]["port"]["name"] in {port["name"] for port in service["spec"]["ports"]}
        hosts = {rule["host"] for rule in ingress["spec"]["rules"]}
        assert hosts == {urlsplit(built.settings["AFTERTURN_PUBLIC_URL"]).hostname}


def test_everything_that_has_metrics_is_scraped_once(built: Manifests) -> None:
    if not built.all("PodMonitor"):
        pytest.skip("no operator in this one")
    (pods,), (services,) = built.all("PodMonitor"), built.all("ServiceMonitor")
    scraped = [
        (each, point["port"])
        for each in built.pods_selected(pods["spec"]["selector"])
        for point in pods["spec"]["podMetricsEndpoints"]
    ]
    for service in built.all("Service"):
        if selects(services["spec"]["selector"], labels_of(service)):
            for point in services["spec"]["endpoints"]:
                (port,) = [one for one in service["spec"]["ports"] if one["name"] == point["port"]]
                scraped += [
                    (each, port["targetPort"]) for each in built.pods_selected({"matchLabels": service["spec"]["selector"]})
                ]
    assert sorted((component_of(each), port) for each, port in scraped) == [
        (component, "metrics") for component in sorted(component_of(each) for each in built.lasting())
    ]


def test_the_names_of_scraped_processes_are_those_that_the_alert_rules_look_for(built: Manifests) -> None:
    if not built.all("PodMonitor"):
        pytest.skip("no operator in this one")
    points = [
        *built.all("PodMonitor")[0]["spec"]["podMetricsEndpoints"],
        *built.all("ServiceMonitor")[0]["spec"]["endpoints"],
    ]
    for point in points:
        # Without it the operator would call them namespace/monitor, or by the Service.
        (rule,) = point["relabelings"]
        assert rule == {
            "sourceLabels": ["__meta_kubernetes_pod_label_app_kubernetes_io_component"],
            "targetLabel": "job",
            "replacement": "afterturn-$1",
        }
    jobs = {f"afterturn-{component_of(each)}" for each in built.lasting()}
    rules = "".join(file.read_text("utf-8") for file in (KUBERNETES.parent / "monitoring" / "rules").glob("*.yaml"))
    named = re.findall(r'\bjob(=~?)"([^"]+)"', rules)
    assert named
    for how, pattern in named:
        assert any(re.fullmatch(pattern, job) if how == "=~" else pattern == job for job in jobs), pattern


def test_workers_are_scaled_by_the_backlog_of_the_queue_that_they_poll(built: Manifests) -> None:
    queues = {"workflows": (TASK_QUEUE, "workflow,activity"), "models": (MODEL_TASK_QUEUE, "activity")}
    scaled = {each["metadata"]["name"]: each["spec"] for each in built.all("ScaledObject")}
    found: dict[str, dict[str, Any]] = {name.removeprefix("afterturn-"): spec for name, spec in scaled.items()}
    for template in built.all("WorkerResourceTemplate"):
        made = template["spec"]["template"]
        if made["kind"] == "ScaledObject":
            found[
                built.one("WorkerDeployment", template["spec"]["workerDeploymentRef"]["name"])["metadata"]["labels"][
                    "app.kubernetes.io/component"
                ]
            ] = made["spec"]
    if not found:
        assert built.folder in ("base", "overlays/local")
        return
    assert set(found) == set(queues)
    for component, spec in found.items():
        (trigger,) = [one for one in spec["triggers"] if one["type"] == "temporal"]
        workload, told = built.workload(component), trigger["metadata"]
        assert container_of(workload)["args"] == ["worker", "--queue", component]
        assert (told["taskQueue"], told["queueTypes"]) == queues[component]
        assert told["endpoint"] == built.settings["TEMPORAL_ADDRESS"]
        assert told["namespace"] in (built.settings["TEMPORAL_NAMESPACE"], "")
        assert "replicas" not in workload["spec"], "whoever applies it would undo the autoscaler's number"
        assert 1 <= spec["minReplicaCount"] <= spec["fallback"]["replicas"] <= spec["maxReplicaCount"]
        if workload["kind"] == "WorkerDeployment":
            assert told["workerDeploymentName"] == told["workerDeploymentBuildId"] == told["namespace"] == ""
        else:
            target = spec["scaleTargetRef"]
            assert (target["kind"], target["name"]) == (workload["kind"], workload["metadata"]["name"])
            assert "workerDeploymentName" not in told


def test_tables_search_attributes_and_schedules_come_before_the_processes_in_this_order(built: Manifests) -> None:
    waves: dict[str, set[int]] = {}
    for each in built.objects:
        phase = labels_of(each).get("afterturn-phase")
        assert phase, f"{each['kind']} {each['metadata']['name']}: `kubectl apply -l afterturn-phase=…` would never make it"
        wave = int(each["metadata"].get("annotations", {}).get("argocd.argoproj.io/sync-wave", 0))
        waves.setdefault(phase, set()).add(wave)
        assert phase in ORDER
    jobs = {labels_of(job)["afterturn-phase"]: container_of(job)["args"] for job in built.all("Job")}
    assert jobs == {
        "migrate": ["migrate"],
        "search-attributes": ["migrate", "--search-attributes"],
        "schedules": ["migrate", "--schedules"],
    }
    if built.folder == "overlays/local":
        return  # by hand, in the order of the phases
    present = [waves[phase] for phase in ORDER if phase in waves]
    assert all(max(before) < min(after) for before, after in itertools.pairwise(present)), waves


def test_the_controllers_workers_are_those_of_the_base_and_pass_its_gate_first() -> None:
    with_controller, plain = Manifests("worker-controller"), Manifests("overlays/prod")
    ours, theirs = with_controller.workload("workflows"), plain.workload("workflows")
    mine, own = pod_of(ours), pod_of(theirs)

    def without_certificate(pod: Object) -> Object:
        # The controller mounts the certificate itself, at the same path.
        spec = {**pod["spec"], "volumes": [one for one in pod["spec"]["volumes"] if one["name"] != "temporal-tls"]}
        (container,) = spec["containers"]
        mounts = [one for one in container["volumeMounts"] if one["name"] != "temporal-tls"]
        return {**pod, "spec": {**spec, "containers": [{**container, "volumeMounts": mounts}]}}

    assert mine == without_certificate(own)
    (connection,) = with_controller.all("Connection")
    assert ours["spec"]["workerOptions"] == {
        "connectionRef": {"name": connection["metadata"]["name"]},
        "temporalNamespace": with_controller.settings["TEMPORAL_NAMESPACE"],
    }
    assert connection["spec"]["hostPort"] == with_controller.settings["TEMPORAL_ADDRESS"]
    (certificate,) = [each for each in plain.all("ExternalSecret") if each["spec"]["target"].get("template")]
    assert connection["spec"]["mutualTLSSecretRef"]["name"] == certificate["metadata"]["name"]
    assert certificate["spec"]["target"]["template"]["type"] == "kubernetes.io/tls"
    rollout = ours["spec"]["rollout"]
    assert rollout["gate"]["workflowType"] in {workflow.__name__ for workflow in WORKFLOWS}
    shares = [step["rampPercentage"] for step in rollout["steps"]]
    assert shares == sorted(set(shares))
    kept = {(each["kind"], each["metadata"]["name"]) for each in with_controller.objects}
    for kind in ("Deployment", "ScaledObject", "PodDisruptionBudget"):
        assert (kind, "afterturn-workflows") not in kept
