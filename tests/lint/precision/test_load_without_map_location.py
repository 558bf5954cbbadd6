"""Right code, in forms that were once reported: loads of what lies where it should."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.precision.snippets import findings
from tests.lint.setups import SETUPS

RIGHT = {
    "a load for the case without a GPU, and two others": """
gpu = argparse.ArgumentParser().parse_args().gpu
if gpu is None:
    state = torch.load(path)
elif torch.cuda.is_available():
    state = torch.load(path, map_location=f"cuda:{gpu}")
net.load_state_dict(state)
""",
    "a load of the same file for one process": """
parallel = argparse.ArgumentParser().parse_args().parallel
if parallel:
    state = torch.load(path, map_location=f"cuda:{local_rank}")
else:
    state = torch.load(path)
net.load_state_dict(state)
""",
    "a load of what was saved in main memory": """
if rank == 0:
    torch.save({name: one.cpu() for name, one in net.state_dict().items()}, path)
dist.barrier()
net.load_state_dict(torch.load(path))
""",
    "the state of a schedule, which has no tensors": """
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
schedule.load_state_dict(torch.load("schedule.pt"))
""",
    "a load of the rank's own file": """
own = f"model-{rank}.pt"
torch.save(net.state_dict(), own)
net.load_state_dict(torch.load(own))
""",
    "a load by mapping of the file": """
net.load_state_dict(torch.load(path, mmap=True))
""",
    "a load for the case without a GPU of one's own": """
def resume(gpu):
    if gpu is None:
        state = torch.load(path)
    else:
        state = torch.load(path, map_location=f"cuda:{gpu}")
    net.load_state_dict(state)

resume(local_rank)
""",
    "a cache of data": """
def load_data(cached):
    data, _ = torch.load(cached)
    return data

source = DataLoader(load_data("cache.pt"), 32, sampler=DistributedSampler(dataset))
""",
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_clean(name: str, lint_text: Lint) -> None:
    assert findings(lint_text, RIGHT[name]) == []


TOOL = """
def prepare(net, place):
    if place != -1:
        dist.init_process_group("nccl")
        net = DDP(net.to(place), device_ids=[place])
    return net

net = Net()
net.load_state_dict(torch.load(path))
net = prepare(net, int(os.environ.get("LOCAL_RANK", -1)))
rows = [net(x).tolist() for x, y in DataLoader(dataset, 32)]
with open("rows.json", "w") as file:
    json.dump(rows, file)
"""


def test_a_tool_that_can_join_a_group(lint_text: Lint) -> None:
    """Nothing in it is shared out among ranks."""
    text = SETUPS["distributed"].split("local_rank =")[0] + TOOL
    assert lint_text(text, select=("DDP205", "DDP501")) == []
    text = text.replace("32)]", "32, sampler=DistributedSampler(dataset))]")
    found = {one.code for one in lint_text(text, select=("DDP205", "DDP501"))}
    assert found == {"DDP205", "DDP501"}


def test_a_sampler_of_one_part_joins_no_group(lint_text: Lint) -> None:
    text = SETUPS["distributed"].split("local_rank =")[0]
    text += """
only = DistributedSampler(dataset, num_replicas=1, rank=0)
model = Net()
model.load_state_dict(torch.load(path))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(dataset, 32, sampler=only):
    criterion(model(x), y).backward()
    optimizer.step()
torch.save(model.state_dict(), path)
"""
    assert [one for one in lint_text(text, select=("DDP205", "DDP501")) if not one.single] == []
    several = text.replace(", num_replicas=1, rank=0", "")
    assert [one for one in lint_text(several, select=("DDP501",)) if not one.single] != []


def test_a_file_whose_name_tells_what_another_one_says(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + """
last = torch.load("last.pt")
epoch = last["epoch"]
state = torch.load(f"model-{epoch}.pt", map_location="cpu")
net.load_state_dict(state)
"""
    )
    assert not lint_text(text, select=("DDP205",))
    text += "net.load_state_dict(last['model'])\n"
    assert [one.code for one in lint_text(text, select=("DDP205",))] == ["DDP205"]


@pytest.mark.parametrize(("off", "found"), [("options.several = False\n", False), ("", True)])
def test_a_script_that_has_switched_it_off(off: str, found: bool, lint_text: Lint) -> None:
    text = f"""
import argparse
import torch
import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler
from torch.nn.parallel import DistributedDataParallel as DDP
from elsewhere import Net, dataset, criterion

options = argparse.ArgumentParser().parse_args()
{off}net = Net()
if options.several:
    dist.init_process_group("nccl")
    loader = torch.utils.data.DataLoader(dataset, 8, sampler=DistributedSampler(dataset))
    model = DDP(net)
net.load_state_dict(torch.load("net.pt"))
for x, y in loader:
    criterion(model(x), y).backward()
"""
    assert [one.code for one in lint_text(text, select=("DDP205",))] == ["DDP205"] * found


def test_an_option_that_starts_the_ranks_may_be_given(lint_text: Lint) -> None:
    """Its default says nothing about them; what is set for good does."""
    head = SETUPS["distributed"].split("local_rank =")[0]
    text = (
        head
        + """
parser = argparse.ArgumentParser()
parser.add_argument("--dist", default=False)
args = parser.parse_args()
local_rank = int(os.environ.get("LOCAL_RANK", 0))
net = Net().cuda()
if args.dist:
    dist.init_process_group("nccl")
    net = DDP(net, device_ids=[local_rank])
net.load_state_dict(torch.load(path))
for x, y in DataLoader(dataset):
    criterion(net(x), y).backward()
"""
    )
    assert [one.code for one in lint_text(text, select=("DDP205",))] == ["DDP205"]
    switched = text.replace(
        "args = parser.parse_args()", "args = parser.parse_args()\nargs.dist = False"
    )
    assert not lint_text(switched, select=("DDP205",))


@pytest.mark.parametrize(("again", "found"), [("again = 'last.pt'", True), ("pass", False)])
def test_another_file_of_the_same_name_in_the_other_branch(
    again: str, found: bool, lint_text: Lint
) -> None:
    text = (
        SETUPS["distributed"]
        + f"""
def resume(again):
    if os.path.exists(again):
        state = torch.load(again)
    else:
        {again}
        state = torch.load(again, map_location="cpu")
    net.load_state_dict(state["model"])

resume(path)
for x, y in loader:
    criterion(model(x), y).backward()
"""
    )
    assert bool(lint_text(text, select=("DDP205",))) is found
