"""Fixes that need something around them: a process group, a signature, an import."""

from __future__ import annotations

import pytest

from ddpify.lint import fixer
from ddpify.lint.diagnostics import Diagnostic, Edit, Fix, Severity, Span
from ddpify.records import replace
from tests.lint.conftest import Lint

HEAD = """
import argparse, os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset, DistributedSampler
"""
TRAIN = """
    data = TensorDataset(torch.zeros(8, 2))
    model = DDP(nn.Linear(2, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, in DataLoader(data, 2, sampler=DistributedSampler(data)):
        model(x).mean().backward()
        optimizer.step()
    torch.save(model.module.state_dict(), "model.pt")
"""
START = "\nmain(argparse.ArgumentParser().parse_args())\n"
JOINED = "def start(args):\n    dist.init_process_group('gloo')\n"
MAY_BE = (
    "def start(args):\n    if 'RANK' not in os.environ:\n        return\n"
    "    dist.init_process_group('gloo')\n"
)


@pytest.mark.parametrize(("setup", "fixable"), [(JOINED, True), (MAY_BE, False)])
def test_a_fix_asks_only_a_process_group_that_is_there(
    setup: str, fixable: bool, lint_text: Lint
) -> None:
    text = HEAD + setup + "def main(args):\n    start(args)" + TRAIN + START
    (one,) = lint_text(text, select=("DDP501",))
    assert one.fixable is fixable


def test_a_fix_before_the_group_is_none(lint_text: Lint) -> None:
    save = "    torch.save({}, 'settings.pt')\n"
    text = HEAD + JOINED + "def main(args):\n" + save + "    start(args)" + TRAIN + START
    assert [one.fixable for one in lint_text(text, select=("DDP501",))] == [False, True]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.cuda.amp.autocast()", 'torch.amp.autocast("cuda")'),
        ("torch.cuda.amp.autocast(x > 1)", 'torch.amp.autocast("cuda", enabled=x > 1)'),
        (
            "torch.cuda.amp.autocast(True, torch.bfloat16)",
            'torch.amp.autocast("cuda", enabled=True, dtype=torch.bfloat16)',
        ),
        ("torch.cuda.amp.autocast(enabled=x)", 'torch.amp.autocast("cuda", enabled=x)'),
        ("torch.cuda.amp.autocast((x))", 'torch.amp.autocast("cuda", enabled=(x))'),
        ("torch.cuda.amp.GradScaler(1024.0)", 'torch.amp.GradScaler("cuda", 1024.0)'),
        ("torch.cuda.amp.autocast(*x)", "torch.cuda.amp.autocast(*x)"),
    ],
)
def test_arguments_keep_their_meaning(before: str, after: str, lint_text: Lint) -> None:
    assert _fixed(f"import torch\nx = 2\ny = {before}\n", lint_text).endswith(f"y = {after}\n")


def test_an_imported_name_is_imported_from_the_new_place(lint_text: Lint) -> None:
    text = (
        "import torch\nfrom torch.cuda.amp import autocast, GradScaler\n"
        "scaler = GradScaler()\nwith autocast(True):\n    pass\nwith autocast():\n    pass\n"
    )
    assert _fixed(text, lint_text) == (
        "import torch\nfrom torch.amp import autocast, GradScaler\n"
        'scaler = GradScaler("cuda")\nwith autocast("cuda", enabled=True):\n    pass\n'
        'with autocast("cuda"):\n    pass\n'
    )


def test_a_name_with_another_use_is_left(lint_text: Lint) -> None:
    text = (
        "import torch\nfrom torch.cuda.amp import autocast\nkept = autocast\n"
        "with autocast():\n    pass\n"
    )
    assert _fixed(text, lint_text) == text


def _fixed(text: str, lint_text: Lint) -> str:
    def check(source: str) -> list[Diagnostic]:
        return lint_text(source, select=("DDP901",))

    return fixer.fix_until_stable(text, check, unsafe=True, compiles=lambda _: True)[0]


def _unsafe(text: str, code: str, lint_text: Lint) -> str:
    def check(source: str) -> list[Diagnostic]:
        return lint_text(source, select=(code,))

    return fixer.fix_until_stable(text, check, unsafe=True, compiles=lambda _: True)[0]


def test_a_fix_that_breaks_the_syntax_keeps_no_other_away() -> None:
    broken = Fix("breaks", (Edit(0, 1, "("),))
    right = Fix("mends", (Edit(2, 3, "c"),))
    one = Diagnostic("a.py", Span(1, 1, 1, 2), "DDP000", "some", "some", Severity.STYLE)

    def check(text: str) -> list[Diagnostic]:
        return [replace(one, fix=fix) for fix in (broken, right)] if text == "a b" else []

    fixed = fixer.fix_until_stable("a b", check, unsafe=False, compiles=lambda x: "(" not in x)
    assert fixed == ("a c", 1)


def test_a_device_is_numbered_by_the_local_rank(lint_text: Lint) -> None:
    text = HEAD + "dist.init_process_group('nccl')\ntorch.cuda.set_device(dist.get_rank())\n"
    fixed = _unsafe(text, "DDP203", lint_text)
    assert fixed.endswith('torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\n')


@pytest.mark.parametrize(("setup", "mended"), [(JOINED, True), (MAY_BE, False)])
def test_rank_zero_of_all_nodes_writes(setup: str, mended: bool, lint_text: Lint) -> None:
    main = "def main(args):\n    start(args)\n    local_rank = int(os.environ['LOCAL_RANK'])"
    save = "    torch.save(model.module.state_dict(), "
    text = (HEAD + setup + main + TRAIN + START).replace(
        save, "    if local_rank == 0:\n    " + save
    )
    assert text.count("local_rank == 0") == 1
    fixed = _unsafe(text, "DDP502", lint_text)
    assert ("    if dist.get_rank() == 0:\n" in fixed) is mended
    assert (fixed == text) is not mended
