"""deploy/kubernetes: every folder builds, every object is what its kind allows, and what one says of another is true."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from memory.settings import Settings, load_settings
from memory.settings_api import split_address
from starter.cli.settings_table import setting_rows
from tests.deploy.manifests import (
    BUILDS,
    Manifests,
    Object,
    component_of,
    container_of,
    given_env,
    labels_of,
    pod_of,
    port_number,
    ports_of,
    secret_env,
    walk,
)

SCHEMAS = Path(__file__).parent / "schemas"
WAYS_IN = ("AFTERTURN_API_ADDRESS", "AFTERTURN_HEALTH_ADDRESS", "AFTERTURN_METRICS_ADDRESS")
SECRETS = {name for row in setting_rows() if row.secret for name in row.names} | {"TEMPORAL_API_KEY"}


@pytest.fixture(params=BUILDS)
def built(request: pytest.FixtureRequest) -> Manifests:
    return Manifests(request.param)


# ------------------------------------------------------------------------------------------------------------ each for itself


@functools.cache
def schema(kind: str, api_version: str) -> Draft202012Validator | None:
    path = SCHEMAS / f"{api_version.partition('/')[0]}_{kind}.yaml"
    if not path.exists():
        return None
    common = yaml.safe_load((SCHEMAS / "common.yaml").read_text("utf-8"))
    registry: Registry[Any] = Registry().with_resource("common.yaml", Resource.from_contents(common, _DIALECT))
    return Draft202012Validator(yaml.safe_load(path.read_text("utf-8")), registry=registry)


_DIALECT = Resource.from_contents({"$schema": "https://json-schema.org/draft/2020-12/schema"})._specification  # pyright: ignore[reportPrivateUsage]


def wrong_with(each: Object) -> list[str]:
    """What the kind's own schema says against an object, strictly: unknown fields too."""
    own = schema(each["kind"], each["apiVersion"])
    if own is not None:
        return [f"{error.json_path}: {error.message}" for error in own.iter_errors(each)]
    try:
        kubernetes_validate.validate(each, "1.36", strict=True)
    except kubernetes_validate.ValidationError as error:
        return [str(error)]
    return []


def inner(each: Object) -> list[Object]:
    """Objects that the schema of a custom resource leaves open, as objects of their own kind."""
    if each["kind"] == "WorkerDeployment":
        labels = each["spec"]["template"]["metadata"]["labels"]
        spec = {"selector": {"matchLabels": labels}, "template": each["spec"]["template"]}
        return [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": spec}]
    if each["kind"] == "WorkerResourceTemplate":
        made = dict(each["spec"]["template"])
        if made["kind"] == "ScaledObject":
            assert made["spec"]["scaleTargetRef"] == {}, "the controller fills it in"
            made["spec"] = {**made["spec"], "scaleTargetRef": {"name": "x"}}
        return [{**made, "metadata": {"name": "x", "namespace": "x", "labels": {}}}]
    return []


def test_every_object_is_as_its_kind_allows(built: Manifests) -> None:
    assert len(built.objects) > 20
    for each in built.objects:
        for one in (each, *inner(each)):
            assert wrong_with(one) == [], f"{built.folder}: {each['kind']} {each['metadata']['name']}"


def test_the_schemas_refuse_what_is_wrong() -> None:
    prod = Manifests("worker-controller")
    scaled = prod.one("ScaledObject", "afterturn-models")
    for change in ({"minReplicas": 1}, {"triggers": []}, {"maxReplicaCount": "20"}):
        assert wrong_with({**scaled, "spec": {**scaled["spec"], **change}})
    worker = prod.one("WorkerDeployment", "afterturn-workflows")
    for change in ({"steps": []}, {"steps": [{"rampPercentage": 100, "pauseDuration": "1m"}]}, {"strategy": "Canary"}):
        rollout = {**worker["spec"]["rollout"], **change}
        assert wrong_with({**worker, "spec": {**worker["spec"], "rollout": rollout}})
    stateful = prod.workload("api")
    assert wrong_with({**stateful, "spec": {**stateful["spec"], "stratgy": {}}})


def test_names_lead_somewhere(built: Manifests) -> None:
    maps = {each["metadata"]["name"] for each in built.all("ConfigMap")}
    from_outside = {"afterturn", "afterturn-api"} if built.folder == "base" else {"afterturn-api"}
    secrets = built.secret_names() | from_outside
    accounts = {each["metadata"]["name"] for each in built.all("ServiceAccount")}
    for workload in built.workloads():
        pod = pod_of(workload)["spec"]
        assert pod["serviceAccountName"] in accounts
        container = container_of(workload)
        for key, value in walk(container):
            if key == "configMapRef":
                assert value["name"] in maps
            if key in ("secretRef", "secretKeyRef"):
                assert value["name"] in secrets, value
        volumes = {volume["name"] for volume in pod.get("volumes", ())}
        volumes |= {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", ())}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
        for volume in pod.get("volumes", ()):
            assert "secret" not in volume or volume["secret"]["secretName"] in secrets
    for each in built.all("ScaledObject", "WorkerResourceTemplate"):
        for key, value in walk(each):
            if key == "authenticationRef":
                built.one("TriggerAuthentication", value["name"])
    for authentication in built.all("TriggerAuthentication"):
        assert {one["name"] for one in authentication["spec"]["secretTargetRef"]} <= secrets


# --------------------------------------------------------------------------------------------------------------- each of ours


def test_every_pod_keeps_to_the_restricted_profile_and_to_a_read_only_disk(built: Manifests) -> None:
    (namespace,) = built.all("Namespace")
    assert labels_of(namespace)["pod-security.kubernetes.io/enforce"] == "restricted"
    for account in built.all("ServiceAccount"):
        assert account["automountServiceAccountToken"] is False
    for workload in built.workloads():
        pod, container = pod_of(workload)["spec"], container_of(workload)
        assert pod["automountServiceAccountToken"] is False
        # A Service's variables (AFTERTURN_API_PORT=tcp://…) would be unknown settings, which stop the start.
        assert pod["enableServiceLinks"] is False
        for forbidden in ("hostNetwork", "hostPID", "hostIPC", "initContainers"):
            assert forbidden not in pod
        secured = pod["securityContext"]
        assert secured["runAsNonRoot"] is True
        assert secured["runAsUser"] == secured["runAsGroup"] == secured["fsGroup"] == 10001, "the user of deploy/Dockerfile"
        assert secured["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "privileged": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        requests, limits = container["resources"]["requests"], container["resources"]["limits"]
        assert {"cpu", "memory", "ephemeral-storage"} == set(requests)
        assert {"memory", "ephemeral-storage"} == set(limits)
        mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert {"/tmp", "/var/lib/afterturn"} <= mounted
        for volume in pod["volumes"]:
            assert "secret" in volume or volume["emptyDir"]["sizeLimit"]
    for other in built.all("Deployment"):
        if other not in built.workloads():
            assert pod_of(other)["spec"]["securityContext"]["runAsNonRoot"] is True
            assert container_of(other)["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_probes_ask_at_ports_that_are_listened_to(built: Manifests) -> None:
    for workload in built.lasting():
        container, env, ports = container_of(workload), given_env(built, workload), ports_of(workload)
        listened = {split_address(env[name]) for name in WAYS_IN if name in env}
        assert listened == {("0.0.0.0", number) for number in ports.values()}
        of_worker = component_of(workload) != "api"
        asked = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
        paths = {kind: get["path"] for kind, get in asked.items()}
        assert paths == (
            {"startup": "/startupz", "liveness": "/livez", "readiness": "/readyz"}
            if of_worker
            else {"startup": "/healthz", "liveness": "/healthz", "readiness": "/healthz"}
        )
        own = split_address(env["AFTERTURN_HEALTH_ADDRESS" if of_worker else "AFTERTURN_API_ADDRESS"])
        assert own is not None
        assert {port_number(workload, get["port"]) for get in asked.values()} == {own[1]}
        # A start may take minutes (a database that comes later, a slow disk), a dead process is noticed in less than one.
        startup, liveness = container["startupProbe"], container["livenessProbe"]
        assert startup["periodSeconds"] * startup["failureThreshold"] >= 120
        assert 20 <= liveness["periodSeconds"] * liveness["failureThreshold"] <= 60
        pause = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        grace = float(env["AFTERTURN_GRACEFUL_SHUTDOWN_S"])
        assert pod_of(workload)["spec"]["terminationGracePeriodSeconds"] == grace + 15 + pause


def test_a_database_is_ready_when_it_listens_to_others() -> None:
    """The server that PostgreSQL's image starts for its set-up answers at the socket, and would be taken for the real one."""
    asked = [value for key, value in walk(list(Manifests("overlays/local").objects)) if key == "command" and "pg_isready" in value]
    assert asked
    assert all("--host=127.0.0.1" in command for command in asked)


def test_every_process_accepts_its_environment(built: Manifests, monkeypatch: pytest.MonkeyPatch) -> None:
    for workload in built.workloads():
        given = given_env(built, workload)
        assert not set(given) & SECRETS, "a secret is no part of a ConfigMap"
        for name in SECRETS & secret_env(built, workload):
            given[name] = {"AFTERTURN_DATABASE_URL": "postgresql+psycopg://u@h/d"}.get(name, "")
        with monkeypatch.context() as patch:
            for name in list(os.environ):
                if name.startswith(("AFTERTURN_", "TEMPORAL_", "OTEL_")):
                    patch.delenv(name)
            for name, value in given.items():
                patch.setenv(name, value)
            settings = load_settings()
        if workload["kind"] != "Job":
            check_production(built, settings)


def check_production(built: Manifests, settings: Settings) -> None:
    """What many processes beside one another need, and no default gives."""
    assert settings.vector_url, "the engine in the data folder is one process's own"
    assert settings.log_format == "json"
    assert str(settings.data_dir) == "/var/lib/afterturn"
    for name in ("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "AFTERTURN_OBJECT_STORE_ENDPOINT", "AFTERTURN_FEATURE_FLAG"):
        assert built.settings[name]
    if built.folder not in ("base", "overlays/local"):
        assert settings.object_store_secure
        assert settings.feature_flag
        assert settings.model_rate_per_s
        assert settings.model_prices
        assert settings.otlp_endpoint
        assert settings.public_url
        assert settings.public_url.startswith("https://")
        assert settings.oidc_issuer
        made = {one["secretKey"] for each in built.all("ExternalSecret") for one in each["spec"]["data"]}
        # Either a client certificate or an API key for Temporal; all else can be given.
        needed = {row.names[-1] for row in setting_rows() if row.secret}
        assert needed <= made
