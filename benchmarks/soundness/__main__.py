"""Generate training scripts, convert them, and compare what they do at 1, 2 and 3 ranks.

    python -m benchmarks.soundness --scripts 1000 [--seed 0] [--kind loop,forward] [--jobs 2]
        [--json FILE] [--examples 40] [--once] [--show NUMBER]

Each script is about one operator or idiom. The original runs as one process, the conversion as 2
and as 3 ranks, in float64, in standing groups of processes. --examples prints the most frequent
forms that are silently different, that crash and that are refused. --once believes that a
script goes wrong without trying it again in new processes: faster where many do. --show prints one
script and its conversion instead. The exit status is 1 where a script is silently different.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

from benchmarks.soundness.generator import scripts
from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.kinds import KINDS
from benchmarks.soundness.lanes import tried
from benchmarks.soundness.report import by_dimension, examples, shares, table, write_json
from ddpify.convert import convert_file
from ddpify.errors import DdpifyError


def main() -> int:
    """Try the scripts, and print what became of them."""
    options = parsed()
    kinds = [kind for kind in options.kind.split(",") if kind]
    if options.show is not None:
        show(options.seed, kinds, options.show)
        return 0
    start, results = time.monotonic(), []
    for result in tried(options.scripts, options.seed, kinds, options.jobs, once=options.once):
        results.append(result)
        if len(results) % 200 == 0:
            print(f"{len(results)} scripts, {time.monotonic() - start:.0f} s", file=sys.stderr)
    seconds = time.monotonic() - start
    print(f"seed {options.seed}: {len(results)} scripts, {len(results) / seconds:.1f} a second")
    print(table(results))
    print(by_dimension(results))
    parts = shares(results)
    print(", ".join(f"{part:.2%} {outcome.value}" for outcome, part in parts.items()))
    if options.json:
        write_json(results, Path(options.json))
    if options.examples:
        for outcome in (Outcome.DIFFERENT, Outcome.CRASH, Outcome.BROKEN, Outcome.REFUSED):
            print(f"\n##### {outcome.value}\n")
            print(examples(results, outcome, options.examples))
    return int(parts[Outcome.DIFFERENT] > 0)


def parsed() -> argparse.Namespace:
    """The command line's options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soundness")
    parser.add_argument("--scripts", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", default="", help=f"some of {','.join(KINDS)}")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", help="file for all results")
    parser.add_argument("--examples", type=int, default=0)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--show", type=int, help="number of the one script to print")
    return parser.parse_args()


def show(seed: int, kinds: list[str], number: int) -> None:
    """Print a script and its conversion."""
    script = next(islice(scripts(seed, kinds, first=number), 1))
    print(script.text)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "script.py")
        path.write_text(script.text)
        try:
            conversion = convert_file(path)
            print(conversion.diff("converted.py"), *(n.text for n in conversion.notes), sep="\n")
        except DdpifyError as refusal:
            print(f"refused: {refusal}")


if __name__ == "__main__":
    sys.exit(main())
