"""Right code, in forms that were once reported: how ranks are started, and what they are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.lint.diagnostics import Confidence
from tests.lint.conftest import Lint
from tests.lint.precision.snippets import STEP, findings
from tests.lint.setups import SETUPS

RIGHT = {
    "a variable under its former and its present name": """
os.environ["NCCL_BLOCKING_WAIT"] = "1"
os.environ["TORCH_NCCL_BLOCKING_WAIT"] = "1"
""",
    "Slurm's variables under torchrun's names": """
def from_slurm():
    os.environ["RANK"] = os.environ["SLURM_PROCID"]
    os.environ["LOCAL_RANK"] = os.environ["SLURM_LOCALID"]
    os.environ["MASTER_ADDR"] = "node-0"

from_slurm()
""",
    "an option for old versions of PyTorch alone": """
MAJOR = int(torch.__version__.split(".")[0])
parser = argparse.ArgumentParser()
if MAJOR == 1:
    parser.add_argument("--local_rank", type=int)
args = parser.parse_args()
torch.cuda.set_device(args.local_rank)
""",
    "the world size, returned beside the rank": """
def setup():
    if dist.is_initialized():
        return dist.get_world_size(), dist.get_rank()
    try:
        size = int(os.environ["SLURM_NTASKS"])
        number = int(os.environ["SLURM_PROCID"])
    except KeyError:
        size, number = 1, 0
    return size, number

size, number = setup()
parallel = Net().to(device)
if size > 1:
    parallel = DDP(parallel, device_ids=[local_rank])
"""
    + STEP,
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_clean(name: str, lint_text: Lint) -> None:
    assert findings(lint_text, RIGHT[name]) == []


SPAWNED = """
import argparse
import random
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)


def worker(local_rank, world_size, args):
    args.local_rank = local_rank
    dist.init_process_group(
        "nccl", init_method="tcp://127.0.0.1:29500", world_size=world_size, rank=local_rank
    )
    torch.cuda.set_device(args.local_rank)
    dataset = TensorDataset(torch.zeros(100, 10), torch.zeros(100).long())
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, 32, sampler=sampler)
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(10, 2), nn.Dropout()).cuda(), device_ids=[local_rank]
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
            optimizer.step()
    dist.destroy_process_group()


def main():
    args = parser.parse_args()
    torch.manual_seed(1)
    world_size = torch.cuda.device_count()
    mp.spawn(worker, nprocs=world_size, args=(world_size, args))


if __name__ == "__main__":
    main()
"""


NESTED = SPAWNED.replace("def main():\n", "def start():\n").replace(
    "if __name__",
    """def outer(rank):
    if rank == 0:
        start()


def main():
    mp.spawn(outer, nprocs=2)


if __name__""",
)


def test_ranks_that_one_rank_starts_are_all_of_theirs(lint_text: Lint) -> None:
    found = {one.code for one in lint_text(NESTED)}
    assert not {"DDP102", "DDP403", "DDP407"} & found


def test_the_process_that_spawns_is_no_rank(lint_text: Lint) -> None:
    """Its seed reaches no rank, and the option for the local rank is set by the ranks."""
    assert not {"DDP601", "DDP703"} & {one.code for one in lint_text(SPAWNED)}


def test_an_evaluation_that_never_joins_a_group(lint_text: Lint) -> None:
    """A function shared with the training makes a DistributedSampler there, not here."""
    text = """
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def make_loader():
    dataset = TensorDataset(torch.zeros(100, 10), torch.zeros(100).long())
    sampler = DistributedSampler(dataset) if dist.is_initialized() else None
    return DataLoader(dataset, 32, sampler=sampler)


def main():
    loader, model, correct = make_loader(), torch.nn.Linear(10, 2), 0
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum().item()
    print(correct / len(loader.dataset))


if __name__ == "__main__":
    main()
"""
    assert lint_text(text) == []


BY_HAND = """
import argparse
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

parser = argparse.ArgumentParser()
parser.add_argument("--rank", type=int, default=0)
parser.add_argument("--size", type=int, default=1)
args = parser.parse_args()
net = torch.nn.Linear(4, 2)
net.load_state_dict(torch.load("start.pt"))
dist.init_process_group("nccl", "tcp://10.0.0.1:2345", rank=args.rank, world_size=args.size)
model = DDP(net.to("cuda"))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = torch.utils.data.DataLoader(torch.randn(8, 4), 2)
for x in loader:
    model(x.to("cuda")).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("command", "shown"),
    [("python train.py --rank 1", set()), ("torchrun train.py", {"DDP201", "DDP205", "DDP711"})],
)
def test_a_rank_from_an_option_may_be_the_number_of_a_node(
    command: str, shown: set[str], lint_text: Lint, tmp_path: Path
) -> None:
    """Which has one process with all of its GPUs, unless a launcher starts the script."""
    (tmp_path / "README.md").write_text(f"    {command}\n")
    placed = {"DDP201", "DDP205", "DDP711"}
    sure = {one.code for one in lint_text(BY_HAND) if one.confidence > Confidence.POSSIBLE}
    assert sure & placed == shown


MILESTONES = """
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

def schedule_of(optimizer, args):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)

def main(args):
    dist.init_process_group("nccl")
    data = TensorDataset(torch.zeros(100, 10))
    loader = DataLoader(data, 4, sampler=DistributedSampler(data))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(10, 1).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {before}
    schedule = schedule_of(optimizer, args)
    {after}
    for epoch in range(args.epochs):
        for (x,) in loader:
            model(x.cuda()).sum().backward()
            optimizer.step()
            schedule.step()

main(argparse.ArgumentParser().parse_args())
"""


@pytest.mark.parametrize("place", ["before", "after"])
def test_what_is_set_later_is_no_length_of_the_schedule(place: str, lint_text: Lint) -> None:
    longer = {"before": "pass", "after": "pass", place: "args.epochs = len(data) // 8"}
    found = lint_text("import argparse\n" + MILESTONES.format(**longer))
    assert ("DDP418" in {one.code for one in found}) is (place == "before")


ASSERTED = """
{asserted}
mine = DataLoader(dataset, 4, sampler=DistributedSampler(dataset, world_size, local_rank))
for x, y in mine:
    criterion(model(x.to(device)), y.to(device)).backward()
    optimizer.step()
if local_rank == 0:
    torch.save(net.state_dict(), path)
"""


@pytest.mark.parametrize(
    ("asserted", "codes"),
    [("assert local_rank == dist.get_rank()", set()), ("", {"DDP104", "DDP502"})],
)
def test_a_script_may_assert_that_there_is_one_node(
    asserted: str, codes: set[str], lint_text: Lint
) -> None:
    found = {one.code for one in findings(lint_text, ASSERTED.format(asserted=asserted))}
    assert found & {"DDP104", "DDP502"} == codes


RESTATED = """
def launched():
    return int(os.environ["RANK"]), os.environ["MASTER_ADDR"]

def tell(number, address):
    os.environ["RANK"] = str(number)
    os.environ["MASTER_ADDR"] = {address}

number, address = launched()
if {other}:
    tell(number, address)
"""


@pytest.mark.parametrize(
    ("address", "other", "codes"),
    [
        ("address", "torch.__version__ == 'another framework'", set()),
        ('"10.0.0.1"', "True", {"DDP701"}),
    ],
)
def test_what_is_told_again_overrides_nothing(
    address: str, other: str, codes: set[str], lint_text: Lint
) -> None:
    text = RESTATED.format(address=address, other=other)
    if other == "True":
        text = text.replace("if True:\n    tell", "tell")
    assert {one.code for one in findings(lint_text, text)} == codes


@pytest.mark.parametrize(
    ("line", "command", "found"),
    [
        ('os.environ["MASTER_ADDR"] = "localhost"', "torchrun --nproc_per_node=8 {}", False),
        ('os.environ["MASTER_ADDR"] = "127.0.0.1"', "torchrun --standalone {}", False),
        ('os.environ["MASTER_ADDR"] = "localhost"', "torchrun --nnodes=2 {}", True),
        ('os.environ["MASTER_ADDR"] = "localhost"', "echo {}", True),
        ('os.environ["MASTER_ADDR"] = "node-0"', "torchrun --nproc_per_node=8 {}", True),
        ('os.environ["MASTER_PORT"] = "29500"', "torchrun --nproc_per_node=8 {}", True),
        ('os.environ["RANK"] = "0"', "torchrun --nproc_per_node=8 {}", True),
    ],
)
def test_one_machine_has_one_address(
    line: str, command: str, found: bool, lint_text: Lint, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "run.sh").write_text(command.format("train.py") + "\n")
    text = SETUPS["distributed"] + line + "\n"
    assert bool(lint_text(text, select=("DDP701",))) is found
    assert lint_text(text, select=("DDP701",), strict=True)


METHOD = """
import argparse
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP

parser = argparse.ArgumentParser()
parser.add_argument("--dist-url", default="tcp://localhost:4444")
parser.add_argument("--rank", type=int, default=0)
parser.add_argument("--nodes", type=int, default=1)

def worker(gpu, gpus, args):
    args.rank = args.rank * gpus + gpu
    dist.init_process_group(
        "nccl", init_method={method}, world_size=gpus * args.nodes, rank=args.rank
    )
    model = DDP(torch.nn.Linear(2, 2).cuda(gpu), device_ids=[gpu])
    if args.rank % gpus == 0:
        torch.save(model.module.state_dict(), "net.pt")

if __name__ == "__main__":
    {address}
    gpus = torch.cuda.device_count()
    mp.spawn(worker, nprocs=gpus, args=(gpus, parser.parse_args()))
"""
HERE = 'import os; os.environ["MASTER_ADDR"] = "127.0.0.1"'


@pytest.mark.parametrize(
    ("method", "address", "command", "found"),
    [
        ("args.dist_url", "pass", "python train.py --dist-url tcp://localhost:1", False),
        ('f"{args.dist_url}"', "pass", "python train.py --dist-url tcp://127.0.0.1:1", False),
        ("args.dist_url", "pass", "python train.py --dist-url tcp://$HEAD:1", True),
        ("args.dist_url", "pass", "python train.py", True),
        ('"env://"', HERE, "python train.py", False),
        ('"env://"', "pass", "python train.py", True),
    ],
)
def test_where_ranks_meet_says_how_many_nodes_there_are(
    method: str, address: str, command: str, found: bool, lint_text: Lint, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "run.sh").write_text(command + "\n")
    codes = {one.code for one in lint_text(METHOD.format(method=method, address=address))}
    assert ("DDP502" in codes) is found


NAMED = """
import datetime
import os
import time
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

{above}

def worker(rank, folder):
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:1", rank=rank, world_size=2)
    os.makedirs({path}, exist_ok=True)
    torch.save(1, os.path.join({path}, "net.pt"))

if __name__ == "__main__":
    now = time.strftime("%H%M%S")
    mp.spawn(worker, nprocs=2, args=("runs/" + now,))
"""


@pytest.mark.parametrize(
    ("above", "path", "code"),
    [
        ("", "folder", "DDP501"),
        ("", "f\"runs/{time.strftime('%H%M%S')}\"", "DDP507"),
        ('stamp = time.strftime("%H%M%S")', "stamp", "DDP507"),
    ],
)
def test_what_ranks_are_given_is_the_same_for_all(
    above: str, path: str, code: str, lint_text: Lint
) -> None:
    found = {one.code for one in lint_text(NAMED.format(above=above, path=path))}
    assert found & {"DDP501", "DDP507"} == {code}


BEGUN = """
at = {begun} * len(dataset)
for epoch in range(epochs):
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * 0.9 ** (at / 1000)
        at += 1
"""


@pytest.mark.parametrize(("begun", "found"), [("0", False), ("int(sys.argv[1])", True)])
def test_no_length_is_where_a_count_begins_at_0(begun: str, found: bool, lint_text: Lint) -> None:
    text = "import sys\n" + SETUPS["distributed"] + BEGUN.format(begun=begun)
    assert bool(lint_text(text, select=("DDP418",))) is found
