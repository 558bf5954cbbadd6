"""Data sets that are told a rank, or could be: what they make of it decides whether they split."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.lint.config import Settings
from ddpify.lint.engine import lint
from ddpify.lint.files.document import Document
from tests.lint.setups import SETUPS

DATA = """
import os
import torch.distributed as dist
import yaml
from PIL import Image
from torch.utils.data import DataLoader, Dataset

SETTINGS = yaml.safe_load(open("settings.yaml"))

def load(folder, batch):
    files = sorted(os.listdir(folder))
    data = {made}
    return DataLoader(data, batch_size=batch, shuffle=True)

class Images(Dataset):
    def __init__(self, files, shard=0, num_shards=1):
        {body}

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return Image.open(self.files[index]), index
"""
TRAINING = """
from data import load
loader = load("images", 32)
for epoch in range(epochs):
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
"""
PART = "self.files = files[shard:][::num_shards]"
ALL = "self.files = files"
KEPT = "self.shard, self.num = shard, num_shards\n        self.files = files[self.shard::self.num]"
HANDED = """self.take(files, shard, num_shards)

    def take(self, files, first, step):
        self.files = files[first::step]"""
LISTED = """
        if shard == 0:
            for one in files:
                print(one)"""
PICKED = "files[dist.get_rank()::dist.get_world_size()]"
OWN = "Images(files, shard=dist.get_rank(), num_shards=dist.get_world_size())"
PITFALLS = {
    "not told": ("Images(files)", PART),
    "told the first part": ("Images(files, shard=0, num_shards=dist.get_world_size())", PART),
    "takes no part": (OWN, ALL),
    "keeps its rank": (OWN, f"{ALL}\n        self.rank = shard\n        self.num = num_shards"),
    "shows its rank": (OWN, f"{ALL}\n        print('data of rank', shard)"),
}
INNOCENT = {
    "shows files on one rank": (OWN, f"{PART}{LISTED}"),
    "takes its part": (OWN, PART),
    "asks for its rank": ("Images(files)", f"self.files = {PICKED}"),
    "keeps what it reads": (OWN, KEPT),
    "is given its part": (f"Images({PICKED})", ALL),
    "is told by what is not seen": ("Images(files, SETTINGS['rank'], dist.get_world_size())", PART),
    "is told in a dictionary": ("Images(files, **SETTINGS['part'])", PART),
    "hands it on": (OWN, HANDED),
}


def _codes(folder: Path, made: str, body: str) -> set[str]:
    (folder / "data.py").write_text(DATA.format(made=made, body=body))
    path = folder / "train.py"
    path.write_text(SETUPS["distributed"] + TRAINING)
    result = lint(Document(str(path), path.read_bytes()), Settings(root=folder))
    assert result.failure is None, result.failure
    return {one.code for one in result.found}


@pytest.mark.parametrize(("made", "body"), PITFALLS.values(), ids=PITFALLS)
def test_a_data_set_that_is_the_same_for_all_is_found(made: str, body: str, tmp_path: Path) -> None:
    assert "DDP101" in _codes(tmp_path, made, body)


@pytest.mark.parametrize(("made", "body"), INNOCENT.values(), ids=INNOCENT)
def test_a_data_set_that_may_be_a_part_is_left(made: str, body: str, tmp_path: Path) -> None:
    assert "DDP101" not in _codes(tmp_path, made, body)
