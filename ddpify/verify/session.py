"""One verdict: which runs it needs, and what each of them is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from ddpify.verify.compare import causes, data, failures, outputs, prints, replaying, series, steps
from ddpify.verify.compare.records import Place
from ddpify.verify.compare.steps import StepFindings
from ddpify.verify.judge import arithmetic, conclusion, noise, output, ranks, runs
from ddpify.verify.judge import data as data_judge
from ddpify.verify.runs import Outcome, Runs
from ddpify.verify.verdict import Comparison, Difference, Kind, Verdict, What, worst

UNSORTED = (
    "{lines}: folders are listed in the order that the file system gives. It is the same for all "
    "processes of one machine; machines with disks of their own would train on other samples. "
    "sorted(...) makes it the same everywhere [DDP116]"
)


class Session:
    """The comparisons of one original with one converted script.

    Args:
        runs: Makes the runs.
        echo: Takes a line about progress.
        detail: Whether to keep what a report draws.
    """

    def __init__(self, runs: Runs, echo: Callable[[str], None], *, detail: bool) -> None:
        self.runs, self.echo, self.detail = runs, echo, detail
        self._equal: dict[tuple[Place, ...], Outcome] = {}

    def verdict(self, nproc: Sequence[int]) -> Verdict:
        """Run everything and judge it."""
        verdict = Verdict("", "")
        own = self.original
        verdict.faked = own.totals[0].faked
        verdict.notes = runs.remarks(own.totals[0])
        verdict.kind, verdict.failure = runs.original(own.run, own.paths[0])
        verdict.steps = own.totals[0].steps
        if verdict.kind is not Kind.EQUIVALENT:
            return verdict
        verdict.comparisons = [self._compare(count) for count in nproc]
        verdict.kind = worst([comparison.kind for comparison in verdict.comparisons])
        return verdict

    @cached_property
    def original(self) -> Outcome:
        """The original on one process, with CUDA redirected if it does not run without."""
        self.echo("running the original on 1 process")
        own = self.runs.original()
        source = self.runs.layout.root / self.runs.layout.script
        idle = own.ok and not own.totals[0].steps and "cuda" in source.read_text(errors="replace")
        if not own.run.job.gpus and (idle or failures.wants_cuda(own.run)):
            self.echo("running the original again, with CUDA redirected to the CPU")
            own = self.runs.original(cuda=True)
        return own

    def original_with_equal_rows(self, places: tuple[Place, ...]) -> Outcome:
        """The original with random tensors whose rows are all the same, at some places."""
        if places not in self._equal:
            self.echo("running the original again, with equal rows in random tensors")
            cuda = self.original.run.job.cuda
            self._equal[places] = self.runs.original(cuda=cuda, equal_at=places)
        return self._equal[places]

    def _compare(self, nproc: int) -> Comparison:
        own, other = self.original, self.runs.torchrun(nproc)
        places = noise.shared_out(own.totals[0], other.totals)
        if places:
            # The ranks draw for their own samples: their rows are not those of one process.
            own = self.original_with_equal_rows(places)
            other = self.runs.converted(nproc, cuda=other.run.job.cuda, equal_at=places)
        comparison = self._judge(nproc, own, other)
        lines = sorted({line for rank in other.totals for line in rank.listings})
        if comparison.kind in (Kind.EQUIVALENT, Kind.EXCEPT) or not lines:
            return comparison
        self.echo("again with folders listed in one order on all ranks")
        job = other.run.job
        calm = self.runs.converted(nproc, cuda=job.cuda, equal_at=job.equal_at, listings=False)
        again = self._judge(nproc, own, calm)
        if worst([again.kind, comparison.kind]) is again.kind:
            return comparison
        again.notes.append(UNSORTED.format(lines=", ".join(lines)))
        return again

    def _judge(self, nproc: int, own: Outcome, other: Outcome) -> Comparison:
        comparison = Comparison(nproc, Kind.EQUIVALENT, faked=other.totals[0].faked)
        if runs.converted(comparison, other.run, other.totals):
            _Comparing(self, comparison, own, other).run()
        return comparison


class _Comparing:
    """One comparison whose converted run ended well."""

    def __init__(
        self, session: Session, comparison: Comparison, own: Outcome, other: Outcome
    ) -> None:
        self.session, self.runs = session, session.runs
        self.own, self.other = own, other
        self.reference = own
        self.same = {"cuda": own.run.job.cuda, "equal_at": own.run.job.equal_at}
        self.comparison = comparison

    def run(self) -> None:
        comparison, totals = self.comparison, self.other.totals
        found = self._steps(self.own)
        self._judge_data(found)
        if comparison.same_data is False:
            found = self._replayed(found) or found
        if self._per_rank_statistics(found):
            found = self._with_ghosts(found)
        if comparison.unjudged:
            found = replace(found, differences=[])
        own = self.reference.totals[0]
        arithmetic.judge(comparison, found, own, totals)
        ranks.work(comparison, own, totals)
        ranks.collectives(comparison, totals)
        ranks.devices(comparison, totals)
        noise.judge(comparison, own, totals)
        self._judge_outputs(found)
        conclusion.conclude(comparison)
        if self.session.detail:
            reference = None if self.reference is self.own else self.reference.paths[0]
            comparison.series = series.read(self.own.paths[0], self.other.paths, reference)

    def _steps(self, reference: Outcome) -> StepFindings:
        """The steps of a reference against the ranks', with limits from noise if that matters."""
        found = steps.compare(reference.paths[0], self.other.paths)
        if arithmetic.may_be_rounding(found) and (noisy := self.runs.noisy(reference)).ok:
            found = steps.compare(reference.paths[0], self.other.paths, noisy.paths[0])
        return found

    def _judge_data(self, found: StepFindings) -> None:
        ids = data.compare(self.own.loaders[0], self.other.loaders)
        split = ranks.is_split(self.comparison.nproc, self.own.totals[0], self.other.totals)
        data_judge.judge(self.comparison, found, ids, split=split)

    def _write_replay(self) -> Path | None:
        path = self.runs.base / f"replay{self.comparison.nproc}.json"
        written = replaying.write(self.own.loaders[0], self.other.loaders, path)
        return path if written else None

    def _replayed(self, before: StepFindings) -> StepFindings | None:
        """The steps against the original on the converted run's batches; None without them.

        ``before``: the steps against the original on its own.
        """
        path = self._write_replay()
        if path is None:
            self.comparison.unjudged = (
                "the batches differ, and without a loader that names their samples the original "
                "cannot be run on them"
            )
            return None
        self.session.echo("running the original on the converted run's batches")
        again = self.runs.original(**self.same, replay=str(path))
        if not again.ok:
            self.comparison.unjudged = "the original does not run on the converted run's batches"
            return None
        found = self._steps(again)
        if found.rows is not None and (found.rows.missing or not found.rows.everywhere):
            self.comparison.unjudged = "the batches differ, and their replay does not meet them"
            data_judge.mistrust_indices(self.comparison, before.rows)
            return None
        self.reference, self.comparison.replayed = again, True
        return found

    def _per_rank_statistics(self, found: StepFindings) -> bool:
        """Whether statistics of each rank's own batch may be all that differs."""
        kinds = (What.LOSS, What.GRADIENT, What.BUFFER)
        first = found.differences[0] if found.differences else None
        return found.batch_norm and first is not None and first.what in kinds

    def _with_ghosts(self, found: StepFindings) -> StepFindings:
        """The steps against the original with statistics by rank, if that explains more."""
        path, nproc = self._write_replay(), self.comparison.nproc
        self.session.echo("running the original with BatchNorm statistics by rank")
        for strided in (False, True):
            ghost = self.runs.original(
                **self.same, replay=str(path or ""), ghost=nproc, strided=strided
            )
            closer = self._steps(ghost) if ghost.ok else found
            if not closer.differences or closer.compared > found.compared:
                cause = causes.BATCH_NORM
                if closer.differences:
                    cause = causes.SUSPECTED_BATCH_NORM
                first: Difference = found.differences[0]
                self.comparison.differences.append(replace(first, cause=cause))
                self.reference = ghost
                return closer
        return found

    def _judge_outputs(self, steps_: StepFindings) -> None:
        own, other = self.reference, self.other
        text = prints.compare(own.printed()[0], other.printed(), None)
        if text.wrong and (noisy := self.runs.noisy(own)).ok:
            again = noisy.printed()[0]
            text = prints.compare(own.printed()[0], other.printed(), again)
        output.printed(self.comparison, text, steps_.others_apart)
        sides = (
            (own.copy.cwd, own.files, own.totals[0]),
            (other.copy.cwd, other.files, other.totals),
        )
        correction = steps_.correction
        found = outputs.compare(*sides, correction, own.paths[0])
        if found and (noisy := self.runs.noisy(own)).ok:
            found = outputs.compare(
                *sides, correction, own.paths[0], (noisy.copy.cwd, noisy.files, noisy.totals[0])
            )
        output.files(self.comparison, len(own.files), found, steps_.settings)
