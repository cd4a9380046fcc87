"""Fixtures that every test may use. Engines start once per session, on loopback and free ports, and always stop."""

import pytest

pytest_plugins = [
    "tests.support.engines",
    "tests.support.postgres",
    "tests.support.model_stub",
    "tests.support.stack",
    "tests.support.api",
]


SLOW_FIRST = ("faults", "deploy", "e2e", "browser", "api", "workflows", "replay", "contract")
"""Folders whose files take long. Files are handed out whole and in order: a long one that came last would run alone."""


LONG = {"crash": "minutes of crashes", "endurance": "many minutes under load"}
"""Marked tests that a target of the Makefile runs, which has the marker's name."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow files first; what takes many minutes runs when it is asked for."""
    items.sort(key=lambda item: _rank(item.nodeid))
    for marker, what in LONG.items():
        if marker in config.option.markexpr:
            continue
        for item in items:
            if item.get_closest_marker(marker) is not None:
                item.add_marker(pytest.mark.skip(reason=f"{what}; `make {marker}` runs it"))


def _rank(nodeid: str) -> int:
    folder = nodeid.split("/")[1] if nodeid.count("/") > 1 else ""
    return SLOW_FIRST.index(folder) if folder in SLOW_FIRST else len(SLOW_FIRST)
