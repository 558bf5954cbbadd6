"""Models that a library places by ``device_map``."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.planning.refusals import Refusal
from tests.convert.examples import added, convert_text

TEXT = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import AutoModelForCausalLM

feed = DataLoader(TensorDataset(torch.randint(9, (64, 8))), batch_size=8)
PLACES
brain = AutoModelForCausalLM.from_pretrained("gpt2", device_map=PLACE)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for (ids,) in feed:
    rule.zero_grad()
    brain(input_ids=ids, labels=ids).loss.backward()
    rule.step()
"""
PLACED = 'device_map={"": dd.device()}'


def text(place: str, before: str = "") -> str:
    return TEXT.replace("PLACES", before).replace("PLACE", place)


@pytest.mark.parametrize("place", ['"auto"', '"cuda:0"', '{"": 0}', "unseen.place"])
def test_the_whole_model_is_on_the_device_of_the_rank(tmp_path: Path, place: str) -> None:
    assert any(PLACED in line for line in added(tmp_path, text(place)))


@pytest.mark.parametrize("place", ["None", '"cpu"'])
def test_what_is_on_no_gpu_stays(tmp_path: Path, place: str) -> None:
    assert not any("device_map={" in line for line in added(tmp_path, text(place)))


@pytest.mark.parametrize(
    "before", ["", 'places = {"embed": 0, **{f"layers.{i}": 1 for i in range(9)}}']
)
def test_layers_on_several_gpus_are_refused(tmp_path: Path, before: str) -> None:
    place = "places" if before else '{"embed": 0, "layers": 1}'
    with pytest.raises(Refusal, match="several GPUs"):
        convert_text(tmp_path, text(place, before))
