"""deploy/kubernetes as objects: what `kubectl kustomize` makes of each folder, and where in them the pods are."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

KUBERNETES = Path(__file__).parents[2] / "deploy" / "kubernetes"
BUILDS = ("base", "overlays/local", "overlays/staging", "overlays/prod", "worker-controller")
Object = dict[str, Any]


@functools.cache
def _build(folder: str) -> tuple[Object, ...]:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        if os.environ.get("CI"):
            pytest.fail("kubectl is not installed")
        pytest.skip("kubectl is not installed")
    made = subprocess.run([kubectl, "kustomize", str(KUBERNETES / folder)], capture_output=True, text=True, timeout=60, check=False)
    assert made.returncode == 0, made.stderr
    assert "deprecated" not in made.stderr.lower(), made.stderr
    # libyaml's parser: the one in Python takes a second for each folder.
    return tuple(each for each in yaml.load_all(made.stdout, Loader=yaml.CSafeLoader) if each)


class Manifests:
    """The objects of one folder under deploy/kubernetes. Not to be changed by a test: they are built once."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.objects = _build(folder)

    def all(self, *kinds: str) -> list[Object]:
        return [each for each in self.objects if each["kind"] in kinds]

    def one(self, kind: str, name: str) -> Object:
        (found,) = [each for each in self.all(kind) if each["metadata"]["name"] == name]
        return found

    @property
    def settings(self) -> Mapping[str, str]:
        """The ConfigMap that all processes read."""
        (found,) = [each for each in self.all("ConfigMap") if each["metadata"]["name"].startswith("afterturn-settings-")]
        return found["data"]

    def workloads(self) -> list[Object]:
        """What makes pods of ours."""
        made = self.all("Deployment", "StatefulSet", "Job", "WorkerDeployment")
        return [each for each in made if labels_of(each).get("app.kubernetes.io/part-of") == "afterturn"]

    def lasting(self) -> list[Object]:
        """Those whose pods run until they are told to stop."""
        return [each for each in self.workloads() if each["kind"] != "Job"]

    def workload(self, component: str) -> Object:
        (found,) = [each for each in self.workloads() if component_of(each) == component]
        return found

    def pods_selected(self, selector: Mapping[str, Any]) -> list[Object]:
        """Workloads whose pods a label selector takes, of ours and of others."""
        made = self.all("Deployment", "StatefulSet", "Job", "WorkerDeployment")
        return [each for each in made if selects(selector, pod_of(each)["metadata"]["labels"])]

    def secret_names(self) -> set[str]:
        """Of Secrets that are there or that something makes."""
        return {each["metadata"]["name"] for each in self.all("Secret")} | {
            each["spec"]["target"]["name"] for each in self.all("ExternalSecret")
        }


def labels_of(each: Object) -> Mapping[str, str]:
    return each["metadata"].get("labels", {})


def component_of(each: Object) -> str:
    return labels_of(each)["app.kubernetes.io/component"]


def pod_of(workload: Object) -> Object:
    return workload["spec"]["template"]


def container_of(workload: Object) -> Object:
    (container,) = pod_of(workload)["spec"]["containers"]
    return container


def ports_of(workload: Object) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container_of(workload).get("ports", ())}


def port_number(workload: Object, port: str | int) -> int:
    return ports_of(workload)[port] if isinstance(port, str) else port


def given_env(manifests: Manifests, workload: Object) -> dict[str, str]:
    """The environment of a container without what comes from Secrets."""
    container = container_of(workload)
    found: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        if "configMapRef" in source:
            (data,) = [
                each["data"] for each in manifests.all("ConfigMap") if each["metadata"]["name"] == source["configMapRef"]["name"]
            ]
            found |= data
    return found | {each["name"]: each["value"] for each in container.get("env", ()) if "value" in each}


def secret_env(manifests: Manifests, workload: Object) -> set[str]:
    """Names of variables that a container gets from Secrets."""
    container = container_of(workload)
    keys: dict[str, set[str]] = {each["metadata"]["name"]: set(each.get("data", {})) for each in manifests.all("Secret")}
    keys |= {
        each["spec"]["target"]["name"]: {one["secretKey"] for one in each["spec"]["data"]}
        for each in manifests.all("ExternalSecret")
    }
    found = {each["name"] for each in container.get("env", ()) if "secretKeyRef" in each.get("valueFrom", {})}
    for source in container.get("envFrom", ()):
        if "secretRef" in source:
            found |= keys.get(source["secretRef"]["name"], set())
    return found


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    for rule in selector.get("matchExpressions", ()):
        assert rule["operator"] == "In", rule
        if labels.get(rule["key"]) not in rule["values"]:
            return False
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def walk(node: Any) -> Iterator[tuple[str, Any]]:
    """All keys with their values, however deep."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield key, value
            yield from walk(value)
    elif isinstance(node, list):
        for value in node:
            yield from walk(value)
