"""What lint finds in a text that an editor holds, which need not be saved."""

from __future__ import annotations

import io
import tokenize
from dataclasses import dataclass
from pathlib import Path

from lsprotocol import types

from ddpify.editor.text import Text
from ddpify.lint import config
from ddpify.lint.diagnostics import Confidence, Diagnostic, Severity
from ddpify.lint.engine import Result, lint
from ddpify.lint.files import discovery
from ddpify.lint.files.document import PYTHON, Document, kind_of

SOURCE = "ddpify"


@dataclass(frozen=True)
class Findings:
    """What was found in one version of a text."""

    version: int | None
    text: Text
    found: tuple[Diagnostic, ...]

    def at(self, wanted: types.Range) -> list[Diagnostic]:
        """Those that a range touches."""
        return [one for one in self.found if _touch(self.text.range(one.span), wanted)]

    def shown(self) -> list[types.Diagnostic]:
        """As an editor shows them."""
        return [self.diagnostic(one) for one in self.found]

    def diagnostic(self, one: Diagnostic) -> types.Diagnostic:
        """One of them as an editor shows it."""
        return types.Diagnostic(
            self.text.range(one.span),
            one.graded,
            severity=_severity(one),
            code=one.code,
            source=SOURCE,
        )


def find(path: Path, text: Text, version: int | None) -> Findings:
    """Lint a text as if it were saved at ``path``, by the settings that apply there.

    Raises:
        DdpifyError: The nearest pyproject.toml has wrong settings.
    """
    settings = config.load(config.find(path.parent))
    kind = kind_of(path) or PYTHON
    if discovery.excluded(path, settings):
        return Findings(version, text, ())
    result: Result = lint(Document(str(path), encoded(text.source), kind), settings)
    return Findings(version, text, result.found)


def encoded(source: str) -> bytes:
    """The bytes that an editor would save, by the text's own declaration of its encoding."""
    utf8 = source.encode("utf-8", "replace")
    try:
        return source.encode(tokenize.detect_encoding(io.BytesIO(utf8).readline)[0])
    except (SyntaxError, LookupError, UnicodeEncodeError):
        return utf8


def _severity(one: Diagnostic) -> types.DiagnosticSeverity:
    """What is no error yet is information; what is sure to break the training is an error."""
    if one.single or one.severity is Severity.STYLE:
        return types.DiagnosticSeverity.Information
    if one.severity is Severity.SLOW or one.confidence < Confidence.CERTAIN:
        return types.DiagnosticSeverity.Warning
    return types.DiagnosticSeverity.Error


def _touch(one: types.Range, other: types.Range) -> bool:
    return _ordered(one.start) <= _ordered(other.end) and _ordered(other.start) <= _ordered(one.end)


def _ordered(place: types.Position) -> tuple[int, int]:
    return place.line, place.character
