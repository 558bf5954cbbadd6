"""Plant bugs in right torchrun scripts, and print what check and lint say about each.

    python -m benchmarks.check_bugs [FOLDER]

FOLDER holds a checkout of pytorch/examples, whose tutorial scripts are then tried besides the
converted fixtures. The bugs are rules on the text; one that finds no place in a script is left out
and counted. A bug is found if check has any finding, and right if a finding has the expected rule
at the expected line.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ddpify.checking import Report, check
from ddpify.convert import convert_file
from ddpify.verify import warm_worker
from ddpify.verify.launch.launcher import Worker

FIXTURES = Path(__file__).parent.parent / "fixtures"
CONVERTED = ("trainer_class", "batchnorm_cnn", "early_stopping", "gradient_accumulation",
             "two_loaders", "sum_loss", "hardcoded_cuda", "weighted_sampler", "functions",
             "global_script")  # fmt: skip
TUTORIAL = "distributed/ddp-tutorial-series"
PUBLIC = {"multigpu_torchrun.py": ["3", "1"], "multinode.py": ["3", "1"], "multigpu.py": ["3", "1"]}


@dataclass(frozen=True)
class Bug:
    """One rule.

    Attributes:
        name: A few words.
        pattern: What is replaced, the first time it is found.
        text: What takes its place.
        codes: The rules that are right.
        line: Part of the line that is right, after planting; empty for any.
    """

    name: str
    pattern: str
    text: str
    codes: tuple[str, ...]
    line: str


STEP = r"(?m)^( *)((?:\w+\.)*\w+)\.step\(\)$"
RANK = "__import__('torch').distributed.get_rank()"
STEPPED = rf"\1\2.step()\n\1if {RANK} == 1:\n\1    "
BUGS = (
    Bug("loader not divided", r"dd\.shard\((DataLoader\((?:[^()]|\([^()]*\))*\))[^()]*\)", r"\1",
        ("DDP101", "DDP105"), "DataLoader("),
    Bug("model not wrapped", r"dd\.wrap\(((?:[^()]|\([^()]*\))*)\)", r"\1", ("DDP303", "DDP322"),
        ".step()"),
    Bug("reduction left out", r"dd\.(?:mean|sum)\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)", r"\1",
        ("DDP405", "DDP406", "DDP402"), ""),
    Bug("checkpoint written by all", r"dd\.save\(", "__import__('torch').save(", ("DDP501",),
        ".save("),
    Bug("step on rank 0 alone", STEP, rf"\1if {RANK} == 0:\n\1    \2.step()", ("DDP407",),
        ".step()"),
    Bug("barrier on one rank", STEP, STEPPED + "__import__('torch').distributed.barrier()",
        ("DDP401",), "barrier()"),
    Bug("parameter changed on one rank", STEP,
        STEPPED + r"\2.param_groups[0]['params'][0].data.mul_(1.5)", ("DDP407",), ".step()"),
    Bug("learning rate changed on one rank", STEP, STEPPED + r"\2.param_groups[0]['lr'] = 1e-3",
        ("DDP406",), ".step()"),
    Bug("no set_epoch", r"(?m)^( *).*\.set_epoch\(.*\)$", r"\1pass", ("DDP102",), "DataLoader("),
    Bug("sampler left out", r"sampler=DistributedSampler\(dataset\)", "sampler=None", ("DDP101",),
        "DataLoader("),
    Bug("wrapper left out", r"DDP\((.*?), device_ids=.*?\)", r"\1", ("DDP303", "DDP322"),
        ".step()"),
    Bug("forward past the wrapper", r"self\.model\(source\)", "self.model.module(source)",
        ("DDP303",), ".step()"),
    Bug("snapshot written by all", r"if self\.\w+ == 0 and ", "if ", ("DDP501",), "torch.save("),
    Bug("local number printed", r"(?m)^( *)(self\.optimizer)\.step\(\)$",
        rf"\1\2.step()\n\1if {RANK} == 0:\n\1    print(loss.item())", ("DDP405",), "print(loss"),
)  # fmt: skip


def main(folder: Path | None) -> None:
    """Print a line for each bug, and the totals."""
    totals: Counter[str] = Counter()
    with warm_worker() as worker, tempfile.TemporaryDirectory() as place:
        for name in CONVERTED:
            home = Path(place) / name
            shutil.copytree(FIXTURES / name, home)
            script = home / "train_ddp.py"
            script.write_bytes(convert_file(home / "train.py").data)
            _try(script, [], worker, totals)
        for name, args in PUBLIC.items() if folder else ():
            home = Path(place) / name
            shutil.copytree(folder / TUTORIAL, home)  # type: ignore[operator]
            _try(home / name, args, worker, totals)
    print(", ".join(f"{count} {what}" for what, count in totals.items()))


def _try(script: Path, args: list[str], worker: Worker, totals: Counter[str]) -> None:
    source = script.read_text()
    right = check(script, steps=8, script_args=args, timeout=60, worker=worker)
    totals["scripts"] += 1
    alarms = {(one.code, one.line) for one in right.findings}
    print(f"{script.parent.name}: {right.failure or sorted(alarms) or 'no finding'}", flush=True)
    for bug in BUGS:
        planted, count = re.subn(bug.pattern, bug.text, source, count=1)
        if not count or planted == source:
            totals["not applicable"] += 1
            continue
        script.write_text(planted)
        report = check(script, steps=24, script_args=args, timeout=60, worker=worker)
        found, exact = judged(bug, report, planted.splitlines())
        linted = bool(_lint(script) & set(bug.codes))
        totals.update(planted=1, found=found, right=exact, lint=linted)
        word = "right" if exact else "found" if found else "MISSED"
        said = ", ".join(f"{one.code}:{one.line}" for one in report.findings)
        failure = (report.failure or "").strip().splitlines()[-1:]
        print(f"  {word:6} lint {'yes' if linted else 'no ':3} {bug.name}: {said} {failure}",
              flush=True)  # fmt: skip
    script.write_text(source)


def judged(bug: Bug, report: Report, lines: list[str]) -> tuple[bool, bool]:
    """Whether anything is found, and whether the rule and the line are right."""
    exact = any(
        one.code in bug.codes and (not bug.line or (one.line and bug.line in lines[one.line - 1]))
        for one in report.findings
    )
    return bool(report.findings), exact


def _lint(script: Path) -> set[str]:
    command = [sys.executable, "-m", "ddpify", "lint", "--output-format", "json", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return set(re.findall(r"DDP[F\d]\d\d", json.dumps(done.stdout)))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None)
