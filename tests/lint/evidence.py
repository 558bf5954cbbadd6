"""Scripts for ``test_evidence``: ``RIGHT`` must not be reported by the rule, ``WRONG`` must."""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """A script behind the lines of a set-up, and the rule that it is about."""

    code: str
    text: str
    setup: str = "distributed"


TRAIN = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
"""
RIGHT = {
    "a removed name under a number made of the version": Case(
        "DDP907",
        """
import torch
major = int(torch.__version__.split(".")[0])
if major < 2:
    from torch._six import inf
""",
        "bare",
    ),
    "a removed name under a function that gives the version": Case(
        "DDP907",
        """
import torch
def installed():
    return tuple(int(x) for x in torch.__version__.split(".")[:2])
if installed() < (1, 9):
    import torch._six
""",
        "bare",
    ),
    "a removed name under a question for it": Case(
        "DDP907",
        """
import torch
if hasattr(torch, "_six"):
    import torch._six
""",
        "bare",
    ),
    "an option that the parser may leave to others": Case(
        "DDP703",
        """
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)
args, unknown = parser.parse_known_args()
print(args.local_rank)
""",
    ),
    "a number that is zipped with the batches": Case(
        "DDP402",
        """
from itertools import cycle
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for (x, y), i in zip(loader, cycle(range(4))):
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        if i > 2:
            break
""",
    ),
    "a number zipped with the batches under a name": Case(
        "DDP402",
        """
from itertools import cycle
import itertools
pairs = zip(loader, cycle(range(4)))
for batch, i in pairs:
    loss = criterion(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    if i > 2:
        break
""",
    ),
    "a rank in the group of a node": Case(
        "DDP203",
        """
local = dist.new_group(list(range(8)))
torch.cuda.set_device(dist.get_rank(group=local))
""",
    ),
    "a rank in the group of a node, from a function": Case(
        "DDP203",
        """
_LOCAL = None
def make():
    global _LOCAL
    _LOCAL, _ = dist.new_subgroups()
def get_local_rank():
    return dist.get_rank(group=_LOCAL)
make()
torch.cuda.set_device(get_local_rank())
""",
    ),
    "yaml.dump that gives the text back": Case(
        "DDP501",
        """
import yaml
print(yaml.dump({"a": 1}))
text = yaml.dump({"a": 1}, default_flow_style=False)
print(yaml.safe_dump({"a": 1}))
"""
        + TRAIN,
    ),
}
WRONG = {
    "a removed name under another condition": Case(
        "DDP907",
        """
import torch
if input():
    from torch._six import inf
""",
        "bare",
    ),
    "an option of a parser beside one that leaves options to others": Case(
        "DDP703",
        """
parser, other = argparse.ArgumentParser(), argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)
other.parse_known_args()
args = parser.parse_args()
print(args.local_rank)
""",
    ),
    "a path with a number of a loaded checkpoint": Case(
        "DDP501",
        """
state = torch.load("old.pt", map_location=device)
start = state["epoch"]
for epoch in range(start, epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    torch.save(net.state_dict(), f"model-{epoch}.pt")
""",
    ),
    "a batch that is zipped with numbers": Case(
        "DDP402",
        """
from itertools import cycle
for (x, y), i in zip(loader, cycle(range(4))):
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    if loss.item() > 2:
        break
""",
    ),
    "a rank in the group of all": Case(
        "DDP203",
        """
torch.cuda.set_device(dist.get_rank(group=None))
""",
    ),
    "yaml.dump into a file": Case(
        "DDP501",
        """
import yaml
with open("config.yaml", "w") as file:
    yaml.dump({"a": 1}, file)
"""
        + TRAIN,
    ),
}
