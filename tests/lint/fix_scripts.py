"""Small scripts around what safe fixes mend: each in several spellings and at several places.

They run on two ranks of the CPU. ``BEFORE`` is code before the process group exists, ``AFTER`` code
after that, ``HELPER`` a function that is called then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

BEFORE, AFTER, HELPER, OTHERS = "before the group", "after it", "in a function", "for some ranks"


class FixScript(NamedTuple):
    """A script, and which rule's fix it is about; ``hangs`` where it cannot be run unfixed."""

    code: str
    name: str
    text: str
    hangs: bool = False


class Pattern(NamedTuple):
    """Spellings of one pitfall, and the places where they can stand."""

    code: str
    spellings: tuple[str, ...]
    places: tuple[str, ...] = (AFTER, HELPER)
    hangs: bool = False


_HEADS = (
    "import os\nimport torch\nimport torch.distributed as dist\n",
    "import os\nimport torch\nfrom torch import distributed\nimport torch.distributed as dist\n",
)
_COMMON = """
import argparse
import functools
from torch import nn
from torch import save as keep
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler as Sampler

data = TensorDataset(torch.arange(12.0).reshape(12, 1))
"""
_TRAINING = """\
model = DistributedDataParallel(nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
_LOOP = """\
for epoch in range(2):
    for x, in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
"""
_NORMED = "model = DistributedDataParallel(nn.Sequential(nn.Linear(1, 2), nn.BatchNorm1d(2)))\n"
_OWN = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.size, self.layer = 3, nn.Linear(1, 1)

    def forward(self, x):
        return self.layer(x)

    def scale(self, by):
        return self.size * by

model = DistributedDataParallel(Net())
"""
_STATE = "{'step': 1}"
_SAVED = (
    _TRAINING + "place = torch.device('cpu')\nnet = nn.Linear(1, 1).to(place)\n"
    "if dist.get_rank() == 0:\n    torch.save(net.state_dict(), 'w.pt')\ndist.barrier()\n"
)

PATTERNS = (
    Pattern(
        "DDP102",
        tuple(
            _TRAINING + made + _LOOP
            for made in (
                "sampler = Sampler(data)\nloader = DataLoader(data, 2, sampler=sampler)\n",
                "loader = DataLoader(data, 2, sampler=Sampler(data))\n",
                "loader = DataLoader(data, 2, False, Sampler(dataset=data, shuffle=True))\n",
            )
        ),
    ),
    Pattern(
        "DDP103",
        tuple(
            _TRAINING + f"loader = DataLoader(data, {given})\n" + _LOOP
            for given in (
                "2, sampler=Sampler(data), shuffle=True",
                "batch_size=2, shuffle=True, sampler=Sampler(data)",
                "2, True, Sampler(data)",
            )
        ),
    ),
    Pattern(
        "DDP104",
        tuple(
            _TRAINING + f"loader = DataLoader(data, 2, sampler=Sampler(data, {given}))\n" + _LOOP
            for given in (
                "2, int(os.environ['LOCAL_RANK'])",
                "num_replicas=dist.get_world_size(), rank=int(os.environ['LOCAL_RANK'])",
            )
        ),
    ),
    Pattern(
        "DDP205",
        (
            _SAVED + "net.load_state_dict(torch.load('w.pt'))\nprint(net.bias.shape)\n",
            _SAVED + "state = torch.load('w.pt', 'cuda:0')\nnet.load_state_dict(state)\n",
        ),
    ),
    Pattern(
        "DDP309",
        (
            _OWN + "print(model.size)\n",
            _OWN + "print(model.scale(2), model.size + 1)\n",
        ),
    ),
    Pattern(
        "DDP319",
        tuple(
            "from torch.utils.checkpoint import checkpoint\n\n"
            "class Deep(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.layer = nn.Linear(1, 1)\n\n    def forward(self, x):\n"
            f"        return checkpoint(self.layer, x{given})\n\n"
            "model = DistributedDataParallel(Deep())\nmodel(torch.ones(2, 1)).sum().backward()\n"
            for given in ("", ", use_reentrant=True")
        ),
    ),
    Pattern(
        "DDP321",
        (
            "model = DistributedDataParallel(nn.Linear(1, 1), dims=0)\nprint(model.training)\n",
            "model = DistributedDataParallel(dims=(0, 1), module=nn.Linear(1, 1))\n",
        ),
    ),
    Pattern(
        "DDP403",
        (
            _NORMED + "model.eval()\nif dist.get_rank() == 0:\n    with torch.no_grad():\n"
            "        model(torch.zeros(2, 1))\n",
            _NORMED + "model.eval()\nx = torch.zeros(2, 1)\n"
            "with torch.no_grad():\n    if not dist.get_rank():\n        print(model(x).shape)\n",
        ),
        hangs=True,
    ),
    Pattern(
        "DDP414",
        (
            "x = torch.ones(2)\nx = dist.all_reduce(x)\nprint(x + 1)\n",
            "x = torch.ones(2)\ntotal = dist.all_reduce(tensor=x)\nprint(total.sum())\n",
            "x = torch.ones(2)\nx = dist.broadcast(x, 0)\nprint(x.tolist())\n",
        ),
    ),
    Pattern(
        "DDP419",
        (
            f"if dist.get_rank() == 0:\n    torch.save({_STATE}, 'a.pt')\n"
            "print(torch.load('a.pt')['step'])\n",
        ),
        (AFTER,),
    ),
    Pattern(
        "DDP501",
        (
            _TRAINING + f"torch.save({_STATE}, 'a.pt')\n",
            _TRAINING + f"keep({_STATE}, f='a.pt')\n",
            _TRAINING + f"if os.environ.get('HOME'):\n    torch.save(obj={_STATE}, f='a.pt')\n",
            f"def scaled(dist):\n    torch.save({_STATE}, 'a.pt')\n    return dist * 2\n\n"
            "print(scaled(1))\n",
        ),
        (BEFORE, AFTER, HELPER, OTHERS),
    ),
    Pattern(
        "DDP506",
        (
            "if not os.path.exists('runs'):\n    os.makedirs('runs')\n",
            "if not os.path.isdir('runs'):\n    os.mkdir('runs')\n",
            "os.makedirs('runs/deep')\n",
            "os.makedirs(('runs' + '/deep'))\n",
            "os.makedirs(name='runs', mode=0o755)\n",
        ),
        (BEFORE, AFTER, HELPER),
    ),
    Pattern(
        "DDP701",
        (
            "print(int(os.environ['LOCAL_RANK']) < 2)\nos.environ['MASTER_PORT'] = '29517'\n",
            "here = int(os.environ['LOCAL_RANK'])\nos.environ['MASTER_ADDR'] = \"localhost\"\n",
        ),
        (BEFORE, HELPER),
    ),
    Pattern(
        "DDP703",
        tuple(
            "parser = argparse.ArgumentParser()\n"
            f"parser.add_argument({given})\nprint(parser.parse_args([]).local_rank is None)\n"
            for given in (
                "'--local_rank', type=int, default=0",
                "'--local_rank', default=-1, type=int, help='the rank'",
            )
        ),
        (BEFORE, AFTER),
    ),
    Pattern(
        "DDP706",
        (
            "model = DistributedDataParallel(nn.Linear(1, 1))\n"
            "rate = torch.optim.SGD(model.parameters(), lr=0.1 * torch.cuda.device_count())\n",
            "x = torch.ones(1)\ndist.all_reduce(x)\n"
            "print((x / torch.cuda.device_count()).shape)\n",
        ),
    ),
    Pattern(
        "DDP708",
        (
            "os.environ['NCCL_BLOCKING_WAIT'] = '1'\n",
            "os.environ['NCCL_ASYNC_ERROR_HANDLING'] = '1'\n",
        ),
        (BEFORE, AFTER),
    ),
    Pattern(
        "DDP712",
        (
            "rank = os.environ['RANK']\nif rank == 0:\n    print('first')\n",
            "rank = os.getenv('RANK', '0')\nprint(data.tensors[0][int(rank)], rank == 0)\n",
        ),
        (BEFORE, AFTER, HELPER),
    ),
    Pattern(
        "DDP903",
        (
            "out = torch.zeros(4)\ndist._all_gather_base(out, torch.ones(2))\nprint(out)\n",
            "out = torch.zeros(4)\n"
            "dist._all_gather_base(output_tensor=out, input_tensor=torch.ones(2))\nprint(out)\n",
        ),
    ),
    Pattern(
        "DDPF09",
        tuple(
            "from torch.distributed.fsdp import wrap\n"
            f"policy = wrap.size_based_auto_wrap_policy({given})\nprint(callable(policy))\n"
            for given in ("min_num_params=100", "force_leaf_modules=set(), min_num_params=100")
        ),
    ),
)  # fmt: skip


def _indented(text: str) -> str:
    return "".join(f"    {line}" for line in text.splitlines(keepends=True))


def _placed(body: str, place: str) -> str:
    """A script with the body at a place; what needs the group there is the body's own matter."""
    join = 'dist.init_process_group("gloo")\n'
    if place == BEFORE:
        training = body[: len(_TRAINING)] if body.startswith(_TRAINING) else ""
        return body[len(training) :] + join + training + (training and _USED)
    if place == HELPER:
        return f"def work():\n{_indented(body)}\n{join}work()\n"
    if place == OTHERS:
        return join + "rank = dist.get_rank()\nif rank < 2:\n" + _indented(body)
    return join + body


_USED = "model(torch.ones(2, 1)).mean().backward()\noptimizer.step()\n"


def scripts() -> Iterator[FixScript]:
    """Each spelling at one place or more, and each place with one spelling or more."""
    for pattern in PATTERNS:
        spellings, places = pattern.spellings, pattern.places
        for number in range(max(len(spellings), len(places))):
            body, place = spellings[number % len(spellings)], places[number % len(places)]
            head = _HEADS[number % len(_HEADS)]
            name = f"{pattern.code}, spelling {number % len(spellings) + 1}, {place}"
            used = _USED if body.startswith(_TRAINING) and place == AFTER else ""
            text = head + _COMMON + _placed(body, place) + used
            yield FixScript(pattern.code, name, text, pattern.hangs)
