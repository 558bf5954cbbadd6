"""What a rank's number goes into may be its part of the data; an answer about it is none."""

from __future__ import annotations

import libcst as cst
import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

SCRIPT = """
class Images(torch.utils.data.Dataset):
    def __init__(self, told):
        self.told = told
        self.items = list(range(100))
        if told:
            self.items = self.items[:]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return torch.ones(4) * {used}, 0

    def show(self, results):
        self.shown = results

{before}
images = Images({told})
images.show([rank, world_size])
whole = DataLoader(images, 8, sampler=torch.utils.data.RandomSampler(images))
for epoch in range(epochs):
    for x, y in whole:
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("before", "told", "used", "found"),
    [
        ("is_main = rank == 0", "is_main", "index", True),
        ("is_main = not (rank > 0 or world_size > 8)", "is_main", "index", True),
        ("part = rank", "part", "index", False),
        ("part = rank or 0", "part", "index", False),
        ("part = (rank, world_size)", "part", "index", False),
        ("pass", "None", "index", True),
        ("pass", "None", "self.shown[0]", False),
    ],
)
def test_a_data_set_that_is_told(
    lint_text: Lint, before: str, told: str, used: str, found: bool
) -> None:
    text = SETUPS["distributed"] + SCRIPT.format(before=before, told=told, used=used)
    assert ("DDP101" in [one.code for one in lint_text(text)]) is found


HELPED = """
class Worker:
    @staticmethod
    def work(tasks):
        while True:
            tasks.get()
    def __init__(self):
        self.tasks = mp.Queue()
        self.process = mp.Process(target=Worker.work, args=(self.tasks,))
        self.process.start()
"""


@pytest.mark.parametrize("started", ["worker = Worker()", "mp.Process(target=Worker.work).start()"])
def test_a_helper_process_of_a_rank_is_no_rank(lint_text: Lint, started: str) -> None:
    text = f"{SETUPS['distributed']}{HELPED}{started}\n"
    part = "part = DistributedSampler(dataset, rank={})\ntorch.cuda.set_device({})\n"
    wrong = lint_text(text + part.format("local_rank", "rank"))
    assert {"DDP104", "DDP203"} <= {one.code for one in wrong}
    right = lint_text(text + part.format("rank", "local_rank"))
    assert not {"DDP104", "DDP203"} & {one.code for one in right}


def test_slots_are_not_sorted_by_the_text_of_their_code(
    lint_text: Lint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text of a module's whole tree takes longer than all rules together."""

    def show(node: cst.CSTNode) -> str:
        raise AssertionError(f"a {type(node).__name__} is shown")

    monkeypatch.setattr(cst.Module, "__repr__", show)
    told = "torch.distributed.init_process_group('nccl', rank=number, world_size=count)\n"
    assert lint_text(
        SETUPS["distributed"]
        + "number, count = int(os.environ['MY_RANK']), int(os.environ['MY_SIZE'])\n"
        + told
        + "if number == 0:\n    torch.distributed.barrier()\n"
    )
