"""Shell scripts, batch files and Makefiles that start training."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpify.launching.migration import OldLaunch, find_script, old_launches, wants_argument
from ddpify.lint.diagnostics import Applicability, Diagnostic, Edit, Fix, Severity, Span
from ddpify.lint.files.document import Document

_IGNORED = re.compile(r"#\s*ddpify:\s*ignore(?:$|\[[^\]]*(?:DDP905|distributed-launch))")


def check_launch_file(document: Document, codes: set[str]) -> Iterator[Diagnostic]:
    """Findings in a file that is not Python."""
    if "DDP905" not in codes:
        return
    text = document.data.decode("utf-8", "replace")
    lines = text.splitlines()
    for launch in old_launches(text):
        span = _span(text, launch)
        if not _IGNORED.search(lines[span.line - 1]):
            yield Diagnostic(
                document.path,
                span,
                "DDP905",
                "distributed-launch",
                f"torch.distributed.launch is deprecated{_passing(launch)}: use torchrun",
                Severity.STYLE,
                fix=_fix(launch, document.path),
            )


def _passing(launch: OldLaunch) -> str:
    return "" if launch.uses_env else " and passes --local-rank to the script"


def _span(text: str, launch: OldLaunch) -> Span:
    (line, column), (end_line, end_column) = (
        (text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))
        for at in (launch.start, launch.end)
    )
    return Span(line, column, end_line, end_column)


def _fix(launch: OldLaunch, path: str) -> Fix:
    """Safe where the script is known not to need the argument that torchrun does not pass."""
    edits = tuple(Edit(*edit) for edit in launch.edits)
    script = find_script(launch.script, path)
    known = launch.uses_env or (script is not None and wants_argument(script) is None)
    trust = Applicability.SAFE if known else Applicability.UNSAFE
    return Fix("start it with torchrun", edits, trust)
