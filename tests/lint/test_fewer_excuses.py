"""What once excused a finding, and does no longer; beside each, what is right."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import METER, SETUPS

STEP = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
TURNS = """
for i in range(world_size):
    if i == rank:
        {inside}
    {outside}
"""
METERED = (
    "\n"
    + METER
    + """\

meter = Meter()
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.update(loss.item())
    {synchronize}
    if rank == 0:
        print(meter.total / meter.count)
"""
)
SCALED = """
scaler = torch.amp.GradScaler("cuda")
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        scaler.scale({loss}).backward()
        scaler.step(optimizer)
        scaler.update()
"""
OPTION = """
parser = argparse.ArgumentParser()
parser.add_argument("--distributed", action="store_true")
args = parser.parse_args()
other = Net()
if args.distributed:
    other = other.to({device})
    other = DDP(other, device_ids=[local_rank])
second = torch.optim.SGD(other.parameters(), lr=0.1)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(other(x.to(device)), y{moved})
        second.zero_grad()
        loss.backward()
        second.step()
"""
SHOWN = STEP + "        if rank == 0:\n            print(loss.item())\n"


def found(lint_text: Lint, code: str, text: str, strict: bool = False) -> bool:
    codes = [one.code for one in lint_text(SETUPS["distributed"] + text, strict=strict)]
    return code in codes


@pytest.mark.parametrize(
    ("code", "wrong", "right"),
    [
        (
            "DDP401",
            TURNS.format(inside="dist.barrier()", outside="pass"),
            TURNS.format(inside="torch.save({}, path)", outside="dist.barrier()"),
        ),
        (
            "DDP405",
            METERED.format(synchronize="pass"),
            METERED.format(synchronize="meter.synchronize()"),
        ),
        (
            "DDP305",
            "own = nn.Parameter(torch.zeros(1, device=device))\n"
            'optimizer.add_param_group({"params": [own]})' + STEP,
            "part = Net().to(device)\nboth = DDP(part, device_ids=[local_rank])\n"
            'optimizer.add_param_group({"params": both.parameters()})' + STEP,
        ),
        (
            "DDP307",
            'model.module.register_buffer("seen", torch.zeros(1))' + STEP,
            'other = Net()\nother.register_buffer("seen", torch.zeros(1))' + STEP,
        ),
        (
            "DDP306",
            "for p in model.module.l1.parameters():\n    p.requires_grad_(False)" + STEP,
            "teacher = Net()\nfor p in teacher.l1.parameters():\n    p.requires_grad_(False)"
            + STEP,
        ),
        (
            "DDP409",
            SCALED.format(loss="loss / world_size"),
            SCALED.format(loss="loss / 4"),
        ),
        (
            "DDP201",
            OPTION.format(device='"cuda:0"', moved=".to(device)"),
            OPTION.format(device="device", moved=".to(device)"),
        ),
        (
            "DDP208",
            OPTION.format(device="device", moved=""),
            OPTION.format(device="device", moved=".to(device)"),
        ),
    ],
)
def test_no_longer_excused(lint_text: Lint, code: str, wrong: str, right: str) -> None:
    assert (found(lint_text, code, wrong), found(lint_text, code, right)) == (True, False)


def test_a_step_s_own_loss_is_shown_to_the_strict(lint_text: Lint) -> None:
    assert not found(lint_text, "DDP405", SHOWN)
    assert found(lint_text, "DDP405", SHOWN, strict=True)
