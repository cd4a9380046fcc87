"""Links into the Temporal Web UI."""

from __future__ import annotations

from urllib.parse import quote


def workflow_url(web_ui: str, namespace: str, workflow_id: str, run_id: str | None = None) -> str:
    """Address of a workflow, or of one of its runs, in the Temporal Web UI."""
    base = f"{web_ui.rstrip('/')}/namespaces/{quote(namespace, safe='')}/workflows/{quote(workflow_id, safe='')}"
    return f"{base}/{quote(run_id, safe='')}/history" if run_id else base
