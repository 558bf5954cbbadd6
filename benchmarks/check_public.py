"""Plant bugs in public scripts at pinned commits, and print what check and lint say about each.

    python -m benchmarks.check_public FOLDER [--lint] [NAME ...]

FOLDER holds a clone of each repository, as OWNER+NAME; NAMEs choose some of the scripts, and
--lint asks lint alone. Needed
besides torch: torchvision, timm 0.9, yacs, hydra-core and tensorboard. Data are drawn: 36 small
images and random tokens. A bug is found if check has a finding that the right script has not, and
right if one of them has an expected rule at the expected line.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks import more_bugs, more_scripts, public_bugs, public_scripts
from benchmarks.public_bugs import Planted
from benchmarks.public_scripts import Public
from ddpify.checking import Finding, Report, check
from ddpify.verify import warm_worker
from ddpify.verify.launch.launcher import Worker

SCRIPTS = (*public_scripts.SCRIPTS, *more_scripts.SCRIPTS)
BUGS = public_bugs.BUGS | more_bugs.BUGS
TIMEOUT = 240
Key = tuple[str, str, str]


def main(folder: Path, names: list[str]) -> None:
    """Print a line for each bug, and the totals."""
    totals: Counter[str] = Counter()
    if "--lint" in names:
        chosen = [one for one in SCRIPTS if not names[1:] or one.name in names]
        for public in chosen:
            _try_lint(public, folder, totals)
        print(f"lint names the rule of {totals['lint']} of {totals['planted']}")
        return
    with warm_worker("import torch, torchvision, timm") as worker:
        for public in SCRIPTS:
            if not names or public.name in names:
                _try(public, folder, worker, totals)
    print(", ".join(f"{count} {what}" for what, count in totals.items()))


def _try(public: Public, folder: Path, worker: Worker, totals: Counter[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        home = Path(place) / "copy" / public.folder
        clone = folder / public.repository.replace("/", "+")
        lay_out(public, clone, Path(place) / "copy")
        right = _checked(public, home, worker)
        known = {_key(one) for one in right.findings}
        totals.update(scripts=1, alarms=len(known))
        said = right.failure or [f"{one.code}:{one.at}" for one in right.findings] or "no finding"
        print(f"{public.name} ({right.seconds:.0f} s): {said}", flush=True)
        linted = _lint(home)
        for bug in BUGS[public.name]:
            before = {name: (home / name).read_text() for name, *_ in bug.edits}
            if _plant(bug, home):
                _judge(bug, _checked(public, home, worker), known, home, totals,
                       bool((_lint(home) - linted).keys() & set(bug.codes)))  # fmt: skip
            else:
                totals["not planted"] += 1
                print(f"  NOT PLANTED {bug.name}", flush=True)
            for name, text in before.items():
                (home / name).write_text(text)


def _try_lint(public: Public, folder: Path, totals: Counter[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        home = Path(place) / "copy" / public.folder
        lay_out(public, folder / public.repository.replace("/", "+"), Path(place) / "copy")
        known = _lint(home)
        for bug in BUGS[public.name]:
            before = {name: (home / name).read_text() for name, *_ in bug.edits}
            _plant(bug, home)
            found = bool((_lint(home) - known).keys() & set(bug.codes))
            totals.update(planted=1, lint=found)
            print(f"  lint {'yes' if found else 'no '} {public.name}: {bug.name}", flush=True)
            for name, text in before.items():
                (home / name).write_text(text)


def lay_out(public: Public, clone: Path, place: Path) -> None:
    """Write the script's folder into ``place``, made to run on drawn data."""
    _export(clone, public.commit, public.folder, place)
    home = place / public.folder
    for name, text in public.stubs.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    for name, pattern, text in public.setup:
        for path in home.rglob("*.py") if name == "*" else [home / name]:
            source = path.read_text()
            path.write_text(re.sub(pattern, text, source))
    _make_data(home)
    if "make.py" in public.stubs:
        subprocess.run([sys.executable, "make.py"], cwd=home, check=True)


def _export(clone: Path, commit: str, folder: str, place: Path) -> None:
    """Write the files of ``folder`` at ``commit``; a snapshot may lack its largest files."""
    repository = clone if (clone / ".git").exists() else clone / "repo"
    git = ["git", "-C", str(repository)]
    listed = subprocess.run([*git, "ls-tree", "-r", "-z", commit, folder], capture_output=True,
                            text=True, check=True).stdout  # fmt: skip
    blobs = [entry.split("\t") for entry in listed.split("\0") if "blob" in entry]
    names = "".join(f"{head.split()[2]}\n" for head, _ in blobs).encode()
    data = io.BytesIO(subprocess.run([*git, "cat-file", "--batch"], input=names,
                                     capture_output=True, check=True).stdout)  # fmt: skip
    for _, path in blobs:
        kind = data.readline().split()
        if kind[-1] != b"missing":
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(data.read(int(kind[2])))
            data.readline()


def _make_data(home: Path) -> None:
    """Images of two classes, a text of tokens and its vocabulary."""
    import pickle

    import numpy
    from PIL import Image

    draw = numpy.random.default_rng(5)
    for part, count in (("train", 8), ("val", 4)):
        for label in "abc":
            place = home / "data" / part / label
            place.mkdir(parents=True)
            for at in range(count):
                pixels = draw.integers(0, 255, (40, 40, 3), dtype=numpy.uint8)
                Image.fromarray(pixels).save(place / f"{at}.png")
    tiny = home / "data" / "tiny"
    tiny.mkdir()
    for part in ("train", "val"):
        draw.integers(0, 20, 400, dtype=numpy.uint16).tofile(tiny / f"{part}.bin")
    (tiny / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": 20}))


def _checked(public: Public, home: Path, worker: Worker) -> Report:
    return check(home / public.script, steps=public.steps, script_args=public.args,
                 timeout=TIMEOUT, worker=worker)  # fmt: skip


def _plant(bug: Planted, home: Path) -> bool:
    for name, pattern, text in bug.edits:
        source = (home / name).read_text()
        planted = re.sub(pattern, text, source, count=1)
        if planted == source:
            return False
        (home / name).write_text(planted)
    return True


def _judge(
    bug: Planted, report: Report, known: set[Key], home: Path, totals: Counter[str], linted: bool
) -> None:
    new = [one for one in report.findings if _key(one) not in known]
    exact = any(one.code in bug.codes and bug.line in _text(one) for one in new)
    totals.update(planted=1, found=bool(new), right=exact, lint=linted)
    word = "right" if exact else "found" if new else "MISSED"
    said = ", ".join(f"{one.code}:{Path(one.path).name}:{one.line}" for one in new)
    failure = (report.failure or "").strip().splitlines()[-1:]
    lint = "yes" if linted else "no "
    print(f"  {word:6} lint {lint} {report.seconds:3.0f} s  {bug.name}: {said} {failure or ''}",
          flush=True)  # fmt: skip


def _key(one: Finding) -> Key:
    """A finding by its rule, its cause and the text of its line, which a plant may move."""
    return one.code, one.message.partition(":")[0], _text(one)


def _text(one: Finding) -> str:
    path = Path(one.path)
    if one.line is None or not path.is_file():
        return ""
    return path.read_text(errors="replace").splitlines()[one.line - 1].strip()


def _lint(home: Path) -> Counter[str]:
    """How often lint reports each rule."""
    command = [sys.executable, "-m", "ddpify", "lint", "--output-format", "json", str(home)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return Counter(re.findall(r'"code": "(DDP[F\d]\d\d)"', done.stdout))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:])
