"""Comments of the script that silence findings at their line, as they do for ``ddpify lint``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ddpify.checking.findings import Finding
from ddpify.lint import suppressions
from ddpify.lint.suppressions import Suppression


def split_silenced(found: Sequence[Finding], root: Path) -> tuple[list[Finding], list[Finding]]:
    """The findings that stay, and those that a comment silences.

    Args:
        found: Their files are relative to ``root``.
        root: The user's folder.
    """
    comments = cache(_comments)
    silenced = [one for one in found if any(_meets(c, one) for c in comments(root / one.path))]
    return [one for one in found if one not in silenced], silenced


def _comments(path: Path) -> list[Suppression]:
    if not path.is_file():
        return []
    return suppressions.read(path.read_text(encoding="utf-8", errors="replace"))


def _meets(comment: Suppression, one: Finding) -> bool:
    here = comment.lines is None or one.line in comment.lines
    return here and (comment.codes is None or one.code in comment.codes)
