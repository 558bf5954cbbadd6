"""Shell scripts, batch files and Makefiles that start training."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpify.lint.diagnostics import Applicability, Diagnostic, Edit, Fix, Severity, Span
from ddpify.lint.document import Document

_LAUNCH = re.compile(r"\bpython[0-9.]*(?:\s+-u)?\s+-m\s+torch\.distributed\.launch\b")
_USE_ENV = re.compile(r"(?<=\s)--use[-_]env\b")


def check_launch_file(document: Document, codes: set[str]) -> Iterator[Diagnostic]:
    """Findings in a file that is not Python, one line at a time."""
    if "DDP905" not in codes:
        return
    text = document.data.decode("utf-8", "replace")
    offset = 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        command = line.split("#")[0] if line.lstrip().startswith("#") else line
        match = _LAUNCH.search(command)
        if match and not _ignored(line):
            span = Span(number, match.start() + 1, number, match.end() + 1)
            yield Diagnostic(
                document.path,
                span,
                "DDP905",
                "distributed-launch",
                "torch.distributed.launch is deprecated and passes --local-rank to the script:"
                " use torchrun",
                Severity.STYLE,
                fix=_fix(line, match, offset),
            )
        offset += len(line)


def _ignored(line: str) -> bool:
    return bool(re.search(r"#\s*ddpify:\s*ignore(?:$|\[[^\]]*(?:DDP905|distributed-launch))", line))


def _fix(line: str, match: re.Match[str], offset: int) -> Fix:
    """Without --use-env the script may want --local-rank, which torchrun does not pass."""
    edits = [Edit(offset + match.start(), offset + match.end(), "torchrun")]
    use_env = _USE_ENV.search(line)
    if use_env is not None:
        edits.append(
            Edit(offset + use_env.start(), offset + use_env.end() + _space(line, use_env), "")
        )
    trust = Applicability.SAFE if use_env else Applicability.UNSAFE
    return Fix("start it with torchrun", tuple(edits), trust)


def _space(line: str, match: re.Match[str]) -> int:
    return 1 if line[match.end() : match.end() + 1] == " " else 0
