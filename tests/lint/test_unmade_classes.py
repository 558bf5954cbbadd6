"""A part that is frozen after the wrap, where a class that nothing makes would wrap again."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.lint.config import Settings
from ddpify.lint.engine import lint
from ddpify.lint.files.document import Document
from tests.lint.setups import SETUPS

TRAINER = """
class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader = model, loader
        {}
        self.wrapped = DDP(self.model, device_ids=[local_rank])
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

    def freeze(self):
        for p in self.model.l1.parameters():
            p.requires_grad = False

    def run(self):
        {}
        for x, y in self.loader:
            self.optimizer.zero_grad()
            criterion(self.wrapped(x.to(device)), y.to(device)).backward()
            self.optimizer.step()


class Variant(Trainer):
    def __init__(self, scale, **options):
        super().__init__(**options)
        self.scale = scale


trainer = Trainer(net, loader)
{}
trainer.run()
"""
HEAD = SETUPS["distributed"].split("model = DDP")[0]
BEFORE, AFTER, LATER = "self.freeze()", "self.freeze()", "trainer.freeze()"


def _codes(folder: Path, *places: str) -> set[str]:
    path = folder / "train.py"
    path.write_text(HEAD + TRAINER.format(*places))
    result = lint(Document(str(path), path.read_bytes()), Settings(root=folder))
    assert result.failure is None, result.failure
    return {one.code for one in result.found}


@pytest.mark.parametrize("places", [("", AFTER, ""), ("", "", LATER)], ids=["method", "script"])
def test_what_is_frozen_after_the_wrap_is_found(places: tuple[str, ...], tmp_path: Path) -> None:
    assert "DDP306" in _codes(tmp_path, *places)


@pytest.mark.parametrize("places", [(BEFORE, "", ""), ("", "", "")], ids=["before", "never"])
def test_what_is_frozen_before_the_wrap_is_left(places: tuple[str, ...], tmp_path: Path) -> None:
    assert "DDP306" not in _codes(tmp_path, *places)
