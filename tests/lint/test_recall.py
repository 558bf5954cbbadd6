"""What is wrong in other words than on a rule's page, each with a twin that is right."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.lint.conftest import Lint
from tests.lint.precision.snippets import STEP
from tests.lint.setups import SETUPS


@dataclass(frozen=True)
class Pair:
    """Code in which a rule finds something, and the change that mends it."""

    code: str
    wrong: str
    old: str
    new: str


ENDLESS = """
def endless(batches):
    epoch = 0
    while True:
        pass
        for batch in batches:
            yield batch
        epoch += 1

stream = endless(loader)
for step in range(1000):
    x, y = next(stream)
    criterion(model(x), y).backward()
    optimizer.step()
"""
BEGUN_ANEW = """
it, epoch = iter(loader), 0
for step in range(1000):
    try:
        x, y = next(it)
    except StopIteration:
        epoch += 1
        pass
        it = iter(loader)
        x, y = next(it)
    criterion(model(x), y).backward()
    optimizer.step()
"""
IN_BATCHES = """
batches = torch.utils.data.BatchSampler(sampler, 8, drop_last=True)
for epoch in range(epochs):
    pass
    for x, y in DataLoader(dataset, batch_sampler=batches):
        criterion(model(x), y).backward()
        optimizer.step()
"""
PICKS = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        kept = {kept}
        if {test}:
            continue
        model(torch.stack(list(kept))).sum().backward()
        optimizer.step()
"""
APPENDS = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        kept = []
        for one in x:
            if one.sum() > 0:
                kept.append(one)
        if not kept:
            continue
        model(torch.stack(kept)).sum().backward()
        optimizer.step()
"""
NO_BATCH = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for batch in loader:
        if batch is None:
            continue
        x, y = batch
        criterion(model(x), y).backward()
        optimizer.step()
"""
STOPPED_BY_ONE = """
class Stopping:
    def __init__(self):
        self.bad = 0
    def __call__(self, score):
        self.bad += 1
        return self.bad > 3

stopping = Stopping()
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    total = torch.zeros(1, device=device)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)
    if rank == 0 and stopping(total.item()):
        break
    dist.barrier()
"""
MEAN_SO_FAR = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    mean = torch.zeros(1, device=device)
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        mean = (mean * i + loss.item()) / (i + 1)
    if rank == 0:
        print("loss", mean)
"""
METER = """
class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0
    def update(self, value, n=1):
        self.sum += value * n
        self.count += n
    @property
    def mean(self):
        return self.sum / max(self.count, 1)

def train():
    meter = Meter()
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        meter.update(loss.item(), len(x))
    return meter.mean, 1.0

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    mean, seconds = train()
    if rank == 0:
        print(mean)
"""
NAMED_METERS = """
from collections import defaultdict

class Smoothed:
    def __init__(self):
        self.total, self.count = 0.0, 0
    def update(self, value):
        self.total += value
        self.count += 1
    def synchronize(self):
        both = torch.tensor([self.total, self.count])
        dist.all_reduce(both)
        self.total, self.count = both.tolist()
    @property
    def mean(self):
        return self.total / self.count

class Logger:
    def __init__(self):
        self.meters = defaultdict(Smoothed)
    def update(self, **values):
        for name, value in values.items():
            self.meters[name].update(value)
    def synchronize(self):
        for meter in self.meters.values():
            meter.synchronize()

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    logger = Logger()
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        logger.update(loss=loss.item())
    pass
    if rank == 0:
        print({"epoch": epoch, "loss": logger.meters["loss"].mean})
"""
STATE = """
from dataclasses import dataclass

@dataclass
class State:
    rank: int
    is_main: bool

state = State(rank, is_main=rank == 0)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    total = 0.0
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    if state.is_main:
        print(total)
"""
SPLITS = """
from dataclasses import dataclass, field

@dataclass
class Split:
    loader: DataLoader
    sampler: DistributedSampler
    seen: int = field(init=False, default=0)

def build(shuffle):
    made = DistributedSampler(dataset, shuffle=shuffle)
    return Split(DataLoader(dataset, 8, sampler=made), sampler=made)

splits = {name: build(name == "train") for name in ("train", "val")}
for epoch in range(epochs):
    splits["train"].sampler.set_epoch(epoch)
    total = 0.0
    for x, y in splits["train"].loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    if rank == 0:
        print(total)
"""
KEPT_BEFORE = """
class Flow:
    def __init__(self, net):
        self.net = net
    def loss(self, x, y):
        return criterion(self.net(x), y)

class Trainer:
    def __init__(self, net):
        self.net = net
        self.flow = Flow(net)
    def wrap(self):
        self.net = DDP(self.net, device_ids=[local_rank])

trainer = Trainer(Net().to(device))
trainer.wrap()
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        trainer.flow.loss(x, y).backward()
        optimizer.step()
"""
LEFT_OUT = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        if {test}:
            continue
        criterion(model(x), y).backward()
        optimizer.step()
"""
RATE = """
class Warmup:
    def __init__(self, optimizer, total):
        self.optimizer, self.total, self.step_number = optimizer, total, 0
    def step(self):
        self.step_number += 1
        for group in self.optimizer.param_groups:
            group["lr"] = 0.1 * world_size * min(1, self.step_number / self.total)

schedule = Warmup(optimizer, len(dataset) // 32)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
        schedule.step()
"""
OPTION = """
def build(part):
    made = DistributedSampler(dataset, shuffle=part == "train")
    return made, DataLoader(dataset, 8, sampler=made)

one, batches = build(os.environ["PART"])
for epoch in range(epochs):
    for x, y in batches:
        criterion(model(x), y).backward()
        optimizer.step()
"""
STEP_LEFT_OUT = """
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        if loss.item() > 20:
            continue
        optimizer.step()
"""
TAKEN = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        try:
            optimizer.step()
        except RuntimeError:
            continue
"""
NAMED = """
place = "cuda:0"

def fit(net, place):
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            criterion(net(x.to(place)), y.to(place)).backward()
            optimizer.step()

fit(model, place)
"""
REDUCED = """
def reduce_mean(total):
    total = total.clone()
    dist.all_reduce(total)
    return total / world_size

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss = reduce_mean(loss)
        loss.backward()
        optimizer.step()
"""
BRANCHES = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        if os.environ["MODE"] == "distill":
            loss = model(x).mean()
        else:
            loss = criterion(model.module(x), y)
        loss.backward()
        optimizer.step()
"""
PARTS = """
total = int(os.environ["BATCH"])
batches = DataLoader(dataset, total // world_size, sampler=sampler)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, len(dataset) // 64 * epochs)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in batches:
        criterion(model(x), y).backward()
        optimizer.step()
        schedule.step()
"""
BY_HAND = """
torch.manual_seed(3 + rank)
tokens = torch.zeros(1000, 10)
total = 0.0
for step in range(1000):
    at = torch.randint(len(tokens), (8,))
    loss = model(tokens[at].to(device)).mean()
    loss.backward()
    optimizer.step()
    loss = loss.detach()
    {reduce}
    total += loss.item()
    {then}
"""
SHOWN = "if rank == 0 and step % 100 == 99: print(total / 100)"
ENTRIES = """
def train(epoch):
    started = time.time()
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
    return {"seconds": time.time() - started, "epoch": epoch}

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    result = train(epoch)
    if result["seconds"] > 100:
        break
"""
ONCE = """
def say_once(text):
    if dist.get_rank() == 0:
        print(text)

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    total = 0.0
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    say_once(f"loss {total}")
"""
CLOCK = """
begun = time.time()
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        late = torch.tensor(time.time() - begun > 3600).int().to(device)
        pass
        if late.item() == 1:
            begun = time.time()
            dist.barrier()
        criterion(model(x), y).backward()
        optimizer.step()
"""
HELD = """
number = torch.tensor(rank, device=device)
pass
if number.item() == 0:
    dist.barrier()
"""
BAR = """
from tqdm import tqdm

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    total, bar = 0.0, tqdm(loader, disable=local_rank != 0)
    for i, (x, y) in enumerate(bar):
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
        bar.set_postfix(loss=total / (i + 1))
"""
TOLD_BAR = """
from tqdm import tqdm

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    total, bar = 0.0, tqdm(loader) if rank == 0 else loader
    for i, (x, y) in enumerate(bar):
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
        if rank == 0:
            bar.set_description(f"loss {total / (i + 1):.3f}")
"""
SUM = "        total += loss.item()\n"
WHOLE = "        dist.all_reduce(loss)\n"
FLAG = """
stop = torch.zeros(1, device=device)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
    if rank == 0:
        stop = torch.tensor(epoch > 3 and net.penalty() < 1, device=device)
    pass
    if stop.item() is True:
        break
"""
GATHERS = """
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x
    @staticmethod
    def backward(ctx, grad):
        dist.all_reduce(grad)
        return grad
"""
CHANGED_IN_PLACE = """
def tensors(part):
    if isinstance(part, dict):
        for key in part.keys():
            part[key] = tensors(part[key])
    return part
class Rows(Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, i):
        return {"x": torch.zeros(10), "y": torch.zeros(1)}
    def collate(self, rows):
        made = {key: [one[key] for one in tensors(rows)] for key in rows[0]}
        return tensors(made)
rows = Rows()
sampler = DistributedSampler(rows)
loader = DataLoader(rows, 8, sampler=sampler, collate_fn=rows.collate)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for batch in loader:
        loss = model(batch["x"]).sum()
        if loss.item() > 20:
            continue
        loss.backward()
        optimizer.step()
"""
BRANCH_OF_RANKS = """
args = argparse.ArgumentParser().parse_args()
if args.distributed:
    dist.init_process_group("nccl")
if args.distributed:
    made = nn.DataParallel(Net().to(device), device_ids=[local_rank])
"""
HALF_DONE = """
count = len(dataset)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, epochs * (count // 32))
""" + STEP.replace("optimizer.step()", "optimizer.step()\n        schedule.step()")
BARS = """from tqdm import tqdm
if rank == 0:
    rounds = tqdm(range(epochs), desc="training")
else:
    rounds = range(epochs)
for epoch in rounds:
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
if epoch > 0:
    torch.save(net.state_dict(), "last.pt")
"""
RUN_OR_NOT = """
writer = None
if rank == 0:
    writer = open("log.txt", "a")
if writer is None:
    torch.save(net.state_dict(), "other.pt")
"""
TOLD = "loader.sampler.set_epoch(epoch)"
PAIRS = {
    "a generator that starts anew": Pair(
        "DDP102", ENDLESS, "        pass\n", "        batches.sampler.set_epoch(epoch)\n"
    ),
    "an iterator that starts anew": Pair("DDP102", BEGUN_ANEW, "pass", TOLD),
    "a sampler inside of one for batches": Pair(
        "DDP102", IN_BATCHES, "pass", "sampler.set_epoch(epoch)"
    ),
    "a list of those that": Pair(
        "DDP402",
        PICKS.format(kept="[one for one in x if one.sum() > 0]", test="len(kept) == 0"),
        "one.sum() > 0",
        "epoch > 0",
    ),
    "rows by a mask": Pair(
        "DDP402", PICKS.format(kept="x[y > 0]", test="kept.shape[0] == 0"), "[y > 0]", "[:4]"
    ),
    "what is appended": Pair("DDP402", APPENDS, "one.sum() > 0", "epoch > 0"),
    "no batch at all": Pair("DDP402", NO_BATCH, "batch is None", "epoch is None"),
    "labels, asked for -1": Pair(
        "DDP402", LEFT_OUT.format(test="(y != -1).any()"), "(y != -1).any()", "epoch != -1"
    ),
    "as many as labels differ": Pair(
        "DDP402", LEFT_OUT.format(test="y.unique().numel() < 2"), "y.unique()", "y"
    ),
    "a schedule by hand": Pair("DDP418", RATE, "len(dataset) // 32", "len(loader)"),
    "an order that an option says": Pair(
        "DDP102", OPTION, "    for x", "    one.set_epoch(epoch)\n    for x"
    ),
    "a step that a rank leaves out alone": Pair(
        "DDP402",
        "for epoch in range(epochs):\n    sampler.set_epoch(epoch)\n" + STEP_LEFT_OUT,
        "loss.item()",
        "epoch",
    ),
    "a helper that shows what it is told": Pair("DDP405", ONCE, SUM, WHOLE + SUM),
    "a time that a tensor holds": Pair("DDP402", CLOCK, "pass", "dist.broadcast(late, src=0)"),
    "a rank that a tensor holds": Pair("DDP401", HELD, "pass", "dist.all_reduce(number)"),
    "a progress bar that is left out on the other ranks": Pair("DDP405", BAR, SUM, WHOLE + SUM),
    "a progress bar that rank 0 tells its mean": Pair("DDP405", TOLD_BAR, SUM, WHOLE + SUM),
    "a step whose error is taken": Pair(
        "DDP404", TAKEN, "            continue", "            raise"
    ),
    "a device by a name": Pair("DDP201", NAMED, '"cuda:0"', 'f"cuda:{local_rank}"'),
    "a model that is moved in the expression that wraps it": Pair(
        "DDP302", "model = DDP(Net()).to(device)\n" + STEP, "DDP(Net()).to(device)", "DDP(net)"
    ),
    "a call past the wrapper in a branch": Pair("DDP303", BRANCHES, "model.module(x)", "model(x)"),
    "batches that are parts of a larger one": Pair("DDP418", PARTS, "// 64", "// total"),
    "a loss that a helper reduces": Pair("DDP410", REDUCED, "total.clone()", "total.detach()"),
    "a total over batches made by hand": Pair(
        "DDP405", BY_HAND.format(reduce="pass", then=SHOWN), "pass", "dist.all_reduce(loss)"
    ),
    "a way out by a batch made by hand": Pair(
        "DDP402",
        BY_HAND.format(reduce="pass", then="if loss.item() > 9: break"),
        "pass",
        "dist.all_reduce(loss)",
    ),
    "an entry of what a function gives": Pair(
        "DDP402", ENTRIES, 'result["seconds"] > 100', 'not result or result["epoch"] > 5'
    ),
    "a way out for rank 0": Pair("DDP402", STOPPED_BY_ONE, "rank == 0 and stopping", "stopping"),
    "a mean so far": Pair(
        "DDP405", MEAN_SO_FAR, "        mean =", "        dist.all_reduce(loss)\n        mean ="
    ),
    "a meter with a property": Pair(
        "DDP405",
        METER,
        "    mean, seconds = train()\n",
        "    mean, seconds = train()\n    mean = dd_mean(mean)\n",
    ),
    "meters by name that nobody synchronises": Pair(
        "DDP405", NAMED_METERS, "    pass\n", "    logger.synchronize()\n"
    ),
    "a flag that rank 0 alone sets": Pair(
        "DDP402", FLAG, "    pass", "    dist.broadcast(stop, 0)"
    ),
    "a loss beside a gradient of the project's own": Pair(
        "DDP402", GATHERS + LEFT_OUT.format(test="y.sum() > 3"), "y.sum() > 3", "epoch > 3"
    ),
    "a batch whose dictionary is changed in place": Pair(
        "DDP402", CHANGED_IN_PLACE, "loss.item() > 20", "epoch > 20"
    ),
    "DataParallel where the ranks are": Pair("DDP301", BRANCH_OF_RANKS, "nn.DataParallel", "DDP"),
    "a length by a name": Pair("DDP418", HALF_DONE, "count // 32", "count // (32 * world_size)"),
    "a write behind a bar of rank 0": Pair("DDP501", BARS, "epoch > 0", "rank == 0"),
    "a write of the ranks that lack an object": Pair(
        "DDP501", RUN_OR_NOT, "writer is None", "writer is not None"
    ),
    "loaders in a dictionary of data classes": Pair("DDP405", SPLITS, SUM, WHOLE + SUM),
    "the rank in a data class": Pair("DDP405", STATE, SUM, WHOLE + SUM),
    "a model that is kept before an attribute is wrapped": Pair(
        "DDP304",
        KEPT_BEFORE,
        "trainer.wrap()\n",
        "trainer.wrap()\ntrainer.flow.net = trainer.net\n",
    ),
}
HELP = """
def dd_mean(number):
    held = torch.tensor(number, device=device)
    dist.all_reduce(held)
    return held.item() / world_size
"""


@pytest.mark.parametrize("name", PAIRS)
def test_it_is_found_and_its_twin_is_not(name: str, lint_text: Lint) -> None:
    pair = PAIRS[name]
    head = SETUPS["distributed"] + HELP
    assert pair.old in pair.wrong
    right = pair.wrong.replace(pair.old, pair.new, 1)
    assert [one.code for one in lint_text(head + pair.wrong, select=(pair.code,))] == [pair.code]
    assert not lint_text(head + right, select=(pair.code,))


def test_a_model_that_is_not_seen_is_known_by_its_name(lint_text: Lint) -> None:
    text = (
        "from elsewhere import build\n"
        + SETUPS["distributed"]
        + """
def main():
    net = build().to(device)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    wrapped = DDP(net, device_ids=[local_rank])
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            criterion(net(x), y).backward()
            optimizer.step()

main()
"""
    )
    assert [one.code for one in lint_text(text, select=("DDP304",))] == ["DDP304"]
    anew = text.replace("    for epoch", "    net = wrapped\n    for epoch")
    assert not lint_text(anew, select=("DDP304",))


def test_a_report_names_what_is_a_part(lint_text: Lint) -> None:
    text = SETUPS["distributed"] + STATE.replace(
        "print(total)", 'print(f"epoch {epoch} of {epochs}: " f"{total / 3} in {time.time()}")'
    )
    (found,) = lint_text(text, select=("DDP405",))
    assert found.message.startswith("total / 3 is rank 0's own part of the data:")


@pytest.mark.parametrize(
    ("report", "said"),
    [("print(total, epoch)", ["total"]), ('print({"a": total, "b": total / 2})', ["total and"])],
)
def test_of_several_numbers_those_that_are(report: str, said: list[str], lint_text: Lint) -> None:
    text = SETUPS["distributed"] + STATE.replace("print(total)", report)
    found = lint_text(text, select=("DDP405",))
    assert [one.message.startswith(words) for one, words in zip(found, said, strict=True)] == [True]


def test_rank_zero_may_leave_a_loop_of_its_own(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
    if rank == 0:
        for x, y in DataLoader(dataset, 4):
            if x.sum() > 3:
                break
"""
    )
    assert not lint_text(text, select=("DDP402",))
    both = text.replace("if rank == 0:\n        for", "if rank == 0:\n        break\n    else:\n"
                        "        break\n    if rank == 0:\n        for")  # fmt: skip
    assert not lint_text(both, select=("DDP402",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PICKS.format(kept="x[y > 0]", test="len(kept) == 0"), "gradients of different steps"),
        ("if rank == 0:\n    model(torch.zeros(1, 10)).sum().backward()\n", "backward() averages"),
        (
            "norm = DDP(nn.BatchNorm1d(10).to(device))\n"
            "if rank == 0:\n    with torch.no_grad():\n        norm(torch.zeros(4, 10))\n",
            "its forward sends the buffers",
        ),
        ('f = open("log.txt", "a")\nf.write("x")\n' + NO_BATCH, "once for each of them"),
        ('f = open("log.txt", "w")\nf.write("x")\n' + NO_BATCH, "may be corrupt"),
    ],
)
def test_what_is_said_is_true_of_the_script(text: str, said: str, lint_text: Lint) -> None:
    found = lint_text(SETUPS["distributed"] + text, select=("DDP402", "DDP403", "DDP501"))
    assert [one.message for one in found if said in one.message]
