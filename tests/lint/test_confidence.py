"""How sure findings are, and which are shown: what ddpify is there for speaks by default."""

from __future__ import annotations

from pathlib import Path

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


EXPORT = """
import sys
if {asked}:
    torch.save(model, "a.pt")
"""


def _of_the_wrapper(lint_text: Lint, text: str) -> set[Confidence]:
    found = lint_text(SETUPS["distributed"] + text, select=("DDP505",))
    return {one.confidence for one in found}


def test_what_an_option_leads_to_is_likely(lint_text: Lint) -> None:
    assert _of_the_wrapper(lint_text, EXPORT.format(asked="rank == 0")) == {SURE}
    assert _of_the_wrapper(lint_text, EXPORT.format(asked="rank == 0 and sys.argv[1]")) == {LIKELY}
    assert _of_the_wrapper(lint_text, EXPORT.format(asked="vars(sys)['debug']")) == {LIKELY}
    unused = "def export():\n    torch.save(model, 'a.pt')\n"
    assert _of_the_wrapper(lint_text, unused) == {LIKELY}
    assert _of_the_wrapper(lint_text, unused + "export()\n") == {SURE}


def test_several_nodes_are_certain_where_a_command_asks_for_them(
    lint_text: Lint, tmp_path: Path
) -> None:
    text = SETUPS["distributed"] + "model.to(torch.device('cuda', dist.get_rank()))\n"
    assert graded(lint_text(text, select=("DDP203",))) == {("DDP203", LIKELY)}
    (tmp_path / "run.sh").write_text("torchrun --nnodes=2 --nproc_per_node=8 train.py\n")
    assert graded(lint_text(text, select=("DDP203",))) == {("DDP203", SURE)}


STARTED = """
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

def main(gpu, ranks, nodes):
    dist.init_process_group("nccl", "tcp://" + nodes[0], rank=gpu, world_size=ranks * len(nodes))
    torch.cuda.set_device(gpu)
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2).cuda())
    model.load_state_dict(torch.load("a.pt"))
    model(torch.ones(1, 4).cuda()).sum().backward()

ranks = {ranks}
mp.spawn(main, nprocs=ranks, args=(ranks, open("nodes").readlines()))
"""


def test_one_rank_has_its_node_for_itself(lint_text: Lint) -> None:
    eight, one = (STARTED.format(ranks=ranks) for ranks in (8, 1))
    assert graded(lint_text(eight, select=("DDP205",))) == {("DDP205", LIKELY)}
    assert not lint_text(one, select=("DDP205",))
