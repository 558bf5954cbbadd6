"""What is known by half: a finding rests on nothing that may be otherwise, unless strict."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

HEAD = "import tqdm\n" + SETUPS["distributed"]


@dataclass(frozen=True)
class Case:
    """Code that is silent, the change after which the rule speaks, and whether strict does."""

    code: str
    text: str
    old: str
    new: str
    strict: bool = True


LOADED_BY_NAME = """if os.path.exists(name):
    net.load_state_dict(torch.load(name))
"""
NAMED_BY_RANK = """if rank == 0:
    name = "new.pt"
"""
CASES = {
    "a name that some ranks set, before it is asked about": Case(
        "DDP205",
        'name = "old.pt"\n' + NAMED_BY_RANK + LOADED_BY_NAME,
        NAMED_BY_RANK + LOADED_BY_NAME,
        LOADED_BY_NAME + NAMED_BY_RANK,
        strict=False,
    ),
    "a file that is named by a function which other ranks call, too": Case(
        "DDP205",
        """
def named(step):
    return "step%d.pt" % step

name = named(1)
if os.path.exists(name):
    net.load_state_dict(torch.load(name))
if rank == 0:
    torch.save(net.state_dict(), named(2))
else:
    print(named(3))
""",
        "else:\n    print(named(3))\n",
        "",
        strict=False,
    ),
    "what some ranks leave out, and what they only show": Case(
        "DDP501",
        """
scores = [2.0, 3.0]
if rank == 0:
    scores = list(scores[1:])
if sum(scores) > 3:
    torch.save(net.state_dict(), "best.pt")
""",
        "list(scores[1:])",
        "tqdm.tqdm(scores)",
        strict=False,
    ),
    "names of two comprehensions": Case(
        "DDP402",
        """
start = [int(x) for x in open("steps.txt")][0]
for step, (x, y) in enumerate(loader):
    lengths = torch.tensor([x[0] for x in y])
    loss = criterion(model(x), lengths)
    if start > step:
        break
    loss.backward()
""",
        "if start > step",
        "if loss.item() > 3",
        strict=False,
    ),
    "a number that is also set by what is no part of the data": Case(
        "DDP402",
        """
import elsewhere
for x, y in loader:
    loss = criterion(model(x), y)
    worst = loss.item()
    if elsewhere.agreed:
        worst = elsewhere.worst()
    if worst > 3:
        break
    loss.backward()
""",
        "elsewhere.worst()",
        "3 * loss.item()",
        strict=True,
    ),
    "a total that is also set by what is no part of the data": Case(
        "DDP405",
        """
import elsewhere
total = 0.0
for x, y in loader:
    total += criterion(model(x), y).item()
shown = total
if elsewhere.knows_better:
    shown = elsewhere.best()
if rank == 0:
    print(shown)
""",
        "elsewhere.best()",
        "0.5 * total",
    ),
    "a loader that is told the epoch, in a function for two": Case(
        "DDP102",
        """
held_out = DataLoader(dataset, 32, sampler=DistributedSampler(dataset))

def run(batches, training):
    for x, y in batches:
        loss = criterion(model(x), y)
        if training:
            loss.backward()
            optimizer.step()

for epoch in range(epochs):
    loader.sampler.set_epoch(epoch)
    run(loader, True)
    run(held_out, False)
""",
        "    loader.sampler.set_epoch(epoch)\n",
        "",
    ),
    "a wrapped model of which no optimizer gets anything": Case(
        "DDP303",
        """
judge = DDP(Net().to(device), device_ids=[local_rank])
for x, y in loader:
    criterion(judge.module(model(x)), y).backward()
    optimizer.step()
""",
        "for x, y",
        "optimizer = torch.optim.SGD(judge.parameters(), lr=0.1)\nfor x, y",
    ),
    "one loader of several that is known": Case(
        "DDP101",
        """
import elsewhere
KIND = os.environ.get("KIND")
if KIND == "own":
    batches = DataLoader(dataset, 32, shuffle=True)
else:
    batches = elsewhere.loader()[0].unsplit
for x, y in batches:
    criterion(model(x), y).backward()
    optimizer.step()
""",
        "else:\n    batches = elsewhere.loader()[0].unsplit\n",
        "",
    ),
    "a call that names an argument which the function does not have": Case(
        "DDP101",
        """
def batches(size):
    return DataLoader(dataset, size, shuffle=True)

if os.environ.get("PLAIN"):
    mine = batches(size=32)
else:
    mine = batches(size=32, part="own")
for x, y in mine:
    criterion(model(x), y).backward()
    optimizer.step()
""",
        ', part="own"',
        "",
    ),
    "a loop that trains a model which is not wrapped": Case(
        "DDP101",
        """
judge = Net().to(device)
for x, y in DataLoader(dataset, 32, shuffle=True):
    criterion(judge(x), y).backward()
    optimizer.step()
""",
        "criterion(judge(x), y)",
        "criterion(model(x), y)",
    ),
    "a file that may have been saved from main memory": Case(
        "DDP205",
        """
if rank == 0:
    torch.save({k: v.cpu() for k, v in net.state_dict().items()}, "net.pt")
    torch.save(optimizer.state_dict(), "optimizer.pt")
net.load_state_dict(torch.load(os.environ["START"]))
for x, y in loader:
    criterion(model(x), y).backward()
""",
        ".cpu()",
        "",
        strict=False,
    ),
    "a number of ranks that is set to one": Case(
        "DDP205",
        """
world_size = 1
net.load_state_dict(torch.load(path))
for x, y in loader:
    criterion(model(x), y).backward()
""",
        "world_size = 1",
        "ranks = 1",
        strict=False,
    ),
    "a sum, of which the optimizer loses the factor": Case(
        "DDP408",
        """
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    F.cross_entropy(model(x), y, reduction="sum").backward()
    optimizer.step()
""",
        "torch.optim.Adam(",
        "torch.optim.SGD(",
    ),
    "a device of which nothing is made": Case(
        "DDP201",
        """
spare = torch.device("cuda:0")
for x, y in loader:
    criterion(model(x), y).backward()
""",
        "criterion(model(x), y)",
        "criterion(model(x), y.to(spare))",
    ),
    "a device whose name is also set to the rank's": Case(
        "DDP201",
        """
spare = torch.device("cuda:0")
if epochs > 3:
    spare = torch.device(f"cuda:{local_rank}")
for x, y in loader:
    criterion(model(x), y.to(spare)).backward()
""",
        "cuda:{local_rank}",
        "cuda:0",
    ),
    "an optimizer that is not seen": Case(
        "DDP408",
        """
import elsewhere
optimizer = elsewhere.optimizer(model.parameters())
for x, y in loader:
    F.cross_entropy(model(x), y, reduction="sum").backward()
    optimizer.step()
""",
        "elsewhere.optimizer(model.parameters())",
        "torch.optim.SGD(model.parameters(), lr=0.1)",
    ),
    "a function for two loaders, of which this call passes the whole one": Case(
        "DDP405",
        """
whole = DataLoader(dataset, 32)

def score(batches):
    total = 0.0
    for x, y in batches:
        total += criterion(model(x), y).item()
    return total / len(batches)

before = score(loader)
if rank == 0:
    print(score(whole))
""",
        "print(score(whole))",
        "print(score(loader))",
        strict=False,
    ),
    "a total that a function reduces in a block": Case(
        "DDP405",
        """
def summed(x):
    with torch.no_grad():
        result = x.clone()
        dist.all_reduce(result)
    return result / world_size

total = 0.0
for x, y in loader:
    total += summed(criterion(model(x), y)).item()
if rank == 0:
    print(total)
""",
        "        dist.all_reduce(result)\n",
        "",
        strict=False,
    ),
    "each step's own number, out of a list of them": Case(
        "DDP405",
        """
losses = []
for x, y in loader:
    losses.append(criterion(model(x), y).item())
if rank == 0:
    for number in losses:
        print(f"{number:.3f}")
""",
        "{number:.3f}",
        "{sum(losses)}",
        strict=False,
    ),
    "a text made of a number of all the data": Case(
        "DDP405",
        """
class Meter:
    def __init__(self):
        self.sum = 0.0

    def update(self, x):
        self.sum += x

def as_text(score):
    return f"score {score}"

def evaluate(batches):
    meter = Meter()
    for x, y in batches:
        meter.update(criterion(model(x), y).item())
    return meter.sum

meter = Meter()
for x, y in loader:
    meter.update(criterion(model(x), y).item())
score = meter.sum
if rank == 0:
    score = evaluate(DataLoader(dataset, 32))
    print(as_text(score))
""",
        "    score = evaluate(DataLoader(dataset, 32))\n",
        "",
        strict=False,
    ),
    "parameters that are switched on, and never off": Case(
        "DDP306",
        """
for p in model.parameters():
    p.requires_grad = True
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
""",
        "for x, y",
        "for p in Net().parameters():\n    p.requires_grad = False\nfor x, y",
    ),
    "a sampler where an option that is no word about the launch asks for it": Case(
        "DDP405",
        """
TRAINS = argparse.ArgumentParser().parse_args().trains
parts = DataLoader(dataset, 32, sampler=DistributedSampler(dataset) if TRAINS else None)
total = 0.0
for x, y in parts:
    total += criterion(model(x), y).item()
if rank == 0:
    print(total)
""",
        "if TRAINS else",
        "if dist.is_initialized() else",
    ),
    "a data set and a sampler of each epoch, out of a function": Case(
        "DDP102",
        """
def batches():
    rows = TensorDataset(torch.rand(10, 10), torch.zeros(10).long())
    return DataLoader(rows, 2, sampler=DistributedSampler(rows))

for epoch in range(epochs):
    for x, y in batches():
        criterion(model(x), y).backward()
        optimizer.step()
""",
        "for epoch in range(epochs):\n    for x, y in batches():",
        "parts = batches()\nfor epoch in range(epochs):\n    for x, y in parts:",
        strict=False,
    ),
    "a sampler in a branch that no call takes": Case(
        "DDP102",
        """
def batches(split=False):
    if split:
        return DataLoader(dataset, 32, sampler=DistributedSampler(dataset))
    return DataLoader(dataset, 32)

mine = batches()
for epoch in range(epochs):
    for x, y in mine:
        criterion(model(x), y).backward()
        optimizer.step()
""",
        "mine = batches()",
        "mine = batches(True)",
    ),
    "a total of a part that is scaled to all": Case(
        "DDP111",
        """
total = 0.0
for x, y in loader:
    total += F.cross_entropy(model(x), y, reduction="sum").item()
print(total / len(dataset) * world_size)
""",
        " * world_size",
        "",
        strict=False,
    ),
    "a file that all ranks open, and one writes into": Case(
        "DDP501",
        """
log = open("log.txt", "a")
for x, y in loader:
    criterion(model(x), y).backward()
    if rank == 0:
        log.write("a step")
""",
        "    if rank == 0:\n        log.write",
        "    log.write",
    ),
    "a group that is told one rank by a number": Case(
        "DDP205",
        """
net.load_state_dict(torch.load(path))
for x, y in loader:
    criterion(model(x), y).backward()
dist.destroy_process_group()
dist.init_process_group("nccl", rank=0, world_size=world_size)
""",
        "rank=0",
        "rank=rank",
        strict=False,
    ),
    "a step's number by a name": Case(
        "DDP402",
        """
rounds = enumerate(loader)
if rank == 0:
    rounds = tqdm.tqdm(rounds)
for step, (x, y) in rounds:
    loss = criterion(model(x), y)
    if step == 3:
        break
    loss.backward()
""",
        "step == 3",
        "loss.item() > 3",
        strict=False,
    ),
    "a file that is made empty": Case(
        "DDP501",
        """
with open("log.txt", "w"):
    pass
for x, y in loader:
    criterion(model(x), y).backward()
""",
        "    pass",
        "    print(epochs)",
        strict=False,
    ),
    "a schedule that an option asks for, whatever its default": Case(
        "DDP406",
        """
parser = argparse.ArgumentParser()
parser.add_argument("--plateau", default=True)
args = parser.parse_args()
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
total = 0.0
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    total += loss.item()
if args.plateau:
    plateau.step(total)
""",
        "if args.plateau:",
        "if epochs:",
    ),
    "a load of one process, whose model goes where wrapped ones go, too": Case(
        "DDP205",
        """
def train(any_model):
    any_model.train()
    for x, y in loader:
        criterion(any_model(x), y).backward()

args = argparse.ArgumentParser().parse_args()
if args.dist == "OFF":
    net.load_state_dict(torch.load(path))
    train(net)
if args.dist == "ON":
    train(DDP(net))
""",
        'args.dist == "OFF"',
        'args.resume == "ON"',
        strict=False,
    ),
    "a load where the launch has given no rank": Case(
        "DDP205",
        """
args = argparse.ArgumentParser().parse_args()
args.gpu = None
if "LOCAL_RANK" in os.environ:
    args.gpu = int(os.environ["LOCAL_RANK"])
if args.gpu is None:
    net.load_state_dict(torch.load(path))
for x, y in loader:
    criterion(model(x), y).backward()
""",
        "if args.gpu is None:",
        "if args.gpu is not None:",
        strict=False,
    ),
    "a wrapper in a script that only evaluates": Case(
        "DDP312",
        """
normed = DDP(nn.Sequential(nn.Linear(10, 10), nn.BatchNorm1d(10)).to(device)).eval()
for x, y in DataLoader(dataset, 8, sampler=sampler):
    print(criterion(normed(x), y))
""",
        "print(criterion(normed(x), y))",
        "criterion(normed(x), y).backward()",
        strict=True,
    ),
    "batches of one, which are the items of the data set": Case(
        "DDP312",
        """
normed = DDP(nn.Sequential(nn.Linear(10, 10), nn.BatchNorm1d(10)).to(device))
for x, y in DataLoader(dataset, 1, sampler=sampler):
    criterion(normed(x[0]), y[0]).backward()
""",
        "DataLoader(dataset, 1,",
        "DataLoader(dataset, 2,",
        strict=False,
    ),
}


def _given(one: Case) -> str:
    head = HEAD
    if one.code == "DDP205":  # what asks for the number of ranks
        head = head.replace("rank, world_size = dist.get_rank(), dist.get_world_size()",
                            "rank = dist.get_rank()")  # fmt: skip
    if one.text.endswith("world_size=world_size)\n"):
        head = head.replace('dist.init_process_group("nccl")\n', "")
        head = head.replace("rank = dist.get_rank()", 'rank = int(os.environ["RANK"])')
    if one.code == "DDP408":
        head = head.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n", "")
    if one.code == "DDP312":
        head = head.replace("loader = DataLoader(dataset, 32, sampler=sampler)\n", "")
    return head + one.text


@pytest.mark.parametrize("one", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_what_may_be_otherwise(one: Case, lint_text: Lint) -> None:
    text = _given(one)
    assert not lint_text(text, select=(one.code,))
    changed = lint_text(text.replace(one.old, one.new), select=(one.code,))
    assert {found.code for found in changed} == {one.code}
    assert not one.strict or lint_text(text, select=(one.code,), strict=True)
