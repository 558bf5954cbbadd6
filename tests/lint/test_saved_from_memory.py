"""A state that was saved from main memory is loaded there, without a device."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

HEAD = """
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import FullStateDictConfig, StateDictType

policy = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
on_gpu = FullStateDictConfig(rank0_only=True)
full = StateDictType.FULL_STATE_DICT

"""
LOAD = "\nnet.load_state_dict(torch.load(path))\n"
TRAIN = (
    "\nfor x, y in loader:\n    optimizer.zero_grad()\n    criterion(model(x), y).backward()\n"
    "    optimizer.step()\n"
)
FROM_MEMORY = {
    "a policy by a name": (
        "with FSDP.state_dict_type(model, full, policy):\n    state = model.state_dict()\n"
        "if rank == 0:\n    torch.save(state, path)\n"
    ),
    "a policy in place": (
        "with FSDP.state_dict_type(model, full, FullStateDictConfig(offload_to_cpu=True)):\n"
        "    state = model.state_dict()\nif rank == 0:\n    torch.save(state, path)\n"
    ),
    "saved within it": (
        "with FSDP.state_dict_type(model, full, policy):\n"
        "    if rank == 0:\n        torch.save(model.state_dict(), path)\n"
    ),
    "in a function": (
        "def save(model, path):\n    with FSDP.state_dict_type(model, full, policy):\n"
        "        state = model.state_dict()\n    if rank == 0:\n        torch.save(state, path)\n\n"
        "save(model, path)\n"
    ),
    "in a function of another run": (
        "def save(model, path):\n    with FSDP.state_dict_type(model, full, policy):\n"
        "        state = model.state_dict()\n    if rank == 0:\n        torch.save(state, path)\n"
    ),
    "a policy of an object": (
        "class Saver:\n    policy = FullStateDictConfig(offload_to_cpu=True)\n"
        "    def save(self, model):\n"
        "        with FSDP.state_dict_type(model, full, self.policy):\n"
        "            state = model.state_dict()\n"
        "        if rank == 0:\n            torch.save(state, path)\n\nSaver().save(model)\n"
    ),
    "a part of a dictionary": (
        "with FSDP.state_dict_type(model, full, policy):\n    state = model.state_dict()\n"
        "if rank == 0:\n    torch.save({'model': state, 'epoch': 1}, path)\n"
    ),
    "two contexts": (
        "with torch.no_grad(), FSDP.state_dict_type(model, full, policy):\n"
        "    state = model.state_dict()\nif rank == 0:\n    torch.save(state, path)\n"
    ),
    "each tensor told so": (
        "state = {name: one.to('cpu') for name, one in net.state_dict().items()}\n"
        "if rank == 0:\n    torch.save(state, path)\n"
    ),
    "each tensor": (
        "state = {name: one.cpu() for name, one in net.state_dict().items()}\n"
        "if rank == 0:\n    torch.save(state, path)\n"
    ),
    "the model, before it is asked": (
        "model.cpu()\nstate = model.module.state_dict() if hasattr(model, 'module') else net\n"
        "if rank == 0:\n    torch.save(state, path)\n"
    ),
    "the model within its wrapper": (
        "model.module.to('cpu')\nif rank == 0:\n    torch.save(model.state_dict(), path)\n"
    ),
    "the model, by a device": (
        "if rank == 0:\n    net.to(torch.device('cpu'))\n"
        "    torch.save({'model': net.state_dict()}, path)\n"
    ),
    "the model, for a while": (
        "net.cpu()\nstate = net.state_dict()\nif rank == 0:\n    torch.save(state, path)\n"
        "net.cuda()\n"
    ),
    "the model, by its name": (
        "net = net.cpu()\nif rank == 0:\n    torch.save(net.state_dict(), path)\n"
    ),
    "a copy of the model": (
        "import copy\n\nkept = copy.deepcopy(net).cpu()\n"
        "if rank == 0:\n    torch.save(kept.state_dict(), path)\n"
    ),
    "a copy of the model in place": (
        "import copy\n\n"
        "if rank == 0:\n    torch.save(copy.deepcopy(net).cpu().state_dict(), path)\n"
    ),
    "the model, by who calls": (
        "def save(kept, path):\n    if rank == 0:\n        torch.save(kept.state_dict(), path)\n\n"
        "net.cpu()\nsave(net, path)\n"
    ),
    "the model of an object": (
        "class Saver:\n    def __init__(self, model):\n        self.model = model\n"
        "    def save(self, path):\n        self.model.cpu()\n"
        "        if rank == 0:\n            torch.save(self.model.state_dict(), path)\n\n"
        "Saver(net).save(path)\n"
    ),
}
FROM_A_GPU = {
    "the model, back on its GPU": (
        "net.cpu()\nnet.cuda()\nstate = net.state_dict()\n"
        "if rank == 0:\n    torch.save(state, path)\n"
    ),
    "the model, after it": (
        "state = net.state_dict()\nif rank == 0:\n    torch.save(state, path)\nnet.cpu()\n"
    ),
    "another model": (
        "other = nn.Linear(2, 2)\nother.cpu()\n"
        "if rank == 0:\n    torch.save(net.state_dict(), path)\n"
    ),
    "the model, in a mode": (
        "import sys\n\nif len(sys.argv) > 1:\n    net.cpu()\n"
        "if rank == 0:\n    torch.save(net.state_dict(), path)\n"
    ),
    "a copy that stays": (
        "import copy\n\nkept = copy.deepcopy(net)\n"
        "if rank == 0:\n    torch.save(kept.state_dict(), path)\n"
    ),
    "the model, by one of those who call": (
        "def save(kept, path):\n    if rank == 0:\n        torch.save(kept.state_dict(), path)\n\n"
        "save(net, path)\nnet.cpu()\nsave(net, path)\n"
    ),
    "a policy that leaves it there": (
        "with FSDP.state_dict_type(model, full, on_gpu):\n    state = model.state_dict()\n"
        "if rank == 0:\n    torch.save(state, path)\n"
    ),
    "another policy around": (
        "with FSDP.state_dict_type(model, full, policy):\n    other = model.state_dict()\n"
        "if rank == 0:\n    torch.save(net.state_dict(), path)\n"
    ),
    "a context that is no policy": (
        "with torch.no_grad():\n    state = net.state_dict()\n"
        "if rank == 0:\n    torch.save(state, path)\n"
    ),
}


def _found(lint_text: Lint, saves: str) -> bool:
    text = SETUPS["distributed"] + HEAD + LOAD + TRAIN + saves
    return bool(lint_text(text, select=("DDP205",)))


@pytest.mark.parametrize("name", FROM_MEMORY)
def test_a_state_of_main_memory_comes_back_there(name: str, lint_text: Lint) -> None:
    assert not _found(lint_text, FROM_MEMORY[name])


@pytest.mark.parametrize("name", FROM_A_GPU)
def test_a_state_of_a_gpu_comes_back_there(name: str, lint_text: Lint) -> None:
    assert _found(lint_text, FROM_A_GPU[name])
