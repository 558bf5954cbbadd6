"""Whether a job that ``check`` watches gives the same results as without it, to the bit.

    python -m benchmarks.check_bits [--nproc N] [--light] [NAME ...]

The scripts of ``benchmarks/right`` (FSDP2, mixed precision with accumulation, torch.compile; each
with two workers a loader) and of ``tests/checking/scripts``, but for the one that spawns its
processes and needs GPUs. Each runs under torchrun, once alone and once in ``ddpify check``. After
every optimizer step each rank writes down a checksum of all parameters, of its random state and of
the optimizer's state. These, the script's own lines and the files that it writes must be equal.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDERS = (HERE / "right", HERE.parent / "tests" / "checking" / "scripts")
NEEDS_GPUS = ("spawned",)
WITNESS = """
import os as _os, zlib as _zlib, torch as _torch
from torch.optim.optimizer import register_optimizer_step_post_hook as _after
_torch.manual_seed(40 + int(_os.environ["RANK"]))
def _sum(tensor):
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return _zlib.crc32(local.detach().cpu().numpy().tobytes())
def _witness(optimizer, args, kwargs):
    params = [p for group in optimizer.param_groups for p in group["params"]]
    state = [value for one in optimizer.state.values() for value in one.values()]
    sums = [_sum(value) for value in (*params, *state) if isinstance(value, _torch.Tensor)]
    with open("steps-rank" + _os.environ["RANK"] + ".txt", "a") as out:
        out.write(f"{sums} {_sum(_torch.get_rng_state())}\\n")
_after(_witness)
"""
"""Put before each script."""


def main(nproc: int, names: list[str], *, light: bool) -> None:
    """Print a line for each script."""
    equal = tried = 0
    for folder in FOLDERS:
        for path in sorted(folder.glob("*.py")):
            if path.stem in NEEDS_GPUS or (names and path.stem not in names):
                continue
            same, steps, said = _compare(path, nproc, light=light)
            tried, equal = tried + 1, equal + same
            word = "the same" if same else "DIFFERENT"
            print(f"{path.stem}, {nproc} processes, {steps} steps: {word}; {said}", flush=True)
    print(f"{equal} of {tried} the same to the bit at {nproc} processes")


def _compare(path: Path, nproc: int, *, light: bool) -> tuple[bool, int, str]:
    watched = ["-m", "ddpify", "check", "train.py"] + ["--light", "--go-on"] * light
    plain, lines, _ = _run(path, ["train.py"], nproc)
    checked, more, said = _run(path, watched, nproc)
    rest = iter(more)
    same = plain == checked and all(line in rest for line in lines)
    return same, plain["steps-rank0.txt"].count(b"\n"), said


def _run(path: Path, command: list[str], nproc: int) -> tuple[dict[str, bytes], list[str], str]:
    """The files that a run leaves, the lines that it prints, and the last of them."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "train.py").write_text(WITNESS + path.read_text())
        start = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        done = subprocess.run(
            [*start, f"--nproc_per_node={nproc}", *command], cwd=folder, check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
            capture_output=True, text=True)  # fmt: skip
        found = {
            str(one.relative_to(folder)): one.read_bytes()
            for one in sorted(Path(folder).rglob("*"))
            if one.is_file() and one.name != "train.py" and "__pycache__" not in one.parts
        }
        lines = [line for line in done.stdout.splitlines() if line.strip()]
    if "steps-rank0.txt" not in found:
        raise SystemExit(f"{path.name} {command}: {done.stdout[-2000:]}{done.stderr[-3000:]}")
    return found, lines, lines[-1] if lines else ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--nproc", type=int, default=2)
    parser.add_argument("--light", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    main(options.nproc, options.names, light=options.light)
