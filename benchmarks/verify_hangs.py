"""How long verify takes to name a hang.

    python -m benchmarks.verify_hangs

Each hang is planted behind the first optimizer step of a converted fixture, with and without
``--resume``, whose helper holds threads of its own. Printed: the seconds from the start of the
run's ranks to its end, those of the same run without the hang, and what verify says. The
difference is what naming it takes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ddpify.verify import verify, warm_worker
from ddpify.verify.launch.launcher import Worker

FIXTURE = Path(__file__).resolve().parent.parent / "fixtures" / "batchnorm_cnn"
STEP = "            optimizer.step()\n"
RANK = "            if torch.distributed.get_rank() == {rank}:\n                {act}\n"
HANGS = {
    "a barrier on rank 0": (0, "torch.distributed.barrier()"),
    "rank 1 leaves the loop": (1, "break"),
    "a mean on rank 1": (1, "dd.mean(loss.detach() * 2)"),
    "the wrapped model on rank 0": (0, "convnet(imgs)"),
}
LIMIT = 30.0


def main() -> None:
    """Print a line for each hang."""
    named = tried = 0
    with warm_worker() as worker:
        for options in ((), ("--resume",)):
            healthy = _verify(worker, options, "")[0]
            for name, (rank, act) in HANGS.items():
                planted = RANK.format(rank=rank, act=act)
                seconds, said = _verify(worker, options, planted)
                tried += 1
                named += said != "equivalent" and seconds - healthy <= LIMIT
                print(f"{' '.join(options) or 'plain'}, {name}: {seconds:.0f} s, without it "
                      f"{healthy:.0f} s; {said}", flush=True)  # fmt: skip
    print(f"{named} of {tried} named within {LIMIT:.0f} s")


def _verify(worker: Worker, options: tuple[str, ...], planted: str) -> tuple[float, str]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "project"
        shutil.copytree(FIXTURE, folder)
        script, converted = folder / "train.py", folder / "train_ddp.py"
        command = [sys.executable, "-m", "ddpify", "convert", str(script), "-o", str(converted)]
        subprocess.run([*command, "-q", *options], check=True)
        text = converted.read_text()
        assert text.count(STEP) == 1
        converted.write_text(text.replace(STEP, STEP + planted))
        times: list[float] = []

        def note(line: str) -> None:
            times.extend(map(float, _TOOK.findall(line)))

        verdict = verify(script, converted, nproc=(2,), worker=worker, echo=note)
        said = next((one.text for c in verdict.comparisons for one in c.differences), "equivalent")
        hung = re.search(r"no end after (\d+) s", said)
        return float(hung[1]) if hung else times[1], said  # the original runs first


_TOOK = re.compile(r"^  \w+ in ([\d.]+) s")

if __name__ == "__main__":
    main()
