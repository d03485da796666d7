"""The command `holdback`: thin, one module a subcommand."""

from holdback.cli.main import main

__all__ = ["main"]
