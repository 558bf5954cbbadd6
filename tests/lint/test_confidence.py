"""How sure findings are, and which are shown: what ddpify is there for speaks by default."""

from __future__ import annotations

from ddpify.lint.diagnostics import Confidence, Diagnostic
from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

SCRIPT = """
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from somewhere import make

dist.init_process_group("nccl")
net = nn.Linear(4, 2)
model = DDP(net.to("cuda:0"))
loader = DataLoader(make(), shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x, y in loader:
    x, y = x.cuda(), y.cuda()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""
SURE, LIKELY, POSSIBLE = Confidence.CERTAIN, Confidence.LIKELY, Confidence.POSSIBLE


def graded(found: list[Diagnostic]) -> set[tuple[str, Confidence]]:
    return {(one.code, one.confidence) for one in found}


def test_the_pitfalls_of_a_first_ddp_script_are_shown(lint_text: Lint) -> None:
    found = lint_text(SCRIPT)
    assert graded(found) == {("DDP101", LIKELY), ("DDP201", LIKELY)}
    messages = [one.message for one in found if one.code == "DDP201"]
    assert len(messages) == 2 and "cuda:0" in messages[0] and "set_device" in messages[1]


def test_a_data_set_in_sight_makes_it_certain(lint_text: Lint) -> None:
    plain = SETUPS["distributed"] + (
        "for x, y in DataLoader(dataset, 32):\n"
        "    criterion(model(x), y).backward()\n    optimizer.step()\n"
    )
    assert ("DDP101", SURE) in graded(lint_text(plain))
    seeded = plain.replace("DataLoader(dataset, 32)", "DataLoader(dataset, 32, shuffle=True)")
    seeded = seeded.replace("for x, y", "torch.manual_seed(rank)\nfor x, y", 1)
    assert ("DDP101", LIKELY) in graded(lint_text(seeded))


def test_what_a_strict_reading_alone_finds_is_possible(lint_text: Lint) -> None:
    """A batch size per GPU that may have been meant for all of them."""
    code = "for x, y in loader:\n    criterion(model(x), y).backward()\n    optimizer.step()\n"
    text = SETUPS["distributed"] + code
    assert "DDP110" not in {one.code for one in lint_text(text)}
    assert ("DDP110", POSSIBLE) in graded(lint_text(text, strict=True))


def test_a_strict_reading_keeps_what_is_surer(lint_text: Lint) -> None:
    assert graded(lint_text(SCRIPT)) <= graded(lint_text(SCRIPT, strict=True))
