"""Names for what argparse keeps to itself."""

from __future__ import annotations

import argparse

__all__ = ["Subcommands"]

Subcommands = argparse._SubParsersAction[argparse.ArgumentParser]
