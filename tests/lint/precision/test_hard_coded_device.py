"""Right code, in forms that were once reported: devices that are the rank's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.lint.diagnostics import Confidence
from tests.lint.conftest import Lint
from tests.lint.precision.snippets import RENDEZVOUS, STARTS, findings
from tests.lint.setups import SETUPS

RIGHT = {
    "layers that are spread over GPUs": """
class Halves(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 10).to("cuda:0")
        self.l2 = nn.Linear(10, 2).to("cuda:1")

    def forward(self, x):
        return self.l2(self.l1(x).to("cuda:1"))

halves = Halves()
""",
    "the rank on its node, through functions of its own": """
number = 0

def choose():
    global number
    count = rank
    number = count % torch.cuda.device_count()

def get_number():
    return number

choose()
other = DDP(Net().to(device), device_ids=[get_number()])
""",
    "a model that is on the CPU already": """
other = DDP(Net())
other.to("cpu")
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(other(x), y).backward()
""",
    "a loss without weights on the GPU": """
def train(gpu):
    loss_function = nn.CrossEntropyLoss().cuda()
    for x, y in loader:
        loss_function(model(x), y).backward()
        optimizer.step()

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    train(local_rank)
""",
    "GPUs that an option names": """
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="0,1")
os.environ["CUDA_VISIBLE_DEVICES"] = parser.parse_args().device
""",
    "a GPU for each process of MPI": """
from mpi4py import MPI

os.environ["CUDA_VISIBLE_DEVICES"] = f"{MPI.COMM_WORLD.Get_rank() % 8}"
""",
    "each rank sees its own GPU alone": """
os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["SLURM_LOCALID"]
mine = torch.device("cuda:0")
torch.cuda.set_device(mine)
""",
    "a question about a GPU": """
print(torch.cuda.memory_allocated(torch.device("cuda:0")))
""",
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_clean(name: str, lint_text: Lint) -> None:
    assert findings(lint_text, RIGHT[name]) == []


def test_sharding_chooses_the_device(lint_text: Lint) -> None:
    """Where nobody has chosen one, the mesh takes the rank's own."""
    text = (
        SETUPS["distributed"].split("local_rank =")[0]
        + """
from torch.distributed.fsdp import fully_shard
local_rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group()
net = Net()
fully_shard(net)
net.to_empty(device=torch.device("cuda"))
probe = torch.zeros(1).to("cuda")
"""
    )
    assert lint_text(text, select=("DDP201",)) == []
    assert lint_text(text.replace("fully_shard(net)", ""), select=("DDP201",)) != []


def test_a_device_of_the_rank_that_is_0_without_a_group(lint_text: Lint) -> None:
    """The number of the GPU is a parameter, which another path sets to a constant."""
    text = SETUPS["distributed"].split("local_rank =")[0] + RENDEZVOUS
    text = text.replace("{guard}", "if number == 0:").replace("{start}", STARTS["processes"])
    text = text.replace("    main()", "    worker(0, 1) if epochs == 1 else main()")
    assert lint_text(text, select=("DDP201",)) == []


def test_a_run_of_one_process_that_starts_no_group(lint_text: Lint) -> None:
    text = """
def start():
    if not torch.cuda.is_available():
        return
    elif "RANK" not in os.environ:
        print(torch.empty(1).cuda())
        return
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")


start()
"""
    text = SETUPS["distributed"].split("local_rank =")[0] + text
    assert lint_text(text, select=("DDP202",)) == []
    always = text.replace('"RANK" not in os.environ', "epochs == 10")
    assert lint_text(always, select=("DDP202",)) != []


@pytest.mark.parametrize(
    ("variable", "found"), [("RANK", True), ("SLURM_PROCID", False), ("LOCAL_RANK", True)]
)
def test_a_cluster_gives_processes_gpus_of_their_own(
    variable: str, found: bool, lint_text: Lint
) -> None:
    text = (
        SETUPS["distributed"]
        .replace('int(os.environ["LOCAL_RANK"])', f'int(os.environ["{variable}"])')
        .replace("torch.cuda.set_device(local_rank)\n", "")
        .replace('torch.device("cuda", local_rank)', 'torch.device("cuda:0")')
        .replace("local_rank", "number")
    )
    assert [one.code for one in lint_text(text, select=("DDP201",))] == ["DDP201"] * found


def test_a_sampler_alone_starts_no_second_process(lint_text: Lint) -> None:
    text = """
import torch
from torch.utils.data import DataLoader, DistributedSampler
from elsewhere import dataset, evaluate

device = torch.device("cuda:0")
evaluate(DataLoader(dataset, sampler=DistributedSampler(dataset, 1 + 0, rank=0)), device)
"""
    assert not lint_text(text, select=("DDP201",))


HANDED_ON = """
def validate(model, device):
    for x, y in loader:
        model(x.to(device))

{made}
validate(model, place)
"""


@pytest.mark.parametrize(
    ("made", "count"),
    [
        ("place = torch.device('cuda', rank)", 1),
        ("place = torch.device('cuda', rank) if torch.cuda.is_available() else 'cpu'", 1),
        ("place = rank", 1),
        ("place = torch.device('cuda', local_rank)", 0),
    ],
)
def test_a_device_of_the_global_rank_is_told_where_it_is_made(
    made: str, count: int, lint_text: Lint
) -> None:
    text = SETUPS["distributed"] + HANDED_ON.replace("{made}", made)
    assert len(lint_text(text, select=("DDP203",))) == count


@pytest.mark.parametrize(
    ("settings", "chosen", "found"),
    [
        ("device: cuda", "", True),
        ("device: 'cuda:0'", "torch.cuda.set_device(local_rank)", True),
        ("device: cuda", "torch.cuda.set_device(local_rank)", False),
        ("device: cpu", "", False),
        ("seed: 3", "", False),
        ("device: cuda\nother:\n  device: cpu", "", False),
    ],
)
def test_a_device_that_a_configuration_names_for_all_ranks(
    settings: str, chosen: str, found: bool, lint_text: Lint, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text(settings + "\n")
    text = (
        SETUPS["distributed"].partition("torch.cuda.set_device")[0]
        + f"""
import yaml
cfg = yaml.safe_load(open("config.yaml"))
{chosen}
dist.init_process_group("nccl")
device = torch.device(cfg["device"])
model = DDP(Net().to(device))
for x, y in DataLoader(dataset, sampler=DistributedSampler(dataset)):
    criterion(model(x.to(device)), y.to(device)).backward()
"""
    )
    told = lint_text(text, select=("DDP201",))
    assert bool(told) is found
    assert all(one.confidence is Confidence.LIKELY for one in told)


BY_MODE = """
def masked(tensor):
    return tensor * torch.empty(4, device={place}).uniform_(0, 1)

def check(net, device):
    for x, y in DataLoader(dataset, 8):
        net.to(device)(masked(x.to(device)))

parser = argparse.ArgumentParser()
parser.add_argument("--mode", default="train")
parser.add_argument("--device", default="cuda:0")
args = parser.parse_args()
if args.mode == "test":
    check(Net(), args.device)
for x, y in loader:
    criterion(model(masked(x.to(device))), y.to(device)).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("place", "found"), [("tensor.device", False), ("args.device", True)])
def test_where_a_batch_is_was_chosen_elsewhere(place: str, found: bool, lint_text: Lint) -> None:
    text = SETUPS["distributed"] + BY_MODE.replace("{place}", place)
    lines = text.splitlines()
    places = [lines[one.span.line - 1] for one in lint_text(text, select=("DDP201",))]
    assert any("torch.empty" in one for one in places) is found


NUMBERED = """
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

gpus = [0, 1]
{number}
dist.init_process_group("nccl")
device = torch.device(f"cuda:{gpu}")
model = DDP(nn.Linear(10, 2).to(device), device_ids=[{gpu}])
model(torch.zeros(4, 10).to(device)).sum().backward()
"""


@pytest.mark.parametrize("gpu", ["at", "gpus[at]"])
@pytest.mark.parametrize(
    ("number", "found"),
    [
        ("at = 0", True),
        ("at = int(os.environ['LOCAL_RANK'])", False),
        ("at = 0\nif 'LOCAL_RANK' in os.environ:\n    at = int(os.environ['LOCAL_RANK'])", False),
    ],
)
def test_a_number_that_a_name_has(gpu: str, number: str, found: bool, lint_text: Lint) -> None:
    text = NUMBERED.replace("{gpu}", gpu).replace("{number}", number)
    text = text.replace(f"cuda:{gpu}", f"cuda:{{{gpu}}}")
    messages = [one.message for one in lint_text(text, select=("DDP201",))]
    assert bool(messages) is found
    assert all("the same GPU for every rank" in one for one in messages)


IN_BRANCHES = """
import argparse
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

def start():
    if "WORLD_SIZE" in os.environ and int(os.environ["WORLD_SIZE"]) > 1:
        dist.init_process_group("nccl")
        local = int(os.environ["LOCAL_RANK"])
        if torch.cuda.is_available():
            torch.cuda.set_device({chosen})
        return local
    return 0

def choose(name, local):
    if name != "auto":
        return torch.device(name)
    return torch.device("cuda", {numbered})

def main(name):
    local = start()
    device = choose(name, local)
    ids = [{wrapped}] if device.type == "cuda" else None
    model = DDP(nn.Linear(10, 2).to(device), device_ids=ids)
    model(torch.zeros(4, 10).to(device)).sum().backward()

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="auto")
main(parser.parse_args().device)
"""


@pytest.mark.parametrize("wrong", ["", "chosen", "numbered", "wrapped"])
def test_a_condition_is_no_excuse_where_the_group_starts(wrong: str, lint_text: Lint) -> None:
    """Nor is one that has nothing to do with the launch, or asks for a GPU."""
    text = IN_BRANCHES
    for name in ("chosen", "numbered", "wrapped"):
        text = text.replace(f"{{{name}}}", "0" if name == wrong else "local")
    assert len(lint_text(text, select=("DDP201",))) == bool(wrong)


LISTS = """
if dist.is_initialized():
    ids = [local_rank]
else:
    ids = [0]
"""


@pytest.mark.parametrize(
    ("before", "ids", "found"),
    [
        ("", "device_ids=(0,)", True),
        ("", "[0]", True),
        ("", "device_ids=[0] if torch.cuda.is_available() else None", True),
        ("ids = [0]", "device_ids=ids", True),
        ("ids = [local_rank]", "device_ids=ids", False),
        ("", "[local_rank]", False),
        (LISTS, "device_ids=ids", False),
    ],
)
def test_lists_of_the_wrapper(before: str, ids: str, found: bool, lint_text: Lint) -> None:
    text = f"{SETUPS['distributed']}{before}\nother = DDP(Net().to(device), {ids})\n"
    assert bool(lint_text(text, select=("DDP201",))) is found
