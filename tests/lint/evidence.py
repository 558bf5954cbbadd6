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
}
