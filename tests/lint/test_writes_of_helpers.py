"""What all ranks write in a helper of another file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.lint.config import Settings
from ddpify.lint.engine import lint
from ddpify.lint.files.document import Document
from tests.lint.setups import SETUPS

HELPERS = """
import json
import os
import torch.distributed as dist

def dump(file, options):
    with open(file, "w") as out:
        json.dump(options, out)

def dump_once(file, options):
    if dist.get_rank() == 0:
        dump(file, options)

def dump_if(file, options, main):
    if main:
        dump(file, options)

class Log:
    def __init__(self, folder, enabled=True):
        self.folder, self.enabled = folder, enabled

    def write(self, options):
        if self.enabled:
            dump(os.path.join(self.folder, "options.json"), options)
"""
TRAINING = """
{}
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
"""
PITFALLS = {
    "a function": 'dump("options.json", {})',
    "an option": 'dump(args.folder + "/options.json", vars(args))',
    "an object": 'Log("runs").write({})',
    "an object of an option": "Log(args.folder).write({})",
    "always": 'dump_if("options.json", {}, True)',
}
INNOCENT = {
    "rank 0 alone": 'if rank == 0:\n    dump("options.json", {})',
    "a helper for rank 0": 'dump_once("options.json", {})',
    "told whose": 'dump_if("options.json", {}, rank == 0)',
    "an object for rank 0": 'Log("runs", enabled=rank == 0).write({})',
    "one on rank 0 alone": (
        'log = Log("runs") if rank == 0 else None\nif log is not None:\n    log.write({})'
    ),
    "a file of each": 'dump(f"options{rank}.json", {})',
    "a folder of each": 'Log(f"runs/{rank}").write({})',
    "nowhere": "dump(os.devnull, {})",
}


def _codes(folder: Path, act: str) -> set[str]:
    (folder / "helpers.py").write_text(HELPERS)
    head = "import argparse\nfrom helpers import Log, dump, dump_if, dump_once\n"
    options = 'parser = argparse.ArgumentParser()\nparser.add_argument("--folder")\n'
    start = f"{head}{options}args = parser.parse_args()\n"
    path = folder / "train.py"
    path.write_text(start + SETUPS["distributed"] + TRAINING.format(act))
    result = lint(Document(str(path), path.read_bytes()), Settings(root=folder))
    assert result.failure is None, result.failure
    return {one.code for one in result.found}


@pytest.mark.parametrize("act", PITFALLS.values(), ids=PITFALLS)
def test_a_file_that_all_ranks_write_in_a_helper_is_found(act: str, tmp_path: Path) -> None:
    assert "DDP501" in _codes(tmp_path, act)


@pytest.mark.parametrize("act", INNOCENT.values(), ids=INNOCENT)
def test_a_helper_that_one_rank_writes_in_is_left(act: str, tmp_path: Path) -> None:
    assert "DDP501" not in _codes(tmp_path, act)
