"""Right code, in forms that were once reported: loaders that need no sampler, or have one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint.conftest import Lint
from tests.lint.precision.snippets import STEP, findings
from tests.lint.setups import SETUPS

RIGHT = {
    "a loader for one process, beside the one for several": """
def make_loader(args):
    if args.distributed:
        return DataLoader(dataset, 32, sampler=sampler)
    else:
        return DataLoader(dataset, 32, shuffle=True)

loader = make_loader(options.parse())
"""
    + STEP,
    "a sampler with one part": """
only = DistributedSampler(dataset, num_replicas=1, rank=0)
for epoch in range(epochs):
    for x, y in DataLoader(dataset, 32, sampler=only):
        criterion(model(x), y).backward()
        optimizer.step()
""",
    "batches of the rank's samples, which a sampler of the project's own gives": """
class Own(torch.utils.data.Sampler):
    def __init__(self, dataset):
        self.first, self.step = dist.get_rank(), dist.get_world_size()
        self.size = len(dataset)

    def __iter__(self):
        return iter(range(self.first, self.size, self.step))

batches = torch.utils.data.BatchSampler(Own(dataset), 32, drop_last=True)
for x, y in DataLoader(dataset, batch_sampler=batches):
    criterion(model(x), y).backward()
    optimizer.step()
""",
    "evaluation with a total that training goes on with": """
class Mean:
    def __init__(self):
        self.total, self.count = 0, 1

    def update(self, value):
        self.total = self.total + value
        self.count += 1
        return self.total / self.count

mean = Mean()
whole = DataLoader(dataset, 32)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        mean.update(criterion(model(x), y)).backward()
        optimizer.step()
    for x, y in whole:
        mean.update(criterion(model(x), y))
""",
    "a step of training that also evaluates": """
class Trainer:
    def step(self, x, y, training=True):
        loss = criterion(model(x), y)
        if training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()

trainer, whole = Trainer(), DataLoader(dataset, 32)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        trainer.step(x, y)
    for x, y in whole:
        with torch.no_grad():
            trainer.step(x, y, training=False)
""",
    "a data set that knows its rank": """
class Part(Dataset):
    def __init__(self):
        self.files = ["a", "b"][dist.get_rank() :: dist.get_world_size()]

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return torch.zeros(10), 0

for x, y in DataLoader(Part(), 32, shuffle=True):
    criterion(model(x), y).backward()
    optimizer.step()
""",
    "a data set that makes its samples up": """
class Noise(Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, index):
        return torch.randn(10), 0

for x, y in DataLoader(Noise(), 32):
    criterion(model(x), y).backward()
    optimizer.step()
""",
    "batches and parts of batches that ranks take in turn": """
whole = DataLoader(dataset, 32)
for number, (x, y) in enumerate(whole):
    if number % world_size != rank:
        continue
    criterion(model(x), y).backward()
    optimizer.step()
others = DataLoader(dataset, 32)
for x, y in others:
    criterion(model(x[rank::world_size]), y[rank::world_size]).backward()
    optimizer.step()
""",
    "loaders by the name of the phase": """
loaders = {"train": loader, "test": DataLoader(dataset, 32)}
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for phase in ["train", "test"]:
        for x, y in loaders[phase]:
            loss = criterion(model(x), y)
            if phase == "train":
                loss.backward()
                optimizer.step()
""",
    "loaders of one function": """
def make(train):
    return DataLoader(dataset, 32, sampler=DistributedSampler(dataset) if train else None)

training, test = make(True), make(False)
for epoch in range(epochs):
    training.sampler.set_epoch(epoch)
    for x, y in training:
        criterion(model(x), y).backward()
        optimizer.step()
    for x, y in test:
        model(x)
""",
    "loaders of a class with an iterator of its own": """
class Ahead(DataLoader):
    def __iter__(self):
        return iter(list(super().__iter__()))

training, test = Ahead(dataset, 32, sampler=sampler), Ahead(dataset, 32)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in training:
        criterion(model(x), y).backward()
        optimizer.step()
    for x, y in test:
        model(x)
""",
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_clean(name: str, lint_text: Lint) -> None:
    assert findings(lint_text, RIGHT[name]) == []


def test_tests_are_no_ranks(lint_text: Lint) -> None:
    """A test builds what is trained elsewhere, in one process."""
    text = SETUPS["distributed"].replace('dist.init_process_group("nccl")\n', "")
    text = text.replace("sampler=sampler", "shuffle=True") + "def test_step():\n    pass\n" + STEP
    assert "DDP101" in {one.code for one in lint_text(text)}
    assert lint_text(text, name="test_step.py") == []
    assert lint_text(text, name="tests/helpers.py") == []


def test_parts_that_the_parent_of_the_ranks_draws(lint_text: Lint) -> None:
    text = """
def worker(number, loaders):
    dist.init_process_group("nccl", rank=number, world_size=4)
    model = DDP(Net().to(number), device_ids=[number])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loaders[number]:
        criterion(model(x), y).backward()
        optimizer.step()

def make_loaders():
    loaders = []
    for part in random_split(dataset, [25] * 4):
        loaders.append(DataLoader(part, 32, shuffle=True))
    return loaders

if __name__ == "__main__":
    mp.spawn(worker, nprocs=4, args=(make_loaders(),))
"""
    text = SETUPS["distributed"].split("local_rank =")[0] + text
    assert lint_text(text, select=("DDP101", "DDP107")) == []
    there = text.replace("loaders[number]", "make_loaders()[number]")
    assert lint_text(there, select=("DDP107",)) != []


def test_training_in_the_process_that_starts_the_ranks(lint_text: Lint) -> None:
    text = """
from pyspark.ml.torch.distributor import TorchDistributor

def step(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()

def alone():
    model = Net()
    model.load_state_dict(torch.load(path))
    step(model, DataLoader(dataset, 32, shuffle=True))

def together():
    dist.init_process_group("nccl")
    place = int(os.environ["LOCAL_RANK"])
    model = DDP(Net().to(place), device_ids=[place])
    step(model, DataLoader(dataset, 32, sampler=DistributedSampler(dataset)))

alone()
TorchDistributor(num_processes=2).run(together)
"""
    text = SETUPS["distributed"].split("local_rank =")[0] + text
    assert lint_text(text, select=("DDP101", "DDP205", "DDP305")) == []
    loads = "    Net().load_state_dict(torch.load(path))\n    place ="
    assert lint_text(text.replace("    place =", loads), select=("DDP205",)) != []


def test_gradients_without_training(lint_text: Lint) -> None:
    """What each layer is worth is measured by gradients of the same loss, again and again."""
    text = SETUPS["distributed"].replace(
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n", ""
    )
    text += """
whole = DataLoader(dataset, 32)
for epoch in range(epochs):
    for x, y in loader:
        criterion(model(x), y).backward()
    for x, y in whole:
        criterion(model(x), y).backward()
"""
    assert lint_text(text, select=("DDP101", "DDP102")) == []


def test_a_function_that_trains_and_evaluates(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + """
def run(batches, learn):
    for x, y in batches:
        loss = criterion(model(x), y)
        if learn:
            loss.backward()
            optimizer.step()

run(loader, True)
run(DataLoader(dataset, 32), False)
"""
    )
    assert lint_text(text, select=("DDP101",)) == []
    alone = text.replace("run(loader, True)\n", "").replace(
        "run(DataLoader(dataset, 32), False)", "run(DataLoader(dataset, 32), True)"
    )
    assert lint_text(alone, select=("DDP101",)) != []


@pytest.mark.parametrize("package", ["tqdm", "tqdm.auto", "tqdm.notebook"])
@pytest.mark.parametrize("bar", ["tqdm(loader)", "enumerate(tqdm(loader))"])
def test_a_loop_over_a_bar_that_has_a_name(package: str, bar: str, lint_text: Lint) -> None:
    text = (
        f"from {package} import tqdm\n"
        + SETUPS["distributed"].replace(", sampler=sampler", ", shuffle=True")
        + f"""
for epoch in range(epochs):
    steps = {bar}
    for one in steps:
        x, y = one[-2:]
        criterion(model(x), y).backward()
        optimizer.step()
"""
    )
    assert [one.code for one in lint_text(text, select=("DDP101",))] == ["DDP101"]


def test_a_loader_that_another_file_makes(tmp_path: Path, lint_text: Lint) -> None:
    (tmp_path / "data.py").write_text(
        "from torch.utils.data import DataLoader\n"
        "def make(dataset):\n    return DataLoader(dataset, 32, shuffle=True)\n"
    )
    text = (
        "from data import make\n"
        + SETUPS["distributed"].replace("DataLoader(dataset, 32, sampler=sampler)", "make(dataset)")
        + STEP
    )
    found = lint_text(text, select=("DDP101",))
    assert [(one.code, text.splitlines()[one.span.line - 1].strip()) for one in found] == [
        ("DDP101", "for x, y in loader:")
    ]


def test_a_group_of_one_rank_and_one_of_as_many_as_are_asked_for(lint_text: Lint) -> None:
    text = SETUPS["distributed"].replace(", sampler=sampler", ", shuffle=True") + STEP
    head, body = text.split("local_rank = ", 1)
    body = body.replace('int(os.environ["LOCAL_RANK"])', "number").replace(
        '("nccl")', '("nccl", rank=number, world_size=world)'
    )
    inner = "".join(f"    {line}\n" for line in ("local_rank = " + body).splitlines())
    text = f"{head}def work(number, world):\n{inner}\nwork(0, 1)\n"
    assert not lint_text(text, select=("DDP101",))
    text += "many = torch.cuda.device_count()\nmp.spawn(work, (many,), many)\n"
    assert [one.code for one in lint_text(text, select=("DDP101",))] == ["DDP101"]


@pytest.mark.parametrize(("size", "found"), [("1", False), ("2", True)])
def test_a_group_of_one_rank(size: str, found: bool, lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        .replace('("nccl")', '("nccl", rank=local_rank, world_size=world)')
        .replace("local_rank = ", f"world = {size}\nlocal_rank = ", 1)
        .replace(", sampler=sampler", ", shuffle=True")
        + STEP
    )
    assert [one.code for one in lint_text(text, select=("DDP101",))] == ["DDP101"] * found


def test_a_data_set_that_speaks_of_ranks(lint_text: Lint) -> None:
    text = SETUPS["distributed"].replace(", sampler=sampler", ", shuffle=True") + STEP
    made = """
class Part(Dataset):
    def __init__(self, settings):
        self.rows = list(range(KEY, 1000))

    def __getitem__(self, i):
        return self.rows[i]

from elsewhere import settings
dataset = Part(settings)
sampler = """
    for key, found in (('settings["first"]', ["DDP101"]), ('settings["world_rank"]', [])):
        given = text.replace("sampler = ", made.replace("KEY", key), 1)
        assert [one.code for one in lint_text(given, select=("DDP101",))] == found


def test_a_forward_by_its_name_is_a_call_of_the_wrapper(lint_text: Lint) -> None:
    text = SETUPS["distributed"].replace(", sampler=sampler", ", shuffle=True")
    text += STEP.replace("model(x)", "model.forward(x)")
    assert [one.code for one in lint_text(text, select=("DDP101",))] == ["DDP101"]
