"""A verdict as plain text."""

from __future__ import annotations

import textwrap
from pathlib import PurePath

from ddpify.verify.verdict import Check, Comparison, Difference, Kind, Verdict, What

WIDTH = 80
_WORD: dict[bool | None, str] = {True: "yes", False: "no", None: "unknown"}
_RESULT = {True: "same", False: "DIFFERS", None: "-"}


def render(verdict: Verdict) -> str:
    """``verdict`` as it is shown in a terminal: what ran, a table for each number of processes, the
    answer."""
    parts = [_head(verdict)]
    for comparison in verdict.comparisons:
        parts.append(_comparison(comparison, verdict))
    parts += [_wrapped("note: ", note) for note in verdict.notes]
    if verdict.faked:
        parts.append(
            _wrapped("note: answered by a stand-in in the original: ", _faked(verdict.faked))
        )
    if verdict.failure:
        parts.append(verdict.failure)
    if verdict.named and not {cause.name for cause in verdict.named} <= verdict.allowed:
        parts.append(accepting(verdict))
    parts.append(f"verdict: {title(verdict)}{_scope(verdict)}")
    return "\n\n".join(parts) + "\n"


def title(verdict: Verdict) -> str:
    """The verdict in words: its kind, and the causes that it is except for."""
    if verdict.kind is not Kind.EXCEPT:
        return str(verdict.kind.value)
    allowed = " (allowed)" if verdict.exit_code == 0 else ""
    names = ", ".join(cause.name for cause in verdict.named)
    return f"{verdict.kind.value} {names}{allowed}"


def accepting(verdict: Verdict) -> str:
    """What accepts the causes that have a name, and what that leaves."""
    names = ",".join(cause.name for cause in verdict.named)
    rest = "" if verdict.kind is Kind.EXCEPT else " (the rest stays)"
    return f"to accept {names.replace(',', ' and ')}: --allow {names}{rest}"


def answers(comparison: Comparison) -> list[tuple[str, str]]:
    """The two questions, each with its answer."""
    causes = [item.cause for item in comparison.differences if item.what is What.DATA]
    data = _WORD[comparison.same_data]
    if causes and causes[0]:
        data += f": {causes[0].name or causes[0].text}"
    elif comparison.seen:
        data += f", {comparison.seen}"
    arithmetic = _WORD[comparison.same_arithmetic]
    named = [item.cause for item in comparison.differences if item.what is not What.DATA]
    if comparison.unjudged:
        arithmetic = f"unknown: {comparison.unjudged}"
    elif comparison.same_arithmetic is False and all(cause and cause.name for cause in named):
        arithmetic += f", but only in {', '.join(cause.name for cause in named if cause)}"
    if comparison.replayed:
        arithmetic += " (the original trained on the converted run's batches)"
    return [("same data?", data), ("same arithmetic?", arithmetic)]


def _head(verdict: Verdict) -> str:
    counts = ", ".join(str(comparison.nproc) for comparison in verdict.comparisons)
    against = f" against {verdict.converted} ({processes(counts)})" if counts else ""
    how = f"{place(verdict)} in float64, torch {verdict.torch}, {verdict.seconds:.1f} s"
    return f"{verdict.original} (1 process){against}\n{how}"


def _scope(verdict: Verdict) -> str:
    if verdict.kind not in (Kind.EQUIVALENT, Kind.EXCEPT):
        return ""
    counts = [str(comparison.nproc) for comparison in verdict.comparisons]
    return f" ({verdict.steps} optimizer steps, {processes(' and '.join(counts))})"


def line_number(verdict: Verdict, at: str) -> int:
    """The number of a line of the converted script, named as ``file.py:12``; 0 of others."""
    name, _, number = at.rpartition(":")
    if len(verdict.sources) < 2 or PurePath(name).name != verdict.sources[1][0]:
        return 0
    known = len(verdict.sources[1][1].splitlines())
    return int(number) if 0 < int(number) <= known else 0


def source_line(verdict: Verdict, at: str) -> str:
    """The text of a line of the converted script, named as ``file.py:12``; empty of others."""
    number = line_number(verdict, at)
    return verdict.sources[1][1].splitlines()[number - 1].strip() if number else ""


def place(verdict: Verdict) -> str:
    """What the scripts ran on."""
    return "on GPUs" if verdict.device == "cuda" else "on the CPU"


def processes(count: int | str) -> str:
    """``count`` with its noun."""
    return f"{count} process" if count in (1, "1") else f"{count} processes"


def _comparison(comparison: Comparison, verdict: Verdict) -> str:
    lines = [f"{processes(comparison.nproc)}: {comparison.kind.value}"]
    if comparison.checks:
        lines += [_wrapped(f"  {asked:<18}", answer) for asked, answer in answers(comparison)]
        lines += ["", *map(_check, comparison.checks)]
    if comparison.failure:
        lines += ["", textwrap.indent(comparison.failure, "  ")]
    if comparison.differences:
        for found in comparison.leading:
            lines += ["", *_difference("first difference: ", found, verdict)]
        later = comparison.following
        lines += [_wrapped("  then: ", item.text) for item in later[:4]]
        if len(later) > 4:
            lines.append(f"  and {len(later) - 4} more")
        for found in comparison.acceptable:
            lines += ["", *_difference("may be accepted: ", found, verdict)]
    lines += [_wrapped("  note: ", note) for note in comparison.notes]
    if comparison.faked:
        lines.append(_wrapped("  note: answered by a stand-in: ", _faked(comparison.faked)))
    return "\n".join(lines)


def _check(check: Check) -> str:
    return f"  {check.what:<27} {_RESULT[check.passed]:<8} {check.remark}".rstrip()


def _difference(head: str, found: Difference, verdict: Verdict) -> list[str]:
    step = f"step {found.step}: " if found.step is not None else ""
    lines = [_wrapped(f"  {head}", step + found.text)]
    if found.size is not None:
        limit = f" (limit {found.limit:.0e})" if found.limit is not None else ""
        rank = f" on rank {found.rank}" if found.rank is not None else ""
        lines.append(f"    relative size {found.size:.3g}{limit}{rank}")
    if found.at:
        line = source_line(verdict, found.at)
        lines.append(_wrapped("    at ", f"{found.at}: {line}" if line else found.at))
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
