"""Convert public scripts of three kinds, verify them, and print each verdict.

    python -m benchmarks.verify_public FOLDER [NAME ...]

FOLDER holds a clone of each repository, as OWNER+NAME. The rule by which the scripts were chosen,
and what was found, stand in benchmarks/public/VERIFY.md. Their data are drawn. Needed besides
torch: torchvision and tensorboard.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.check_public import lay_out
from benchmarks.public_scripts import Public
from benchmarks.verified_scripts import SCRIPTS
from ddpify.convert import convert_file
from ddpify.errors import DdpifyError
from ddpify.verify import Verdict, verify, warm_worker
from ddpify.verify.launch.launcher import Worker

TIMEOUT = 900.0


def main(folder: Path, names: list[str]) -> None:
    """Print a line for each script, and the number of each verdict."""
    totals: Counter[str] = Counter()
    with warm_worker("import torch, torchvision") as worker:
        for kind, public in SCRIPTS:
            if names and public.name not in names:
                continue
            start = time.monotonic()
            try:
                word, said = _tried(public, folder, worker)
            except DdpifyError as error:
                word, said = "refused", str(error).splitlines()[0]
            totals[word] += 1
            took = time.monotonic() - start
            print(f"{kind} | {public.name} | {word} | {took:.0f} s | {said}", flush=True)
    print(", ".join(f"{count} {word}" for word, count in totals.items()))


def _tried(public: Public, folder: Path, worker: Worker) -> tuple[str, str]:
    with tempfile.TemporaryDirectory() as place:
        lay_out(public, folder / public.repository.replace("/", "+"), Path(place) / "copy")
        original = Path(place) / "copy" / public.folder / public.script
        converted = original.with_name(original.stem + "_ddp.py")
        converted.write_bytes(convert_file(original).data)
        verdict = verify(original, converted, steps=public.steps or None, worker=worker,
                         script_args=public.args, timeout=TIMEOUT, stall=60.0)  # fmt: skip
    return verdict.kind.value, _said(verdict)


def _said(verdict: Verdict) -> str:
    """The first difference of each sort, or the failure."""
    failures = [verdict.failure, *(one.failure for one in verdict.comparisons)]
    last = [failure.strip().splitlines()[-1] for failure in failures if failure]
    found = []
    for comparison in verdict.comparisons:
        found += [*comparison.acceptable[:1], *comparison.leading[:1]]
    causes = [f"{one.text} ({one.cause.text if one.cause else 'no cause'})" for one in found]
    return "; ".join([f"{verdict.steps} steps", *causes, *last])


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:])
