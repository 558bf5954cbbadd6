"""The page of a rule: what is in the docstring of its file, as text or JSON."""

from __future__ import annotations

import json
import re

from ddpify.codes import CODES, code_of
from ddpify.lint.config import usage
from ddpify.lint.registry import ENGINE_CODES, Rule, load
from ddpify.records import record

SECTIONS = (
    "What it does", "Why is this bad", "Example", "Use instead", "Also fine", "Fix safety",
    "When not to follow it", "References",
)  # fmt: skip
_ENGINE_PAGES = {
    "DDP000": "The file cannot be read as Python; the other files are linted all the same. "
    "`--fix` renames an argument called `async`.",
    "DDP001": "A `# ddpify: ignore` comment that silences nothing. `--fix` removes it.",
    "DDP004": "Understanding the file took too many steps, or went too deep: not all rules ran.",
}
_BLOCK = re.compile(r"```(\w+)(?: (\w+))?\n(.*?)```", re.S)


@record
class Example:
    """A piece of code of a page; ``setup`` names the lines that are left out before it."""

    section: str
    code: str
    setup: str


def sections(page: str) -> dict[str, str]:
    """The text under each heading of a page; the line above all under the empty one."""
    parts = re.split(r"^## (.+)$", page, flags=re.M)
    found = {"": parts[0].strip()}
    for title, text in zip(parts[1::2], parts[2::2], strict=True):
        found[title.strip()] = text.strip()
    return found


def examples(page: str) -> list[Example]:
    """All code of a page, in order."""
    return [
        Example(title, match[3], match[2] or "distributed")
        for title, text in sections(page).items()
        for match in _BLOCK.finditer(text)
    ]


def explain(name: str) -> str:
    """The page of one rule.

    Raises:
        DdpifyError: With exit code 2 where there is no such rule.
    """
    code = code_of(name)
    if code is None:
        raise usage(f"no rule is called {name!r}", remedy="`ddpify rule --all` lists the rules")
    if code in ENGINE_CODES:
        return f"# {CODES[code]} ({code})\n\n{_ENGINE_PAGES[code]}"
    found = load(code)
    return f"# {found.name} ({found.code})\n\n{_facts(found)}\n\n{found.documentation.strip()}"


def _facts(found: Rule) -> str:
    kinds = {
        "single": "single-process scripts",
        "converted": "single-process scripts (what convert does)",
        "distributed": "distributed scripts",
        "other": "others",
    }
    where = ", ".join(kinds[kind] for kind in sorted(found.applies, reverse=True))
    return (
        f"Group: {found.group}. What happens: {found.severity.word}. Confidence:"
        f" {found.confidence.word}. Looks at: {where}. Fix: {_fixes(found)}."
    )


def _fixes(found: Rule) -> str:
    options = {"safe": "safe (--fix)", "unsafe": "unsafe (--fix --unsafe-fixes)"}
    return " or ".join(options[kind] for kind in found.fixes) or "none"


def overview(form: str) -> str:
    """All rules, one a line, or as JSON."""
    if form == "json":
        return json.dumps([_entry(code) for code in sorted(CODES)], indent=2)
    width = max(map(len, CODES.values()))
    return "\n".join(
        f"{e['code']}  {e['name']!s:<{width}}  {e['summary']}" for e in map(_entry, sorted(CODES))
    )


def as_json(name: str) -> str:
    """One rule as JSON."""
    text = explain(name)
    code = code_of(name)
    assert code is not None
    return json.dumps({**_entry(code), "page": text}, indent=2)


def _entry(code: str) -> dict[str, object]:
    if code in ENGINE_CODES:
        return {"code": code, "name": CODES[code], "group": "engine", "severity": "style",
                "confidence": "certain", "fixes": ["safe"] if code == "DDP001" else [],
                "summary": _ENGINE_PAGES[code]}  # fmt: skip
    found = load(code)
    summary = sections(found.documentation)[""].splitlines()[0]
    return {"code": code, "name": found.name, "group": found.group,
            "severity": found.severity.word, "confidence": found.confidence.word,
            "fixes": list(found.fixes), "summary": summary}  # fmt: skip
