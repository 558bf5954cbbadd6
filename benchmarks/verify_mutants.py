"""Plant bugs into verify itself; its own tests must catch each.

    python -m benchmarks.verify_mutants [REGEX]

Each row of ``MUTANTS`` changes one place of ddpify/verify in a copy of this repository, and runs
some of tests/verify there: those that compare what the place is about. A mutant is caught if a
test fails. REGEX picks mutants by their names.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
COPIED = ("benchmarks", "codemods", "ddpify", "fixtures", "tests", "pyproject.toml")
SCRIPT = "test_planted.py"


@dataclass(frozen=True)
class Mutant:
    """One change of verify.

    Attributes:
        name: What is wrong then.
        file: The file, below ddpify/verify.
        old: Text that is there once.
        new: What takes its place.
        tests: What pytest is given, below tests/verify: a file, and what ``-k`` picks.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, str]


MUTANTS = [
    Mutant("a tolerance too wide for tensors", "compare/differences.py",
           '\nTOLERANCE = 1e-9\n"""', '\nTOLERANCE = 1e-1\n"""', (SCRIPT, "leave_one_another")),
    Mutant("ten times what noise does is a million times", "compare/floor.py",
           "ABOVE_FLOOR = 10.0", "ABOVE_FLOOR = 1e7", ("test_floor.py", "")),
    Mutant("the last rank is not read", "compare/floor.py",
           "enumerate(marks[1:], first_rank)", "enumerate(marks[1:2], first_rank)",
           (SCRIPT, "last_rank")),
    Mutant("gradients are not compared with the original's", "compare/steps.py",
           "evidence.gradients_off = beyond(grads, 0)",
           "evidence.gradients_off = []", (SCRIPT, "scaled_loss")),
    Mutant("buffers are not compared", "compare/steps.py",
           "        off = self.floor.beyond(What.BUFFER, number, buffers, 0)\n",
           "        off = []\n",
           ("test_hand_ports.py", "buffers")),
    Mutant("parameters between the steps are not compared", "compare/steps.py",
           "        if between := self._between(number, own, before, evidence):\n"
           "            return [between]\n",
           "        self._between(number, own, before, evidence)\n",
           (SCRIPT, "leave_one_another")),
    Mutant("only the first step is compared", "compare/steps.py",
           "            if found.differences:\n                break\n",
           "            if number > 1:\n                break\n",
           (SCRIPT, "one_rank_stops or rate")),
    Mutant("models outside of the optimizer are not compared", "compare/models.py",
           "            if size > limit:\n                return name, size\n",
           "            if size > 1e9:\n                return name, size\n",
           ("test_hand_ports.py", "average")),
    Mutant("dropout may be off", "compare/models.py",
           "if step.drops != own.drops", "if step.drops is None",
           ("test_hand_ports.py", "evaluation")),
    Mutant("learning rates may be any", "compare/differences.py",
           "RATE_TOLERANCE = 1e-9", "RATE_TOLERANCE = 1e9", (SCRIPT, "learning_rate")),
    Mutant("parameters are matched by their groups' order", "compare/records.py",
           "    return [at[name] for name in own.names]\n", "    return None\n",
           ("test_alignment.py", "")),
    Mutant("rows may be any", "compare/evidence.py",
           "ROW_TOLERANCE = 1e-9", "ROW_TOLERANCE = 1e3", ("test_batches.py", "")),
    Mutant("contents are not compared", "compare/data.py",
           "CONTENT = 1e-6", "CONTENT = 1e6", ("test_surroundings.py", "luck")),
    Mutant("another order is no difference", "compare/data.py",
           "        return same and (len(self.own) == len(self.batches) or not self.complete)\n",
           "        return True or same\n", (SCRIPT, "other_order")),
    Mutant("a smaller global batch is another order", "compare/data.py",
           "len(item.own) > 1 and found < size", "found < 0", ("test_data.py", "smaller")),
    Mutant("work counts as divided", "judge/ranks.py",
           "    return not own.work or nproc == 1 or most / own.work < (1 + 1 / nproc) / 2\n",
           "    return True or bool(most)\n", (SCRIPT, "no_split")),
    Mutant("other ranks' output is not read", "compare/prints.py",
           "    return [line for text in ranks[1:] for line in split_lines(text)]\n",
           "    return [line for text in ranks[:0] for line in split_lines(text)]\n",
           (SCRIPT, "prints_on_every_rank")),
    Mutant("printed numbers may be any", "compare/prints.py",
           "TOLERANCE = 1e-6", "TOLERANCE = 10.0", (SCRIPT, "printed_number")),
    Mutant("two ranks may write a file", "compare/outputs.py",
           "if len(writers) > 1:", "if len(writers) > 2:", ("test_saved.py", "")),
    Mutant("checkpoints may be any", "compare/outputs.py",
           "TOLERANCE = 1e-6", "TOLERANCE = 1e6", ("test_saved.py", "")),
    Mutant("a cause that may be allowed hides the others", "judge/conclusion.py",
           "if all(named) and", "if (any(named) or not named) and",
           ("test_hand_ports.py", "zero_grad")),
    Mutant("stalls are not seen", "launch/worker.py",
           "            if now > deadline or self._stalled(now):\n",
           "            if now > deadline:\n", (SCRIPT, "deadlock")),
    Mutant("noise that ranks repeat is chance", "judge/noise.py",
           "next(_repeated(own, ranks), None) or ", "", ("test_noise.py", "repeat")),
    Mutant("shared draws may be a rank's own", "judge/noise.py",
           " or next(_different(own, ranks), None)", "", ("test_noise.py", "samples_share")),
    Mutant("all draws have equal rows where one has", "inside/place.py",
           "at in self.equal_at if known else bool(self.equal_at)", "bool(self.equal_at)",
           ("test_noise.py", "first_rows")),
    Mutant("all ranks list folders in one order", "inside/surroundings.py",
           '    replace(os, "listdir", shuffled_names)\n', "", ("test_surroundings.py", "folder")),
]  # fmt: skip


def main(pattern: str = "") -> None:
    """Print a line for each mutant that ``pattern`` picks, and how many were caught."""
    chosen = [one for one in MUTANTS if re.search(pattern, one.name)]
    caught = 0
    for mutant in chosen:
        start = time.monotonic()
        failed = run(mutant)
        caught += failed
        took = time.monotonic() - start
        print(f"{'caught' if failed else 'MISSED'} {took:5.1f} s  {mutant.name}", flush=True)
    print(f"{caught} of {len(chosen)} caught")
    sys.exit(caught < len(chosen))


def run(mutant: Mutant) -> bool:
    """Whether a test fails in a copy with the mutant; RuntimeError where none is run."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "copy"
        copy.mkdir()
        for item in COPIED:
            source = ROOT / item
            (shutil.copytree if source.is_dir() else shutil.copy)(source, copy / item)
        plant(copy, mutant)
        file, names = mutant.tests
        paths = [f"tests/verify/{one}" for one in file.split(" or ")]
        options = ["-q", "-x", "-p", "no:cacheprovider", *(["-k", names] if names else [])]
        command = [sys.executable, "-m", "pytest", *options, *paths]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{mutant.name}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 1


def plant(root: Path, mutant: Mutant) -> None:
    """Change the copy; raises ValueError where the text is not there once."""
    path = root / "ddpify" / "verify" / mutant.file
    source = path.read_text()
    if source.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: {source.count(mutant.old)} places in {mutant.file}")
    path.write_text(source.replace(mutant.old, mutant.new))


if __name__ == "__main__":
    main(*sys.argv[1:])
