"""A verdict as plain text."""

from __future__ import annotations

import textwrap

from ddpify.verify.verdict import Check, Comparison, Difference, Kind, Verdict

WIDTH = 100
_RESULT = {True: "same", False: "DIFFERS", None: "-"}


def render(verdict: Verdict) -> str:
    """``verdict`` as it is shown in a terminal: what ran, a table for each number of processes, the
    answer."""
    parts = [_head(verdict)]
    for comparison in verdict.comparisons:
        parts.append(_comparison(comparison))
    parts += [_wrapped("note: ", note) for note in verdict.notes]
    if verdict.faked:
        parts.append(
            _wrapped("note: answered by a stand-in in the original: ", _faked(verdict.faked))
        )
    if verdict.failure:
        parts.append(verdict.failure)
    parts.append(f"verdict: {verdict.kind.value}{_scope(verdict)}")
    return "\n\n".join(parts) + "\n"


def _head(verdict: Verdict) -> str:
    counts = ", ".join(str(comparison.nproc) for comparison in verdict.comparisons)
    against = f" against {verdict.converted} ({processes(counts)})" if counts else ""
    how = f"on the CPU in float64, torch {verdict.torch}, {verdict.seconds:.1f} s"
    return f"{verdict.original} (1 process){against}\n{how}"


def _scope(verdict: Verdict) -> str:
    if verdict.kind is not Kind.EQUIVALENT:
        return ""
    counts = [str(comparison.nproc) for comparison in verdict.comparisons]
    return f" ({verdict.steps} optimizer steps, {processes(' and '.join(counts))})"


def processes(count: int | str) -> str:
    """``count`` with its noun."""
    return f"{count} process" if count in (1, "1") else f"{count} processes"


def _comparison(comparison: Comparison) -> str:
    lines = [f"{processes(comparison.nproc)}: {comparison.kind.value}"]
    lines += [_check(check) for check in comparison.checks]
    if comparison.failure:
        lines += ["", textwrap.indent(comparison.failure, "  ")]
    if comparison.differences:
        lines += ["", *_difference("first difference: ", comparison.differences[0])]
        later = comparison.differences[1:]
        lines += [_wrapped("  then: ", item.text) for item in later[:4]]
        if len(later) > 4:
            lines.append(f"  and {len(later) - 4} more")
    lines += [_wrapped("  note: ", note) for note in comparison.notes]
    if comparison.faked:
        lines.append(_wrapped("  note: answered by a stand-in: ", _faked(comparison.faked)))
    return "\n".join(lines)


def _check(check: Check) -> str:
    return f"  {check.what:<30} {_RESULT[check.passed]:<8} {check.remark}".rstrip()


def _difference(head: str, found: Difference) -> list[str]:
    step = f"step {found.step}: " if found.step is not None else ""
    lines = [_wrapped(f"  {head}", step + found.text)]
    if found.size is not None:
        limit = f" (limit {found.limit:.0e})" if found.limit is not None else ""
        rank = f" on rank {found.rank}" if found.rank is not None else ""
        lines.append(f"    relative size {found.size:.3g}{limit}{rank}")
    if found.cause is not None:
        rules = f" [{', '.join(found.cause.rules)}]" if found.cause.rules else ""
        lines.append(_wrapped("    suspected: ", found.cause.text + rules))
        lines.append(_wrapped("    remedy: ", found.cause.remedy))
    return lines


def _faked(faked: dict[str, int]) -> str:
    return ", ".join(f"{name} x{count}" for name, count in sorted(faked.items()))


def _wrapped(head: str, text: str) -> str:
    indent = " " * (len(head) - len(head.lstrip()) + 2)
    return textwrap.fill(head + text, WIDTH, subsequent_indent=indent, break_long_words=False)
