"""Four ways to train one script on several processes: lines changed, and what verify says.

    python -m benchmarks.ways [--nproc 2]

The original of ``scripts`` is converted, and stands beside DistributedDataParallel written by hand,
and ports to Accelerate and to Lightning Fabric as their documentation has them, where these are
installed. Changed are the lines that ``diff`` takes away and adds. The time of a step is measured
by ``benchmarks.throughput``.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent / "scripts"
ORIGINAL = SCRIPTS / "original.py"
PORTS = {
    "by hand": ("handwritten_ddp.py", "torch"),
    "Accelerate": ("accelerate_port.py", "accelerate"),
    "Fabric": ("fabric_port.py", "lightning_fabric"),
}
COMPARED = ("samples in each batch", "parameters after each step", "printed lines")
STEPS = ("--steps", "12", "--batch-size", "32")


def main() -> None:
    """Print a row for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nproc", default="2")
    ranks = parser.parse_args().nproc
    print("|".join(["", "", "lines changed", *COMPARED, "verdict", ""]))
    with tempfile.TemporaryDirectory() as folder:
        for name, script in _ways(Path(folder)):
            print("|".join(["", name, _changed(script), *_compared(script, ranks), ""]), flush=True)


def _ways(folder: Path) -> Iterator[tuple[str, Path]]:
    from ddpify.convert import convert_file

    converted = folder / "converted.py"
    converted.write_bytes(convert_file(ORIGINAL).data)
    yield "ddpify convert", converted
    for name, (file, module) in PORTS.items():
        if importlib.util.find_spec(module):
            yield name, SCRIPTS / file


def _changed(script: Path) -> str:
    before, after = (path.read_text().splitlines()[1:] for path in (ORIGINAL, script))
    lines = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
    counts = [sum(line.startswith(sign) for line in lines) for sign in "-+"]
    return f"-{counts[0]} +{counts[1]}"


def _compared(script: Path, ranks: str) -> list[str]:
    """What verify's table says of each thing, and its verdict."""
    command = [sys.executable, "-m", "ddpify", "verify", str(ORIGINAL), str(script)]
    done = subprocess.run(
        [*command, "--nproc", ranks, "--", *STEPS], capture_output=True, text=True, check=False
    )
    found = [re.search(rf"^  {name} +(\w[\w -]*?)(?:  |$)", done.stdout, re.M) for name in COMPARED]
    verdict = re.search(r"^verdict: (.+?)(?: \(|$)", done.stdout, re.M)
    return [one[1] if one else "?" for one in (*found, verdict)]


if __name__ == "__main__":
    main()
