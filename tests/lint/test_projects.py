"""Pitfalls planted into projects that are right: in several files, and with ranks of nodes."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from ddpify.lint.checking import read_by_rules
from ddpify.lint.config import Settings
from ddpify.lint.diagnostics import Confidence
from ddpify.source import source_from_bytes

PROJECTS = Path(__file__).parent / "projects"
NODES = {"train.py": (PROJECTS / "nodes.py").read_text()}
FILES = {path.name: path.read_text() for path in sorted((PROJECTS / "files").glob("*.py"))}
ABOUT_RANKS = ("DDP1", "DDP2", "DDP3", "DDP4", "DDP5", "DDP6")


class Plant(NamedTuple):
    """A pitfall: what is replaced in a file, and the rules of which one names it."""

    name: str
    codes: str
    file: str
    old: str
    new: str


IN_NODES = [
    Plant("a meter beside one that is reduced", "DDP405", "train.py",
          "    mean.reduce()\n    if writer", "    if writer"),
    Plant("a plateau of a meter that is not reduced", "DDP406", "train.py",
          "    mean.reduce()\n    return", "    return"),
    Plant("a meter asked before it is reduced", "DDP402", "train.py",
          "        optimizer.zero_grad()\n",
          "        if mean.value > 9:\n            return\n        optimizer.zero_grad()\n"),
    Plant("a seed that replaces the rank's", "DDP601", "train.py",
          "    seed_all(args.seed + args.rank)\n",
          "    seed_all(args.seed + args.rank)\n    seed_all(args.seed)\n"),
    Plant("clipped by a helper before unscale_()", "DDP422", "train.py",
          "        scaler.unscale_(optimizer)\n", ""),
    Plant("a save by the number in the node", "DDP502", "train.py",
          "if args.rank == 0:\n", "if args.rank % gpus == 0:\n"),
    Plant("a sampler's rank in the node", "DDP104", "train.py", "rank=args.rank)\n    o",
          "rank=gpu)\n    o"),
    Plant("a sampler of rank 0", "DDP104", "train.py", "rank=args.rank)\n    o", "rank=0)\n    o"),
    Plant("a GPU of the rank of all nodes", "DDP203", "train.py", "device_ids=[gpu]",
          "device_ids=[args.rank]"),
    Plant("options without a sampler", "DDP101", "train.py", "sampler=sampler, **o",
          "shuffle=True, **o"),
    Plant("no current GPU", "DDP201", "train.py", "    torch.cuda.set_device(gpu)\n", ""),
    Plant("a step by the rank's own loss", "DDP402", "train.py", "        scaler.step(optimizer)\n",
          "        if loss < 5:\n            scaler.step(optimizer)\n"),
    Plant("a barrier where there is a writer", "DDP401", "train.py",
          "        writer.add_scalar", "        dist.barrier()\n        writer.add_scalar"),
]  # fmt: skip
IN_FILES = [
    Plant("meters that are not reduced", "DDP405", "loops.py",
          "    meters.synchronize()\n"
          "    return {name: one.mean for name, one in meters.kept.items()}"
          "\n\n\n@", "    return {name: one.mean for name, one in meters.kept.items()}\n\n\n@"),
    Plant("a way out by the rank's own loss", "DDP402", "loops.py", "        loss /= windows\n",
          "        loss /= windows\n        if value > 100:\n            break\n"),
    Plant("a forward that may fail", "DDP404", "loops.py",
          "        value = loss.item()\n",
          "        try:\n            loss = loss + model(x).mean()\n"
          "        except RuntimeError:\n            continue\n        value = loss.item()\n"),
    Plant("a mean where there is a writer", "DDP401", "loops.py", '("loss", mean, step)',
          '("loss", mean_of(loss), step)'),
    Plant("no epoch", "DDP102", "train.py", "            loader.sampler.set_epoch(epoch)\n",
          "            pass\n"),
    Plant("the wrapper's keys, by a helper", "DDP503", "train.py", "plain.state_dict()",
          "model.state_dict()"),
]  # fmt: skip


def found(folder: Path, files: dict[str, str]) -> set[str]:
    """The rules about ranks that find something likely in a project."""
    (folder / ".git").mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    path = folder / "train.py"
    settings = Settings(root=folder)
    read = read_by_rules(
        source_from_bytes(path.read_bytes(), str(path)), folder, settings, settings.codes
    )
    assert read.failure is None
    told = (*read.found, *read.elsewhere)
    return {x.code for x in told if x.confidence > Confidence.POSSIBLE} & {
        x.code for x in told if x.code.startswith(ABOUT_RANKS)
    }


@pytest.mark.parametrize("files", [NODES, FILES], ids=["nodes", "files"])
def test_right_projects_are_clean(files: dict[str, str], tmp_path: Path) -> None:
    assert not found(tmp_path, files)


@pytest.mark.parametrize(
    ("files", "plant"),
    [*((NODES, one) for one in IN_NODES), *((FILES, one) for one in IN_FILES)],
    ids=lambda one: one.name if isinstance(one, Plant) else "",
)
def test_a_plant_is_found(files: dict[str, str], plant: Plant, tmp_path: Path) -> None:
    assert files[plant.file].count(plant.old) == 1
    text = files[plant.file].replace(plant.old, plant.new)
    assert found(tmp_path, {**files, plant.file: text}) & {*plant.codes.split()}
