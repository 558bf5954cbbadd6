"""What could not be brought to its end: an analysis that was cut short, rules that crashed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ddpify.codes import BY_NAME
from ddpify.lint.diagnostics import Diagnostic, Severity, Span
from ddpify.understanding.budget import Exhausted

NAME = "analysis-cut-short"
CODE = BY_NAME[NAME]


class Unfinished:
    """Notes the rules that do not end their work, so that the others can go on."""

    def __init__(self) -> None:
        self.cut_short: Exhausted | None = None
        self.crashes: list[str] = []

    @contextmanager
    def work(self, name: str) -> Iterator[None]:
        """Inside is work that others do not depend on.

        Raises:
            RecursionError: It is nested too deeply, which a smaller part of the project may not be.
        """
        try:
            yield
        except RecursionError:
            raise
        except Exhausted as error:
            self.cut_short = error
        except Exception as error:
            self.crashes.append(f"{name}: {type(error).__name__}: {error}")

    @property
    def failure(self) -> str | None:
        """What crashed, in one line; None where nothing did."""
        return "; ".join(dict.fromkeys(self.crashes)) or None


def cut_short(path: str, error: Exhausted | RecursionError) -> Diagnostic:
    """The finding that tells that the analysis of a file is incomplete, and where it went on."""
    line, message = 1, "the analysis was cut short: expressions or calls are nested too deeply"
    if isinstance(error, Exhausted):
        message = str(error)
        if error.path is not None and os.path.realpath(error.path) == os.path.realpath(path):
            line = error.line
        elif error.path is not None:
            message += f" of {os.path.relpath(error.path)}:{error.line}"
    if isinstance(error, Exhausted) and error.passes:
        message += f"; the findings are those of {error.passes} complete passes over the code"
    else:
        message += "; rules that need all of it did not run"
    return Diagnostic(path, Span(line, 1, line, 2), CODE, NAME, message, Severity.STYLE)
