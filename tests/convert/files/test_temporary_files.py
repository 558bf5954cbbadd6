"""Files that each rank opens itself: downloads go through them, what rank 0 saves does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.trying import Trial
from ddpify.convert import Refusal, convert_file
from tests.convert.examples import HEAD, STEP, added
from tests.convert.running import assert_trains_the_same

FETCHING = """\
import functools
import logging
import os
import shutil
import tempfile
import urllib.request

logger = logging.getLogger(__name__)


def explained(func):
    @functools.wraps(func)
    def wrapper(url, *args, **kwargs):
        return func(url, *args, **kwargs)

    return wrapper


@explained
def etag(url):
    return urllib.request.urlopen(url).headers.get("Content-length")


@explained
def fetch(url, temporary):
    shutil.copyfileobj(urllib.request.urlopen(url), temporary)


def cached(url):
    path = os.path.join("cache", etag(url) + ".txt")
    os.makedirs("cache", exist_ok=True)
    if not os.path.exists(path):
        with tempfile.NamedTemporaryFile() as temporary:
            logger.info("downloading to %s", temporary.name)
            fetch(url, temporary)
            temporary.flush()
            temporary.seek(0)
            with open(path, "wb") as kept:
                shutil.copyfileobj(temporary, kept)
    return path


"""
TRAINING = """\
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
rate = float(open(cached("file://RATE")).read())
feed = DataLoader(TensorDataset(torch.randn(13, 4), torch.randn(13, 1)), batch_size=5)
brain = nn.Linear(4, 1)
rule = torch.optim.SGD(brain.parameters(), lr=rate)
for a, b in feed:
    penalty = nn.functional.mse_loss(brain(a), b)
    rule.zero_grad()
    penalty.backward()
    rule.step()
    print(f"{penalty.item():.6f}")
"""


def test_a_download_goes_through_a_file_of_each_rank(tmp_path: Path, trial: Trial) -> None:
    (tmp_path / "rate.txt").write_text("0.125")
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    script.write_text(FETCHING + TRAINING.replace("RATE", str(tmp_path / "rate.txt")))
    converted.write_bytes(convert_file(script).data)
    assert_trains_the_same(trial, script, converted)


FOUND_BY = [
    "torch.load(f)",
    "torch.load([f][0])",
    "open(f.name)",
    "open(os.path.join('/', f.name))",
    "open(f'{f.file.name}')",
    "open(getattr(f, 'name'))",
    "open(vars(f)['name'])",
    "open((lambda g: g.name)(f))",
    "open(list(map(operator.attrgetter('name'), [f]))[0])",
    "open(glob.glob(f.name + '*')[0])",
]


@pytest.mark.parametrize("found", FOUND_BY)
def test_what_rank_0_saves_must_be_found(tmp_path: Path, found: str) -> None:
    text = f"import glob, operator, os, tempfile\n{HEAD}f = tempfile.NamedTemporaryFile()\n{STEP}"
    with pytest.raises(Refusal, match="opens a temporary file of its own"):
        added(tmp_path, f"{text}torch.save(brain.state_dict(), f)\nf.seek(0)\nprint({found})\n")
