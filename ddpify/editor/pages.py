"""The page of a rule where the cursor is on what it found, or on a comment that names it."""

from __future__ import annotations

import re

from lsprotocol import types

from ddpify.codes import code_of
from ddpify.editor.findings import Findings
from ddpify.lint.explain import explain

_COMMENT = re.compile(r"#\s*(?:ddpify:\s*(?:file-)?ignore\[|noqa:)([^\]]*)")


def page(findings: Findings, position: types.Position) -> types.Hover | None:
    """The pages of all rules that have something to say there, as Markdown."""
    here = findings.at(types.Range(position, position))
    codes = dict.fromkeys(one.code for one in here) or dict.fromkeys(
        _named(findings.text.line(position.line + 1))
    )
    if not codes:
        return None
    text = "\n\n---\n\n".join(_without_setups(explain(code)) for code in codes)
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text))


def _named(line: str) -> list[str]:
    """The rules that a comment names."""
    found = _COMMENT.search(line)
    names = re.split(r"[,\s]+", found[1]) if found else []
    return [code for code in map(code_of, filter(None, names)) if code is not None]


def _without_setups(text: str) -> str:
    """Examples as editors know them: ``python``, without the word for the lines before them."""
    return re.sub(r"^```(\w+) \w+$", r"```\1", text, flags=re.M)
