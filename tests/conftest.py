"""Fixtures that every test may use. Engines start once per session, on loopback and free ports, and always stop."""

import pytest

pytest_plugins = [
    "tests.support.engines",
    "tests.support.postgres",
    "tests.support.model_stub",
    "tests.support.stack",
    "tests.support.api",
]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes minutes of crashes runs when it is asked for."""
    if "crash" in config.option.markexpr:
        return
    for item in items:
        if item.get_closest_marker("crash") is not None:
            item.add_marker(pytest.mark.skip(reason="minutes of crashes; `make crash` runs it"))
