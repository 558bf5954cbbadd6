"""One rank of ``torchrun ... -m ddpify check``: run the script as it is, and judge all ranks at the
end, when ranks wait for one another, or after some steps."""

from __future__ import annotations

import ast
import contextlib
import faulthandler
import os
import sys
import tempfile
import threading
import time
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ddpify.checking.api import judge
from ddpify.checking.exchange import Exchange
from ddpify.checking.findings import Report
from ddpify.checking.recording import Recording
from ddpify.verify.compare import records
from ddpify.verify.compare.assembling import put_together
from ddpify.verify.launch.copies import Copy
from ddpify.verify.launch.job import Job
from ddpify.verify.launch.launcher import Run
from ddpify.verify.runs import RECORDED_STEPS, Outcome

STALL = float(os.environ.get("DDPIFY_CHECK_STALL", "30"))
"""Seconds inside of one collective, without any event, that count as a hang."""
PATIENCE = 60.0
"""Seconds that rank 0 waits for the other ranks' records, and they for its word."""


def launched() -> bool:
    """Whether this process is a rank that torchrun started."""
    return "TORCHELASTIC_RUN_ID" in os.environ


class Watched:
    """This rank's recording in a job that somebody else launched.

    Args:
        script: The script.
        args: Its arguments.
        steps: Steps that are recorded; None for 200.
        stop: Whether the script ends after them.
        light: Record fingerprints and collectives alone.
        show: Takes the report, on rank 0.
    """

    def __init__(
        self,
        script: Path,
        args: tuple[str, ...],
        *,
        steps: int | None,
        stop: bool,
        light: bool,
        show: Callable[[Report], None],
    ) -> None:
        self.rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self._folder = Path(tempfile.mkdtemp(prefix="ddpify-check-"))
        here, place = Path.cwd(), script.resolve()
        root = here if here in place.parents else place.parent
        self.job = Job(
            script=str(place), shown_as=str(script), args=args, cwd=str(here), root=str(root),
            sandbox=str(root), protected=(), out=str(self._folder), world_size=size, gpus=True,
            checking=True, steps=steps or RECORDED_STEPS, stop=stop, timeout=float("inf"),
            stall=STALL,
        )  # fmt: skip
        self._light, self._show, self._start = light, show, time.monotonic()
        self._exchange = Exchange(self.rank, size, self._folder)
        self._judged = threading.Lock()
        self.report: Report | None = None

    def install(self) -> None:
        """Begin to record, and to watch for a hang."""
        from ddpify.verify.inside.recorder import Recorder
        from ddpify.verify.inside.world import World

        path = f"{self._folder}/rank{self.rank}.jsonl"
        self.recorder = Recorder(path, World(cuda=False, noise=0.0), self.job, None)
        if self._light:
            self.recorder.install_light(self._enough)
        else:
            self.recorder.install_real()
        threading.Thread(target=self._watch, daemon=True).start()

    def source(self) -> bytes | ast.Module:
        """The script, with its conversions of numbers followed where numbers are."""
        from ddpify.verify.inside.conversions import followed

        text = Path(self.job.script).read_bytes()
        return text if self._light else followed(text, self.job.script)

    def _enough(self) -> None:
        """The last step that is recorded has been made, and the script goes on."""
        if not self.job.stop:
            self.recorder.finish()
            self.conclude("done", 0)

    def conclude(self, ended: str, status: int) -> int:
        """Judge, or wait for rank 0 to; the exit code. Once only."""
        if not self._judged.acquire(blocking=False):
            return status
        self._exchange.send()
        if self.rank:
            told = self._exchange.told(PATIENCE) if ended != "done" or self.job.stop else None
            return status if told is None else told
        missing = self._exchange.collect(PATIENCE)
        self.report = self._judge(ended, status, missing)
        self._show(self.report)
        code = self.report.exit_code
        with contextlib.suppress(RuntimeError):
            self._exchange.tell(code)
        return code

    def _judge(self, ended: str, status: int, missing: list[int]) -> Report:
        job = self.job
        report = Report(job.shown_as, job.world_size)
        codes = {
            rank: status if rank == 0 else self._status(rank) for rank in range(job.world_size)
        }
        failed = next((rank for rank, code in codes.items() if code and ended != "hung"), None)
        run = Run(job, codes, "failed" if failed is not None else ended, failed,
                  time.monotonic() - self._start)  # fmt: skip
        paths = [self._folder / f"rank{rank}.jsonl" for rank in range(job.world_size)]
        put_together(paths)
        root = Path(job.root)
        totals = [records.totals(path) for path in paths]
        judge(report, Recording(Outcome(run, Copy(root, root, Path(job.cwd)), set(), totals)), root)
        for rank in missing:
            report.notes.append(f"rank {rank} left no record")
        report.seconds = run.seconds
        return report

    def _status(self, rank: int) -> int:
        path = self._folder / f"rank{rank}.err"
        return int(path.exists() and path.stat().st_size > 0)

    def failed(self) -> None:
        """Keep the traceback of the exception that is being handled."""
        (self._folder / f"rank{self.rank}.err").write_text(traceback.format_exc())

    def _watch(self) -> None:
        """End the job when every rank has waited in one collective for long: they do not match."""
        while not self._judged.locked():
            time.sleep(min(STALL / 4, 1.0))
            if self.recorder.waited() > STALL:
                with (self._folder / f"rank{self.rank}.stack").open("w") as stacks:
                    faulthandler.dump_traceback(stacks)
                code = self.conclude("hung", 0)
                sys.stdout.flush()
                os._exit(code or 1)


def run(
    script: Path,
    args: tuple[str, ...],
    *,
    steps: int | None,
    go_on: bool,
    light: bool,
    show: Callable[[Report], None],
) -> int:
    """Run the script as this rank; the exit code: rank 0's verdict on all ranks.

    Args:
        script: The script.
        args: Its arguments.
        steps: Steps that are recorded.
        go_on: Whether the script goes on after them.
        light: Record fingerprints and collectives alone.
        show: Takes the report, on rank 0.
    """
    stop = steps is not None and not go_on
    watched = Watched(script, args, steps=steps, stop=stop, light=light, show=show)
    watched.install()
    status = _execute(watched)
    sys.stdout.flush()
    return watched.conclude("done", status)


def _execute(watched: Watched) -> int:
    job = watched.job
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=job.script, __builtins__=__builtins__)
    sys.modules["__main__"] = main
    sys.argv = [job.shown_as, *job.args]
    sys.path.insert(0, str(Path(job.script).parent))
    status = 0
    try:
        exec(compile(watched.source(), job.script, "exec", dont_inherit=True), main.__dict__)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        status = 1
        watched.failed()
        traceback.print_exc()
    watched.recorder.finish()
    return status


def watch_first_steps(steps: int) -> None:
    """What ``DDPIFY_CHECK=20`` does in a converted script: fingerprints of the first steps.

    The script goes on; rank 0 prints the report to standard error.
    """
    from ddpify.checking.show import render

    script = Path(sys.argv[0])

    def show(report: Report) -> None:
        print(render(report), file=sys.stderr, flush=True)

    watched: Any = Watched(
        script, tuple(sys.argv[1:]), steps=steps, stop=False, light=True, show=show
    )
    watched.install()
