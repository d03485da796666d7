"""The options that say what each arm runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdback.controllers.kueue.variant import Variant, default_word, read_variant

if TYPE_CHECKING:
    import argparse

__all__ = ["add_options", "variants"]

_ARMS = {"control": "the arm that shows the bug", "treatment": "the arm with the fix"}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add an option for each arm."""
    for arm, meaning in _ARMS.items():
        parser.add_argument(
            f"--{arm}",
            metavar="KUEUE",
            help=f"{meaning}: a version, a checkout's folder, an executable, or a .toml file "
            f"(default: {default_word(arm)}, if it is there)",
        )


def variants(arguments: argparse.Namespace, *, defaults: bool = True) -> list[Variant]:
    """What the arms run; an arm of which nothing is known is left out, without `defaults` also one not named.

    Raises:
        ConfigurationError: a word that means no variant.
    """
    words = {arm: getattr(arguments, arm) or (default_word(arm, existing=True) if defaults else None) for arm in _ARMS}
    return [read_variant(word, arm) for arm, word in words.items() if word is not None]
