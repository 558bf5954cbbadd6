"""Right scripts, and runs that show too little for a verdict, have no finding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ddpify.checking import Report, check
from ddpify.convert import convert_file
from ddpify.verify.launch.launcher import Worker

Checked = Callable[..., tuple[Report, list[str]]]
AUGMENTING = """\
import random

import torch
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, at):
        x = torch.full((4,), at / 24)
        return x + 0.1 * torch.randn(4) + random.random(), x.sum()


torch.manual_seed(0)
random.seed(0)
loader = DataLoader(Noisy(), batch_size=8, shuffle=True, num_workers=2)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x).squeeze(1), y).backward()
        optimizer.step()
"""


def test_a_slow_script_that_is_ended_by_the_time_limit_has_no_finding(checked: Checked) -> None:
    slow = (
        "            average(model, world)\n            sum(range(rank * 3_000_000 + 3_000_000))\n"
    )
    report, _ = checked(
        "averaged",
        ("range(2)", "range(5000)"),
        ("            average(model, world)\n", slow),
        timeout=5,
    )
    assert report.findings == []
    assert report.failure is not None
    assert "no end after 5 s" in report.failure
    assert report.exit_code == 2


def test_processes_that_the_script_starts_itself_are_not_judged(checked: Checked) -> None:
    start = 'if __name__ == "__main__":\n    main()'
    spawned = (
        'if __name__ == "__main__":\n'
        "    import subprocess, sys\n"
        '    subprocess.run([sys.executable, "-c", "pass"], check=True)'
    )
    report, _ = checked("averaged", (start, spawned))
    assert report.findings == []
    assert report.failure is not None
    assert "nothing to compare" in report.failure
    assert report.exit_code == 2


def test_a_script_that_leaves_without_gpus_runs_with_cuda_redirected(checked: Checked) -> None:
    leave = (
        "def main():\n    if torch.cuda.device_count() < 2:\n"
        '        print("two devices are needed")\n        return\n'
    )
    report, _ = checked("averaged", ("def main():\n", leave))
    assert report.findings == []
    assert report.failure is None
    assert min(report.steps) > 2


def test_a_converted_script_augments_in_streams_of_each_rank(folder: Path, worker: Worker) -> None:
    script = folder / "train.py"
    script.write_text(AUGMENTING)
    script.write_bytes(convert_file(script).data)
    report = check(script, worker=worker)
    assert report.failure is None
    assert report.findings == []


CHOSEN = """\
model.eval()
some = DataLoader(Noisy(), SAMPLER)
print(sum(model(x).sum().item() for x, y in some))
"""


@pytest.mark.parametrize(
    "sampler",
    ["batch_sampler=Chosen()", "sampler=torch.utils.data.SubsetRandomSampler([0, 3, 8, 5])"],
)
def test_a_sampler_may_leave_out_samples(sampler: str, folder: Path, worker: Worker) -> None:
    chosen = "class Chosen:\n    def __iter__(self):\n        return iter([[0, 3, 5], [8, 2, 9]])\n"
    script = folder / "train.py"
    evaluation = CHOSEN.replace("SAMPLER", sampler)
    script.write_text(AUGMENTING.replace("torch.manual_seed(0)", chosen) + evaluation)
    script.write_bytes(convert_file(script).data)
    report = check(script, worker=worker)
    assert report.failure is None
    assert report.findings == []


@pytest.mark.parametrize("reduced", [True, False])
def test_a_loss_is_shown_as_a_tensor(reduced: bool, folder: Path, worker: Worker) -> None:
    """Its value arrives while the backward runs, in the memory of the tensor that is shown."""
    (folder / "wandb.py").write_text("def log(values):\n    pass\n")
    step = "torch.nn.functional.mse_loss(model(x).squeeze(1), y)"
    loss = f"loss = {step}\n        loss.backward()\n        wandb.log({{'loss': loss}})"
    script = folder / "train.py"
    script.write_text("import wandb\n" + AUGMENTING.replace(f"{step}.backward()", loss))
    converted = convert_file(script).data.decode()
    assert "loss = dd.mean(" in converted
    script.write_text(converted if reduced else converted.replace("loss = dd.mean(", "loss = ("))
    report = check(script, worker=worker)
    assert report.failure is None
    assert [one.code for one in report.findings] == ([] if reduced else ["DDP405"])


def test_one_constant_batch_is_no_data_that_the_ranks_share(checked: Checked) -> None:
    loader = "loader = DataLoader(Texts(rank, world), batch_size=4)"
    constant = "loader = [torch.arange(36).reshape(4, 9) % 20] * 6"
    report, _ = checked("averaged", (loader, constant))
    assert report.failure is None
    assert report.findings == []


def test_the_same_batches_made_by_hand_on_every_rank_are_found(checked: Checked) -> None:
    loader = "loader = DataLoader(Texts(rank, world), batch_size=4)"
    alike = "loader = torch.arange(216).reshape(6, 4, 9) * 7 % 20"
    report, _ = checked("averaged", (loader, alike))
    assert [one.code for one in report.findings] == ["DDP106"]


def test_a_temporary_file_without_a_name_is_not_written_twice(checked: Checked) -> None:
    start = "    for epoch in range(2):\n"
    temporary = "    import tempfile\n    tempfile.TemporaryFile().close()\n"
    report, _ = checked("averaged", (start, temporary + start))
    assert report.findings == []


def own_data(arguments: str) -> tuple[tuple[str, str], ...]:
    """Edits that give each rank of ``sampled`` its own numbers, in a loader with ``arguments``."""
    data = "    x = torch.randn(80, 6, generator=generator)\n"
    own = data.replace("generator=generator", "generator=torch.Generator().manual_seed(9 + rank)")
    return (
        ("def data():", "def data(rank):"),
        ("= data()", "= data(rank)"),
        (data, own),
        ("batch_size=8, sampler=sampler)", arguments),
    )


def test_ranks_that_each_read_a_shard_of_their_own_are_right(checked: Checked) -> None:
    report, _ = checked("sampled", *own_data("batch_size=8, shuffle=True)"))
    assert [one.code for one in report.findings] == []


def test_one_data_set_that_differs_among_the_ranks_that_divide_it_is_found(
    checked: Checked,
) -> None:
    report, lines = checked("sampled", *own_data("batch_size=8, sampler=sampler)"))
    assert [one.code for one in report.findings] == ["DDP108"]
    assert "loader = DataLoader(train_set" in lines[(report.findings[0].line or 0) - 1]
