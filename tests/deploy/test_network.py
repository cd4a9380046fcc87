"""The network policies of deploy/kubernetes: everything is shut, and every process reaches what it needs, and only that."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

import pytest

from memory.settings_api import split_address
from tests.deploy.manifests import BUILDS, Manifests, Object, component_of, labels_of, pod_of, ports_of, selects

PROCESSES = {"workflows", "models", "api"}
NEEDS = {
    "dns": {*PROCESSES, "migrate", "search-attributes", "schedules"},
    "temporal": {*PROCESSES, "search-attributes", "schedules"},
    "postgresql": {*PROCESSES, "migrate"},
    "qdrant": PROCESSES,
    "object-store": PROCESSES,
    "internet": PROCESSES,
    "traces": PROCESSES,
    "scrape": PROCESSES,
    "api": {"api"},
}
WITH_PODS_OF_OTHERS = {"default-deny", "dns"}
METADATA_SERVICE = "169.254.169.254"


@pytest.fixture(params=BUILDS)
def built(request: pytest.FixtureRequest) -> Manifests:
    return Manifests(request.param)


def policy(built: Manifests, name: str) -> dict[str, Any]:
    return built.one("NetworkPolicy", name)["spec"]


def covered(built: Manifests, name: str) -> set[str]:
    """Components of ours that a policy is about."""
    found = built.pods_selected(policy(built, name)["podSelector"])
    if name not in WITH_PODS_OF_OTHERS:
        assert all(labels_of(each).get("app.kubernetes.io/part-of") == "afterturn" for each in found)
    return {component_of(each) for each in found if each in built.workloads()}


def test_everything_is_shut(built: Manifests) -> None:
    shut = policy(built, "default-deny")
    assert shut == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for each in built.all("NetworkPolicy"):
        spec = each["spec"]
        # A rule without ports or without an other end would open everything.
        for rule in spec.get("egress", []):
            assert rule["ports"]
            assert rule["to"]
        for rule in spec.get("ingress", []):
            assert rule["from"]
        opened = {kind for kind in ("egress", "ingress") if spec.get(kind)}
        assert each["metadata"]["name"] == "default-deny" or {kind.lower() for kind in spec["policyTypes"]} == opened


def test_every_process_reaches_what_it_needs_and_nothing_else(built: Manifests) -> None:
    names = {each["metadata"]["name"] for each in built.all("NetworkPolicy")} - {"default-deny", "services"}
    local = built.folder == "overlays/local"
    assert names == set(NEEDS) - ({"traces"} if local else set())
    for name in names:
        assert covered(built, name) == NEEDS[name], name


def test_the_openings_are_at_the_ports_of_the_settings(built: Manifests) -> None:
    settings = built.settings
    store, temporal = split_address(settings["AFTERTURN_OBJECT_STORE_ENDPOINT"]), split_address(settings["TEMPORAL_ADDRESS"])
    assert store is not None
    assert temporal is not None
    wanted = {
        "temporal": temporal[1],
        "postgresql": 5432,
        "qdrant": urlsplit(settings["AFTERTURN_VECTOR_URL"]).port,
        "object-store": store[1],
        "internet": 443,
    }
    if "OTEL_EXPORTER_OTLP_ENDPOINT" in settings:
        wanted["traces"] = urlsplit(settings["OTEL_EXPORTER_OTLP_ENDPOINT"]).port
    for name, port in wanted.items():
        (rule,) = policy(built, name)["egress"]
        assert rule["ports"] == [{"protocol": "TCP", "port": port}], name
    for name, port in (("api", "http"), ("scrape", "metrics")):
        (rule,) = policy(built, name)["ingress"]
        assert rule["ports"] == [{"protocol": "TCP", "port": port}]
        assert all(port in ports_of(built.workload(component)) for component in NEEDS[name])


def test_the_servers_in_the_cluster_are_where_the_settings_say(built: Manifests) -> None:
    """An address in the cluster is of the namespace (or, in the same one, of the pods) that the opening leads to."""
    hosts = {
        "temporal": split_address(built.settings["TEMPORAL_ADDRESS"]),
        "qdrant": (urlsplit(built.settings["AFTERTURN_VECTOR_URL"]).hostname or "", 0),
        "object-store": split_address(built.settings["AFTERTURN_OBJECT_STORE_ENDPOINT"]),
    }
    for name, address in hosts.items():
        assert address is not None
        (rule,) = policy(built, name)["egress"]
        parts = address[0].split(".")
        if parts[2:3] == ["svc"]:
            assert rule["to"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": parts[1]}}}], name
        elif len(parts) == 1:
            service = built.one("Service", parts[0])
            (target,) = built.pods_selected({"matchLabels": service["spec"]["selector"]})
            (to,) = rule["to"]
            assert selects(to["podSelector"], pod_of(target)["metadata"]["labels"])
            taken = policy(built, "services")
            assert selects(taken["podSelector"], pod_of(target)["metadata"]["labels"])
            (source,) = taken["ingress"]
            assert built.workloads() == built.pods_selected(source["from"][0]["podSelector"])
        else:
            assert all("ipBlock" in to for to in rule["to"]), name


def test_what_is_open_to_the_internet_is_not_open_to_the_cluster_or_to_the_metadata_service(built: Manifests) -> None:
    inside = (METADATA_SERVICE, "10.0.0.1", "10.96.0.1", "172.17.0.1", "192.168.1.1", "100.64.0.1", "fd00::1", "fe80::1")
    for each in built.all("NetworkPolicy"):
        for block in _blocks(each):
            network = ip_network(block["cidr"])
            if network.prefixlen:
                continue  # one subnet, by intent
            for address in (ip_address(one) for one in inside):
                if address.version == network.version:
                    assert any(address in ip_network(hole) for hole in block["except"]), (each["metadata"]["name"], address)


def test_names_are_resolved_by_the_cluster_or_by_the_cache_of_the_node(built: Manifests) -> None:
    (rule,) = policy(built, "dns")["egress"]
    assert sorted((port["protocol"], port["port"]) for port in rule["ports"]) == [("TCP", 53), ("UDP", 53)]
    pods = [to for to in rule["to"] if "podSelector" in to]
    assert [to["namespaceSelector"]["matchLabels"] for to in pods] == [{"kubernetes.io/metadata.name": "kube-system"}]
    # No pod to a network plugin, so no selector finds it: the address that NodeLocal DNSCache listens at on every node.
    assert [block["cidr"] for block in _blocks(built.one("NetworkPolicy", "dns"))] == ["169.254.20.10/32"]


def _blocks(each: Object) -> list[dict[str, Any]]:
    return [to["ipBlock"] for rule in each["spec"].get("egress", []) for to in rule["to"] if "ipBlock" in to]
