"""What deploy/compose.yaml mounts and runs in other projects' containers: probes, the databases, configurations."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import psycopg
import pytest
import yaml
from psycopg import sql

from tests.deploy.compose import DEPLOY, fill, load
from tests.support.postgres import PASSWORD, USER, PostgresServer, find_postgres

SERVICES: dict[str, dict[str, Any]] = load()["services"]


def missing(what: str) -> None:
    """Skips, but fails where ``CI`` is set."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{what} is not installed here")


@contextmanager
def answering(status: int) -> Iterator[int]:
    """A server on loopback that gives this status for /readyz, and 404 for everything else; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


@pytest.mark.parametrize("name", ["worker", "api", "qdrant"])
def test_probes_tell_ready_from_not_ready(name: str) -> None:
    """The very commands, against another port."""

    def probe(port: int) -> int:
        own = {"api": "8080", "worker": "8081", "qdrant": "6333"}[name]
        words = [fill(word, {}).replace(own, str(port)) for word in SERVICES[name]["healthcheck"]["test"][1:]]
        words = [sys.executable if word == "python" else word for word in words]
        return subprocess.run(words, capture_output=True, timeout=30, check=False).returncode

    with answering(200) as port:
        assert probe(port) == 0
    with answering(503) as port:
        assert probe(port) != 0
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        assert probe(nobody.getsockname()[1]) != 0


def test_databases_are_made(postgres_server: PostgresServer) -> None:
    """By the script that PostgreSQL's image runs, on a real server."""
    binaries = find_postgres()
    psql = shutil.which("psql") or shutil.which("psql", path=str(binaries))
    if psql is None:
        missing("psql")
        return
    databases = ("afterturn", "temporal", "temporal_visibility")
    script = DEPLOY / "compose" / "postgresql.sql"
    command = [
        psql,
        "--no-psqlrc",
        "--quiet",
        "-h",
        "127.0.0.1",
        "-p",
        str(postgres_server.port),
        "-U",
        USER,
        "-d",
        "postgres",
        "-f",
        str(script),
    ]
    environment = {
        "PATH": os.environ["PATH"],
        "PGPASSWORD": PASSWORD,
        "DATABASE_PASSWORD": "one'two",
        "TEMPORAL_DATABASE_PASSWORD": "three",
    }
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        place = f"host=127.0.0.1 port={postgres_server.port}"
        with psycopg.connect(f"{place} user=afterturn dbname=afterturn", password="one'two", autocommit=True) as ours:
            ours.execute("CREATE TABLE something (id int)")
        with psycopg.connect(f"{place} user=temporal dbname=temporal_visibility", password="three", autocommit=True) as theirs:
            # What Temporal's visibility schema begins with; a trusted extension, where the server has it.
            if theirs.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'btree_gin'").fetchone():
                theirs.execute("CREATE EXTENSION btree_gin")
        with pytest.raises(psycopg.OperationalError, match="permission denied"):
            psycopg.connect(f"{place} user=temporal dbname=afterturn", password="three")
    finally:
        for name in databases:
            postgres_server.admin(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        for name in ("afterturn", "temporal"):
            postgres_server.admin(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(name)))


def test_scripts_parse() -> None:
    for script in [*(DEPLOY / "compose").glob("*.sh"), DEPLOY / "compose" / "make-env"]:
        subprocess.run(["sh", "-n", script], check=True, timeout=30)


def test_prometheus_scrapes_what_runs() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        missing("promtool")
        return
    file = DEPLOY / "compose" / "prometheus.yaml"
    subprocess.run([promtool, "check", "config", "--syntax-only", file], check=True, capture_output=True, timeout=60)
    config = yaml.safe_load(file.read_text(encoding="utf-8"))
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    for name, service in (("afterturn-workflows", "worker"), ("afterturn-models", "llm-worker"), ("afterturn-api", "api")):
        (found,) = jobs[name]["dns_sd_configs"]
        assert found["names"] == [service]
        assert SERVICES[service]["environment"]["AFTERTURN_METRICS_ADDRESS"].endswith(f":{found['port']}")
    for job in jobs.values():
        for target in (target for one in job.get("static_configs", []) for target in one["targets"]):
            assert target.partition(":")[0] in {*SERVICES, "127.0.0.1"}, target
    assert jobs["temporal"]["static_configs"][0]["targets"] == [
        f"temporal:{SERVICES['temporal']['environment']['PROMETHEUS_ENDPOINT'][8:]}"
    ]
    assert "./monitoring/rules:/etc/prometheus/rules:ro" in SERVICES["prometheus"]["volumes"]
    assert config["rule_files"] == ["/etc/prometheus/rules/*.yaml"]


def test_grafana_finds_its_dashboards() -> None:
    folder = DEPLOY / "compose" / "grafana"
    (source,) = yaml.safe_load((folder / "datasources" / "prometheus.yaml").read_text(encoding="utf-8"))["datasources"]
    (provider,) = yaml.safe_load((folder / "dashboards" / "afterturn.yaml").read_text(encoding="utf-8"))["providers"]
    assert source["url"] == "http://prometheus:9090"
    assert f"./monitoring/dashboards:{provider['options']['path']}:ro" in SERVICES["grafana"]["volumes"]
    dashboards = sorted((DEPLOY / "monitoring" / "dashboards").glob("*.json"))
    assert dashboards
    for dashboard in dashboards:
        used = set(_sources(json.loads(dashboard.read_text(encoding="utf-8"))))
        fixed = {uid for uid in used if not uid.startswith(("$", "-- "))}
        assert fixed <= {source["uid"], "grafana"}, dashboard.name


def test_collector_is_wired() -> None:
    config = yaml.safe_load((DEPLOY / "compose" / "otel-collector.yaml").read_text(encoding="utf-8"))
    for pipeline in config["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= config[kind].keys()
        assert pipeline["processors"][0] == "memory_limiter"
    place = SERVICES["worker"]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"]
    assert place == f"http://otel-collector:{config['receivers']['otlp']['protocols']['http']['endpoint'].rpartition(':')[2]}"
    assert config["exporters"]["otlp_grpc"]["endpoint"].partition(":")[0] in SERVICES


def _sources(node: Any) -> Iterator[str]:
    """The uid of every data source in a dashboard."""
    match node:
        case {"datasource": {"uid": str(uid)}}:
            yield uid
        case _:
            pass
    for inner in node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ():
        yield from _sources(inner)
