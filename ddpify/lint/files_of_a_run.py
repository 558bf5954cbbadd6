"""What the rules find in the file that a run starts with, and in the files that take part in it.

A file that others import says little by itself: whether a process group is there when its functions
run, and which ranks call them, stands where they are called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ddpify.lint.certainty import confidence_of
from ddpify.lint.diagnostics import Confidence, Diagnostic, by_place
from ddpify.lint.registry import Finding, Rule, findings, load, load_all
from ddpify.lint.scripts.conversion_steps import Step
from ddpify.lint.scripts.one_process import concerns_no_rank
from ddpify.lint.scripts.positions import Positions
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.script_kinds import SINGLE
from ddpify.lint.scripts.shadowed import usable
from ddpify.lint.unfinished import Unfinished
from ddpify.understanding.libraries.frameworks import frameworks_of
from ddpify.understanding.project import ModuleFile

# Groups of rules whose findings are about what a rank does.
OF_RANKS = frozenset("data device wrapping synchronisation checkpoint rng performance".split())
# What goes wrong in a file by what its callers do.
_BY_CALLERS = frozenset(
    "rank-local-control-flow unreduced-metric write-on-all-ranks collective-under-rank-condition"
    " rank-zero-forward missing-set-epoch len-dataset-as-local-denominator rank-conditional-update"
    " forward-bypass rank-local-learning-rate stale-unwrapped-reference"
    # What goes wrong where values from other files meet: models, wrappers, batches, ranks, seeds.
    " input-not-moved loss-tensor-not-on-device hard-coded-device global-rank-as-device"
    " load-without-map-location collective-on-wrong-tensor collective-result-misused"
    " clip-before-unscale-or-in-no-sync double-averaging reduced-loss-backward"
    " gather-without-gradient exception-swallowed-around-step read-after-rank0-write"
    " schedule-length-from-unsharded-loader requires-grad-changed-after-wrap"
    " module-mutated-after-wrap moved-or-cast-after-wrap parameters-outside-ddp"
    " rank-dependent-state-after-wrap rewrapped-per-step attribute-on-wrapped"
    " forwards-then-separate-backwards autograd-grad-on-parameters wrapped-state-dict-saved"
    " whole-module-pickled makedirs-race logger-on-all-ranks same-seed-everywhere"
    " sampler-seed-per-rank sampler-rank-not-global sampler-with-shuffle"
    " missing-distributed-sampler unused-parameters partially-moved-model"
    " per-rank-run-directory"
    # What each rank does alike or apart in a helper of the script that makes the group.
    " iterable-dataset-not-sharded manual-batches-same-on-all-ranks per-rank-dataset-split"
    " rank-dependent-dataset custom-sampler-lost-or-unsharded eval-sampler-pads"
    " train-sampler-shuffle-changed uneven-steps-per-rank download-on-all-ranks"
    " endless-iterator-without-epochs cuda-before-set-device bad-device-ids data-parallel"
    " batchnorm-not-synced syncbn-misplaced buffer-updated-in-forward random-plain-attribute"
    " reentrant-checkpoint ddp-argument-error init-sync-disabled sum-or-token-normalised-loss"
    " batch-coupled-loss mean-of-means no-sync-misuse"
    " process-group-not-ready local-rank-guarded-write rank-seed-before-shared-randomness".split()
)
Found = tuple[Diagnostic, ...]


def findings_of(
    script: Script, rules: Iterable[Rule], path: str, unfinished: Unfinished
) -> list[Diagnostic]:
    """What rules find in the file that a script is read for; of each subject the surest.

    Rules that cannot end their work are noted in ``unfinished``; the others go on. What only a
    strict reading finds, or rests on too little, is possible: it is left out unless the script is
    read strictly.
    """
    chosen, found = list(rules), dict[tuple[object, ...], Diagnostic]()
    for one in _found(script.read_with(strict=False), chosen, path, unfinished):
        if script.strict or one.confidence > Confidence.POSSIBLE:
            known = found.setdefault(one.subject, one)
            found[one.subject] = max(known, one, key=lambda x: x.confidence)
    for one in _found(script, chosen, path, unfinished) if script.strict else ():
        found.setdefault(one.subject, replace(one, confidence=Confidence.POSSIBLE))
    return list(found.values())


def _found(
    script: Script, rules: Iterable[Rule], path: str, unfinished: Unfinished
) -> Iterator[Diagnostic]:
    for rule in rules:
        with unfinished.work(f"{rule.code} {rule.name}"):
            for finding in findings(rule, script):
                if rule.group in OF_RANKS and concerns_no_rank(script.control, finding.node):
                    continue
                yield _diagnostic(rule, script, path, finding)


def in_other_files(
    script: Script, codes: set[str], found: Iterable[Diagnostic], unfinished: Unfinished
) -> tuple[tuple[str, ...], Found, Found]:
    """The files that take part in what a script starts, what is found in it, and in them.

    What is ``found`` in the script itself, to be fixed there, is told there alone, and as surely
    as where it happens.
    """
    inner = [file for file in script.project.files if file.editable and file is not script.module]
    find = _needed if script.kind == SINGLE else _wrong
    said = [*find(script, inner, codes, unfinished)]
    fixable = {(one.code, place) for one in found if one.fix is not None for place in one.about}
    more = {(one.path, *one.subject): one for one in said if (one.code, _place(one)) not in fixable}
    return (
        tuple(str(file.path.resolve()) for file in inner),
        tuple(_as_sure(one, said) for one in found),
        tuple(sorted(more.values(), key=by_place)),
    )


def _place(one: Diagnostic) -> tuple[str, int]:
    return one.path, one.span.line


def _as_sure(one: Diagnostic, said: Iterable[Diagnostic]) -> Diagnostic:
    """A finding as sure as the same is in the files that it is about."""
    same = (x.confidence for x in said if x.code == one.code and _place(x) in one.about)
    return replace(one, confidence=max([one.confidence, *same]))


def _needed(
    script: Script, inner: list[ModuleFile], codes: set[str], unfinished: Unfinished
) -> Iterator[Diagnostic]:
    """What a training of one process needs in its files."""
    places = {file: Positions(file) for file in inner}
    steps: tuple[Step, ...] = ()
    with unfinished.work("conversion"):
        steps = script.steps
    for step in steps:
        if step.refused or step.site.module not in places or step.code not in codes:
            continue
        rule, path = load(step.code), str(step.site.module.path.resolve())
        span = places[step.site.module].span(step.site.node)
        yield Diagnostic(path, span, rule.code, rule.name, step.text, rule.severity, single=True)


def _wrong(
    script: Script, inner: list[ModuleFile], codes: set[str], unfinished: Unfinished
) -> Iterator[Diagnostic]:
    """What ranks do wrong in the files of a run of several processes.

    Without fixes: once one of them is made, the places of the others are not known anew.
    """
    rules = [rule for rule in load_all(codes) if rule.name in _BY_CALLERS]
    for file in inner:
        covered = {group for one in frameworks_of(file.source.text) for group in one.covers}
        path = str(file.path.resolve())
        chosen = [rule for rule in rules if rule.group not in covered]
        read = script.read_for(file)
        for one in findings_of(read, chosen, path, unfinished):
            yield one.without_fix()
        script.take_over(read)


def _diagnostic(rule: Rule, script: Script, path: str, finding: Finding) -> Diagnostic:
    return Diagnostic(
        path,
        script.positions.span(finding.node),
        rule.code,
        rule.name,
        finding.message,
        rule.severity,
        confidence_of(script, rule, finding),
        single=script.kind == SINGLE and rule.group in OF_RANKS,
        fix=usable(script, finding.fix),
        about=tuple((str(one.module.path.resolve()), one.line) for one in finding.about),
    )
