"""States of sharded models that some ranks alone ask for, where an option chooses the wrapper."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

TEXT = """
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
options = argparse.ArgumentParser()
options.add_argument("--shard", type=int, default=1)
args = options.parse_args()
plain = DDP(Net().to(device))
if args.shard:
    other = FSDP(Net().to(device))
else:
    other = DDP(Net().to(device))
whole = FSDP(Net().to(device))
steps = torch.optim.SGD(whole.parameters(), lr=0.1)
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("torch.save(other.state_dict(), path)", True),
        ("torch.save(other.state_dict() if isinstance(other, FSDP) else None, path)", True),
        ("state = {} if not isinstance(other, FSDP) else other.state_dict()", True),
        ("state = other.state_dict() if isinstance(other, DDP) else {}", False),
        ("state = other.state_dict() if not isinstance(other, FSDP) else {}", False),
        ("state = other.state_dict() if not args.shard else {}", False),
        ("state = other.state_dict() if args.shard else {}", True),
        ("state = FSDP.optim_state_dict(whole, steps)", True),
        ("state = get_model_state_dict(whole)", True),
        ("state = get_model_state_dict(plain)", False),
        ("total = whole.clip_grad_norm_(1.0)", True),
    ],
)
def test_where_some_ranks_alone_ask(line: str, found: bool, lint_text: Lint) -> None:
    text = SETUPS["distributed"] + TEXT
    alone = f"{text}if rank == 0:\n    {line}\n"
    assert bool(lint_text(alone, select=("DDPF03",))) is found
    assert not lint_text(f"{text}{line}\n", select=("DDPF03",))
