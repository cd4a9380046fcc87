"""Fixtures that every test may use. Engines start once per session, on loopback and free ports, and always stop."""

pytest_plugins = ["tests.support.engines", "tests.support.postgres", "tests.support.model_stub", "tests.support.stack"]
