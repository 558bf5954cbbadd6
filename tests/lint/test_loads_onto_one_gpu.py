"""States that all ranks load onto one GPU, by whatever names that one goes."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

TRAIN = """
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
HELPER = """
def restore(path, where):
    return torch.load(path, map_location=where)

net.load_state_dict(restore(path, {}))
"""
KEEPER = """
class Keeper:
    def __init__(self, model, device):
        self.model, self.device = model, device

    def load(self, path):
        self.model.load_state_dict(torch.load(path, map_location=self.device))

Keeper(net, {}).load(path)
"""
ELSEWHERE = """
net.load_state_dict(torch.load(path))
torch.save({name: one.cpu() for name, one in net.state_dict().items()}, {})
"""
BESIDE = """
net.load_state_dict(torch.load(argparse.ArgumentParser().parse_args().start))
for x, y in loader:
    out = model(x)
    torch.save({}, os.environ["FILE"])
"""
LOADS = {
    "a constant": (
        "WHERE = {}\nnet.load_state_dict(torch.load(path, map_location=WHERE))\n",
        '"cuda:0"',
        '"cpu"',
    ),
    "an argument of a helper": (HELPER, '"cuda:1"', "device"),
    "an attribute": (KEEPER, '"cuda:0"', 'f"cuda:{local_rank}"'),
    "a mapping": (
        "net.load_state_dict(torch.load(path, map_location={}))\n",
        '{"cuda:1": "cuda:0"}',
        '{"cuda:0": f"cuda:{local_rank}"}',
    ),
    "a function": (
        "net.load_state_dict(torch.load(path, map_location={}))\n",
        "lambda kept, place: kept.cuda(0)",
        "lambda kept, place: kept.cuda(local_rank)",
    ),
    "a save from memory, to another file": (ELSEWHERE, '"other.pt"', '"model.pt"'),
    "a save from memory, to a file that may be the same": (
        ELSEWHERE,
        'os.path.join("out", "other.pt")',
        'os.environ["FILE"]',
    ),
    "one tensor, saved from memory": (BESIDE, "out.detach().cpu()", "net.cpu().state_dict()"),
    "a tensor beside others": (
        BESIDE,
        '{"out": out.cpu(), "y": y.cpu()}',
        '{"net": {k: v.cpu() for k, v in net.state_dict().items()}}',
    ),
}


@pytest.mark.parametrize("name", LOADS)
def test_all_ranks_load_onto_one_gpu(name: str, lint_text: Lint) -> None:
    code, wrong, right = LOADS[name]
    for given, found in ((wrong, True), (right, False)):
        text = SETUPS["distributed"] + code.replace("{}", given) + TRAIN
        assert bool(lint_text(text, select=("DDP205",))) is found
