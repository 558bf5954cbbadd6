"""Tries scripts: converts each, and runs the original and the conversion."""

from __future__ import annotations

import shutil
import tempfile
import traceback
from pathlib import Path

from benchmarks.soundness.judging import Outcome, Run, Verdict, judged, last_line, original_fails
from benchmarks.soundness.processes import Group
from ddpify.convert import convert_file
from ddpify.errors import DdpifyError

SIZES = (2, 3)
MEMORY = Path("/dev/shm")


class Trial:
    """Standing groups of ranks, in which scripts are tried one after the other."""

    def __init__(self, seconds: float = 10.0, *, once: bool = False) -> None:
        """seconds: until a script hangs. once: do not try again in new processes what is wrong."""
        parent = MEMORY if MEMORY.is_dir() else None
        self._folder = Path(tempfile.mkdtemp(prefix="soundness-", dir=parent))
        self._alone = Group(None, seconds)
        self._groups = [Group(size, seconds) for size in SIZES]
        self._once = once

    def close(self) -> None:
        """End all processes, and remove all files."""
        for group in (self._alone, *self._groups):
            group.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def verdict(self, text: str) -> Verdict:
        """What becomes of a script."""
        original = self.original(text)
        reason = original_fails(original)
        if reason:
            return Verdict(Outcome.INVALID, reason)
        converted = self.converted(text)
        return converted if isinstance(converted, Verdict) else self.compared(original, converted)

    def original(self, text: str) -> Run:
        """Run a script as one process."""
        return self._run([self._alone], text)[0]

    def compared(self, original: Run, text: str) -> Verdict:
        """Run a conversion's text in ranks, and compare it with the original."""
        used = not self._once and any(group.runs for group in self._groups)
        verdict = self._worst(original, text)
        if verdict.outcome in (Outcome.DIFFERENT, Outcome.CRASH) and used:
            # Only a group that has run nothing else shows that the script itself is to blame.
            for group in self._groups:
                group.end()
            verdict = self._worst(original, text)
        return verdict

    def converted(self, text: str) -> str | Verdict:
        """The conversion's text, or why there is none."""
        path = self._folder / "script.py"
        path.write_text(text)
        try:
            return convert_file(path).data.decode()
        except DdpifyError as refusal:
            return Verdict(Outcome.REFUSED, refusal.message)
        except Exception:
            return Verdict(Outcome.BROKEN, last_line(traceback.format_exc()))

    def _worst(self, original: Run, text: str) -> Verdict:
        verdicts = [judged(original, run) for run in self._run(self._groups, text)]
        order = [Outcome.DIFFERENT, Outcome.CRASH, Outcome.UNDIVIDED, Outcome.SAME]
        return min(verdicts, key=lambda verdict: order.index(verdict.outcome))

    def _run(self, groups: list[Group], text: str) -> list[Run]:
        """Run a script in several groups at the same time, each in a folder of its own."""
        folders = [Path(tempfile.mkdtemp(dir=self._folder)).resolve() for _ in groups]
        for group, folder in zip(groups, folders, strict=True):
            group.start(text, str(folder))
        runs = []
        for group, folder in zip(groups, folders, strict=True):
            records = group.finish()
            paths = sorted(path for path in folder.rglob("*") if path.is_file())
            files = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
            runs.append(Run(records, files))
            shutil.rmtree(folder, ignore_errors=True)
        return runs
