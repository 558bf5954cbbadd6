"""A verdict as one page: everything in it is in the file, and it opens offline."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from html import escape
from pathlib import PurePath

from ddpify import __version__
from ddpify.lint.explain import explain
from ddpify.verify.report import heatmap, sidebyside
from ddpify.verify.report.charts import Chart, Line
from ddpify.verify.report.style import CSS, SCRIPT
from ddpify.verify.report.text import answers, line_number, place, processes, source_line, title
from ddpify.verify.verdict import (
    Check,
    Comparison,
    Coverage,
    Difference,
    Kind,
    Series,
    Verdict,
    What,
)

MAX_PASSES = 12
LABELLED_ROWS = 48
_TONE = {Kind.EQUIVALENT: "good", Kind.EXCEPT: "fair", Kind.VACUOUS: "fair"}
_WORD = {True: ("same", "yes"), False: ("differs", "no"), None: ("-", "soft")}


def as_html(verdict: Verdict) -> str:
    """``verdict`` as an HTML document."""
    name = f"{PurePath(verdict.original).name}: {title(verdict)}"
    parts = [_head(verdict), *(_comparison(one, verdict) for one in verdict.comparisons)]
    if verdict.failure:
        parts.append(f"<h2>What happened</h2><pre>{escape(verdict.failure)}</pre>")
    parts += [f'<p class="soft">{escape(note)}</p>' for note in verdict.notes]
    parts += [_scripts(verdict), _rules(verdict), _environment(verdict)]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(name)}</title><style>{CSS}</style></head>"
        f"<body><main>{''.join(parts)}</main><script>{SCRIPT}</script></body></html>\n"
    )


def _head(verdict: Verdict) -> str:
    counts = " and ".join(str(comparison.nproc) for comparison in verdict.comparisons)
    against = f" against <code>{escape(verdict.converted)}</code>" if verdict.converted else ""
    on = f" on {processes(counts)}" if counts else ""
    said = title(verdict)
    return (
        f'<header class="{_tone(verdict.kind)}"><h1>{escape(said[0].upper() + said[1:])}</h1>'
        f"<p><code>{escape(verdict.original)}</code> on 1 process{against}{on}, "
        f"{verdict.steps} optimizer steps</p>"
        f'<p class="soft">Compared step by step {place(verdict)} in double precision; chance that '
        "depends on how a batch is split is taken out (dropout, augmentation, noise).</p>"
        f'<p class="soft">{escape(verdict.date)}, ddpify {__version__}, torch '
        f"{escape(verdict.torch)}, Python {platform.python_version()}<br>"
        f"<code>{escape(verdict.command)}</code></p></header>"
    )


def _tone(kind: Kind) -> str:
    return _TONE.get(kind, "bad")


def _comparison(comparison: Comparison, verdict: Verdict) -> str:
    tone = _tone(comparison.kind)
    parts = [
        f"<h2>On {processes(comparison.nproc)}: "
        f'<span class="said {tone}">{comparison.kind.value}</span></h2>'
    ]
    if comparison.checks:
        parts.append(_questions(comparison))
    if comparison.leading:
        parts.append("<h3>First difference</h3>")
    parts += [_finding(found, verdict) for found in comparison.leading]
    parts.append(_following(comparison.following))
    if comparison.acceptable:
        names = escape(",".join(dict.fromkeys(map(_name, comparison.acceptable))))
        parts.append(f"<h3>May be accepted: <code>--allow {names}</code></h3>")
    parts += [_finding(found, verdict) for found in comparison.acceptable]
    if comparison.failure:
        parts.append(f"<pre>{escape(comparison.failure)}</pre>")
    if comparison.series:
        first = next((found.step for found in comparison.leading if found.step), None)
        parts += [_losses(comparison.series, first), _divergence(comparison.series)]
    if comparison.coverage:
        parts.append(_coverage(comparison.coverage))
    if comparison.checks:
        parts.append(_checks(comparison))
    return "".join(parts)


def _questions(comparison: Comparison) -> str:
    facts = (comparison.same_data, comparison.same_arithmetic)
    tones = [_answer_tone(comparison, fact, data=not at) for at, fact in enumerate(facts)]
    cards = "".join(
        f'<div class="card {tone}"><b>{escape(asked)}</b><span>{escape(answer)}</span></div>'
        for (asked, answer), tone in zip(answers(comparison), tones, strict=True)
    )
    return f'<div class="cards">{cards}</div>'


def _answer_tone(comparison: Comparison, fact: bool | None, *, data: bool) -> str:
    """Red where the answer is no, unless all that says so may be accepted."""
    if fact is not False:
        return "good" if fact else "fair"
    causes = [found for found in comparison.differences if (found.what is What.DATA) == data]
    return "fair" if causes and all(map(_name, causes)) else "bad"


def _name(found: Difference) -> str:
    return found.cause.name if found.cause else ""


def _finding(found: Difference, verdict: Verdict) -> str:
    step = f"step {found.step}: " if found.step is not None else ""
    rows = [f"<p><b>{escape(found.what.value)}</b>: {escape(step + found.text)}</p>"]
    facts = []
    if found.size is not None:
        limit = f", limit {found.limit:.0e}" if found.limit is not None else ""
        facts.append(f"relative size {found.size:.3g}{limit}")
    if found.rank is not None:
        facts.append(f"rank {found.rank}")
    if found.at:
        facts.append(f"<code>{escape(found.at)}</code>")
    if facts:
        rows.append(f'<p class="soft">{", ".join(facts)}</p>')
    if line := source_line(verdict, found.at):
        rows.append(f"<pre>{escape(line)}</pre>")
    if found.cause is not None:
        rules = "".join(f'<a class="rule" href="#{code}">{code}</a>' for code in found.cause.rules)
        rows.append(f"<p>Suspected: {escape(found.cause.text)} {rules}</p>")
        rows.append(f"<p>Remedy: {escape(found.cause.remedy)}</p>")
    named = " named" if found.cause and found.cause.name else ""
    return f'<div class="finding{named}">{"".join(rows)}</div>'


def _following(differences: Sequence[Difference]) -> str:
    """What is probably a consequence, in a line each."""
    rows = "".join(
        f"<li>{escape(found.what.value)}: {escape(found.text)}</li>" for found in differences
    )
    return (
        f'<p class="soft">And then, probably from that:</p><ul class="soft">{rows}</ul>'
        if (rows)
        else ""
    )


def _losses(series: Series, first: int | None) -> str:
    """Curves of the losses; a line at the step of the first difference."""
    lines = [Line("original", "own", series.original)]
    if series.reference:
        lines.append(Line("original, as it was compared with", "third", series.reference))
    lines.append(Line("converted, mean over the ranks", "other", series.converted))
    base = series.reference or series.original
    apart = [
        None if a is None or b is None else abs(a - b)
        for a, b in zip(base, series.converted, strict=True)
    ]
    colours = {"own": "var(--own)", "third": "var(--good)", "other": "var(--other)"}
    key = "".join(
        f'<span><i style="color:{colours[line.kind]}"></i>{escape(line.name)}</span>'
        for line in lines
    )
    if first is not None:
        key += '<span><i style="color:var(--bad)" class="dashed"></i>first difference</span>'
    return (
        "<h3>Loss at each optimizer step</h3>"
        f'<div class="key">{key}</div>{Chart(lines, label="loss by step", mark=first).svg()}'
        "<h3>Difference of the two losses</h3>"
        + Chart(
            [Line("difference", "apart", apart)], 140, log=True, label="difference", mark=first
        ).svg()
    )


def _divergence(series: Series) -> str:
    """The heat map, its scale, and a line that names what is under the pointer."""
    rows = [[row[at] for at in range(len(row))] for row in series.divergence]
    if not rows or not rows[0]:
        return ""
    levels = "".join(chr(48 + heatmap.level(value)) for row in rows for value in row)
    data = {"names": series.names, "steps": len(rows[0]), "levels": levels}
    every = -(-len(rows) // LABELLED_ROWS)
    labels = "".join(f"<li>{escape(name)}</li>" for name in series.names[::every])
    height = min(max(14 * len(rows), 120), 680)
    return (
        "<h3>Parameters after each step: relative difference from one process</h3>"
        f'<div class="heat" style="height:{height}px" data-values="{escape(json.dumps(data))}">'
        f'<ol>{labels}</ol><img alt="relative difference by parameter and step" '
        f'src="{heatmap.png(rows, series.limit)}"></div><p class="under"></p>{_scale(series.limit)}'
    )


def _scale(limit: float) -> str:
    colours = heatmap.palette(limit)
    steps = [colours[3 * at : 3 * at + 3].hex() for at in range(heatmap.LEVELS + 1)]
    cells = "".join(f'<i style="background:#{colour}"></i>' for colour in steps)
    return (
        f'<div class="scale">{cells}</div><div class="ends"><span>equal</span>'
        f"<span>1e-12</span><span>limit {limit:.0e}</span><span>1e-4</span><span>10</span></div>"
    )


def _coverage(passes: Sequence[Coverage]) -> str:
    rows = "".join(
        f"<tr><td>{number}</td><td>{item.samples}</td><td>{_bar(item)}</td>"
        f"<td>{' + '.join(map(str, item.by_rank))}</td>"
        f'<td class="{"no" if item.missing else "yes"}">{item.missing}</td>'
        f'<td class="{"no" if item.extra else "yes"}">{item.extra}</td></tr>'
        for number, item in enumerate(passes[:MAX_PASSES], 1)
    )
    more = len(passes) - MAX_PASSES
    note = f'<p class="soft">and {more} more passes</p>' if more > 0 else ""
    if any(item.everywhere for item in passes):
        note += '<p class="soft">Every rank reads all samples.</p>'
    return (
        "<h3>Samples that are trained on</h3><table class=facts><tr><th>pass<th>samples"
        f"<th>by rank<th><th>lost<th>more than once</tr>{rows}</table>{note}"
    )


def _bar(item: Coverage) -> str:
    total = max(sum(item.by_rank) + item.missing, 1)
    parts = "".join(f'<i style="width:{100 * n / total:.1f}%"></i>' for n in item.by_rank)
    if item.missing:
        parts += f'<i class="lost" style="width:{100 * item.missing / total:.1f}%"></i>'
    return f'<div class="bar">{parts}</div>'


def _checks(comparison: Comparison) -> str:
    rows = "".join(map(_check, comparison.checks))
    notes = "".join(f'<p class="soft">{escape(note)}</p>' for note in comparison.notes)
    return f"<h3>What was compared</h3><table class=facts>{rows}</table>{notes}"


def _check(check: Check) -> str:
    word, kind = _WORD[check.passed]
    return (
        f'<tr><td>{escape(check.what)}</td><td class="{kind}">{word}</td>'
        f'<td class="soft">{escape(check.remark)}</td></tr>'
    )


def _scripts(verdict: Verdict) -> str:
    if len(verdict.sources) < 2:
        return ""
    (name, own), (other_name, other) = verdict.sources
    suspected = {
        line
        for one in verdict.comparisons
        for found in (*one.leading, *one.acceptable)
        if (line := line_number(verdict, found.at))
    }
    return (
        f"<h2><code>{escape(name)}</code> and <code>{escape(other_name)}</code></h2>"
        f'<div class="diff">{sidebyside.table(own, other, suspected)}</div>'
    )


def _rules(verdict: Verdict) -> str:
    """The texts of the rules that the page names, so that its links work offline."""
    found = [
        rule
        for one in verdict.comparisons
        for item in (*one.leading, *one.acceptable)
        if item.cause
        for rule in item.cause.rules
    ]
    texts = "".join(
        f'<section id="{code}"><pre>{escape(explain(code))}</pre></section>'
        for code in dict.fromkeys(found)
    )
    return f"<h2>Rules</h2>{texts}" if texts else ""


def _environment(verdict: Verdict) -> str:
    faked = {**verdict.faked}
    for comparison in verdict.comparisons:
        faked |= comparison.faked
    stand_ins = ", ".join(sorted(faked)) or "none"
    facts = {
        "ddpify": __version__,
        "torch": verdict.torch,
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "numbers": f"float64 {place(verdict)}, one thread a process",
        "calls answered by a stand-in": stand_ins,
        "time": f"{verdict.seconds:.1f} s",
    }
    rows = "".join(
        f"<tr><th>{name}</th><td>{escape(text)}</td></tr>" for name, text in facts.items()
    )
    return f"<h2>Environment</h2><table class=facts>{rows}</table>"
