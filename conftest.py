"""Fixtures of this repository, for e2e/ and for whatever else wants a world."""

pytest_plugins = ["fixtures.kueue"]
