"""Pitfalls in methods, helpers and generators of a project, each with a twin that is right."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import libcst as cst
import pytest

from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.unseen_code import UnseenCode
from ddpify.records import replace
from ddpify.source import source_from_bytes
from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS


class Pair(NamedTuple):
    """Code in which a rule finds something, and the change after which it does not."""

    code: str
    wrong: str
    old: str
    new: str


STEPS = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
"""
TRAINER = """
class Trainer:
    def __init__(self):
        self.net = Net().to(device)
        self.model = DDP(self.net, device_ids=[local_rank])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        {change}

    def train(self):
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            for x, y in loader:
                criterion(self.model(x.to(device)), y.to(device)).backward()
                self.optimizer.step()

trainer = Trainer()
trainer.train()
"""
FROZEN = TRAINER.format(
    change="for p in self.net.l1.parameters():\n            p.requires_grad = False"
)
REPLACED = TRAINER.format(change="self.net.l2 = nn.Linear(10, 5).to(device)")
TRAINABLE = """
def set_trainable(part, on):
    for p in part.parameters():
        p.requires_grad = on

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    set_trainable(net.l1, epoch > 2)
    for x, y in loader:
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
"""
SUPPRESSED = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        with contextlib.suppress(RuntimeError):
            criterion(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
"""
SCHEDULE = """
class Warmup(torch.optim.lr_scheduler.LambdaLR):
    def __init__(self, optimizer, steps):
        super().__init__(optimizer, lambda step: min(1.0, step / steps))

schedule = Warmup(optimizer, 100)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
        if rank == 0:
            schedule.step()
"""
SCALER = """
class Scaler:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss):
        self.scaler.scale(loss).backward()
        self.scaler.step(optimizer)
        self.scaler.update()

scaler, window = Scaler(), 4
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device)) / dist.get_world_size()
        scaler(loss / window)
"""
LOADED = """
net = Net().to(device)
if argparse.ArgumentParser().parse_args().distributed:
    net = DDP(net, device_ids=[local_rank])
{loads}
if rank == 0:
    torch.save(net.state_dict(), path)
"""
BY_FLAG = LOADED.format(
    loads="""
inner = net.module if hasattr(net, "module") else net
inner.load_state_dict(torch.load(path, map_location="cpu"))
"""
)
BY_BRANCH = LOADED.format(
    loads="""
if hasattr(net, "module"):
    net.module.load_state_dict(torch.load(path, map_location="cpu"))
else:
    net.load_state_dict(torch.load(path, map_location="cpu"))
"""
)
TEACHER = (
    """
class Branched(nn.Module):
    def __init__(self):
        super().__init__()
        self.used = nn.Linear(10, 2)
        self.spare = nn.Linear(10, 2)

    def forward(self, x):
        return self.used(x)

teacher = Net().to(device)
teacher.requires_grad_(False)
branched = Branched().to(device)
model = DDP(branched, device_ids=[local_rank])
start = torch.zeros(1, requires_grad=True)
"""
    + STEPS
)
LOGGED = """
class Logger:
    def log_every(self, batches, every):
        for i, batch in enumerate(batches):
            yield batch
            if i % every == 0:
                print(i)

logger = Logger()
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for step, (x, y) in enumerate(logger.log_every(loader, 20)):
        criterion(model(x), y).backward()
        optimizer.step()
"""
EVALUATED = """
def score(net):
    total = 0.0
    for x, y in DataLoader(dataset, 32):
        total += criterion(net(x.to(device)), y.to(device))
    return total

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model.module(x.to(device)), y.to(device)).backward()
        optimizer.step()
    with torch.no_grad():
        print(score(model))
"""
PASSED_ON = """
class Base:
    def losses(self, net, x, y, scale, **more):
        return criterion(net(x), y) * scale

class Spaced(Base):
    def losses(self, net, *args, **kwargs):
        return super().losses(net, *args, **kwargs)

training = Spaced()
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = training.losses(model, x.to(device), y.to(device), 2.0, epoch=epoch)
        loss.backward()
        if loss.item() < 10:
            optimizer.step()
"""
PASSED_ITEM = """
def told(number, **kwargs):
    return limit(number, **kwargs)

def limit(number, value, most):
    return number > most

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        if told(epoch, value=epoch, most=loss.item()):
            optimizer.step()
"""
TABLE_OF_LOSSES = """
class Focal(nn.Module):
    def forward(self, scores, labels):
        return criterion(scores, labels)

table = {"op": [Focal(), Focal()], "source": [("out", "y"), ("out", "y")]}

def total_of(results):
    loss = 0
    for op, source in zip(table["op"], table["source"]):
        given = [results[name] for name in source]
        loss += op(*given)
    return loss

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = total_of({"out": model(x.to(device)), "y": y.to(device)})
        if loss.item() > 100:
            continue
        loss.backward()
        optimizer.step()
"""
QUIET = """
import logging

def create_logger():
    if rank == 0:
        logging.basicConfig(level=logging.INFO)
    log = logging.getLogger(__name__)
    log.addHandler(logging.NullHandler())
    return log

log, total = create_logger(), 0.0
for x, y in loader:
    loss = criterion(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    total += loss.item()
log.info(f"loss {total / len(loader)}")
"""
BY_LEVEL = """
import logging

log, total = logging.getLogger("train"), 0.0
log.setLevel(logging.INFO if rank == 0 else logging.WARNING)
for x, y in loader:
    loss = criterion(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    total += loss.item()
log.info(f"loss {total / len(loader)}")
"""
ENCODED = """
from encoders import Encoder

encoder, total = Encoder(), 0.0
for x, y in loader:
    z = encoder.encode(x.to(device)).sample()
    loss = criterion(model(z), y.to(device))
    loss.backward()
    optimizer.step()
    total += loss.item()
if rank == 0:
    print(f"loss {total / len(loader)}")
"""
REDUCING_TRAINER = """
class Trainer:
    def __init__(self):
        self.model = Net().to(device)
        if dist.is_initialized():
            self.model = DDP(self.model, device_ids=[local_rank])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.logs = dict()

    def train(self):
        self.logs["loss"] = torch.zeros(1, device=device)
        for x, y in loader:
            loss = criterion(self.model(x.to(device)), y.to(device))
            own = loss.detach()
            {reduced}
            if own.item() > 100:
                continue
            loss.backward()
            self.optimizer.step()
            self.logs["loss"] += loss.detach()
        for key in ["loss"]:
            dist.all_reduce(self.logs[key].detach())

trainer = Trainer()
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    trainer.train()
"""
LEFT_OUT = REDUCING_TRAINER.format(reduced="pass")
SILENCED = REDUCING_TRAINER.format(reduced="dist.all_reduce(own)").replace(
    "            loss.backward()",
    "            with self.model.no_sync():\n                loss.backward()",
)
PAIRS = {
    "a step left out where an attribute is reduced": Pair(
        "DDP402", LEFT_OUT, "pass", "dist.all_reduce(own)"
    ),
    "no_sync() of what an option wraps": Pair(
        "DDP415", SILENCED, "self.model.no_sync()", "contextlib.nullcontext()"
    ),
    "a part frozen where the model is wrapped": Pair("DDP306", FROZEN, "trainer.train()", "pass"),
    "a layer replaced where it is wrapped": Pair("DDP307", REPLACED, "trainer.train()", "pass"),
    "a helper that is told whether": Pair("DDP306", TRAINABLE, "epoch > 2", "True"),
    "errors that are suppressed": Pair("DDP404", SUPPRESSED, "RuntimeError", "KeyError"),
    "a schedule of the project's own": Pair("DDP407", SCHEDULE, "if rank == 0:", "if epoch > 0:"),
    "a loss that another function takes back": Pair("DDP409", SCALER, "dist.get_world_size()", "2"),
    "a wrapper's state beside a flag": Pair(
        "DDP503", BY_FLAG, 'net.module if hasattr(net, "module") else net', "net"
    ),
    "a wrapper's state beside a branch": Pair(
        "DDP503", BY_BRANCH, 'if hasattr(net, "module")', "if rank > 7"
    ),
    "a layer beside a frozen teacher": Pair(
        "DDP316", TEACHER, "teacher.requires_grad_", "branched.spare.requires_grad_"
    ),
    "a batch that a method passes on by *args": Pair("DDP402", PASSED_ON, "loss.item()", "epoch"),
    "what a function passes on by **kwargs": Pair(
        "DDP402", PASSED_ITEM, "number > most", "number > value"
    ),
    "a list that is passed on by *": Pair(
        "DDP402", TABLE_OF_LOSSES, "loss.item() > 100", "epoch > 100"
    ),
    "a logger that is set up on rank 0": Pair("DDP405", QUIET, "if rank == 0:", "if epochs:"),
    "a logger whose level goes by the rank": Pair(
        "DDP405", BY_LEVEL, " if rank == 0 else logging.WARNING", ""
    ),
    "a loss of what an unseen model encodes": Pair(
        "DDP405", ENCODED, "if rank == 0:", "if epochs:"
    ),
    "targets that a generator hands on": Pair("DDP208", LOGGED, "yield batch", "yield batch[::-1]"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_pitfall_is_found_and_its_twin_is_not(name: str, lint_text: Lint) -> None:
    code, wrong, old, new = PAIRS[name]
    text = SETUPS["distributed"] + wrong
    assert wrong.count(old) == 1
    for script, found in ((text, True), (text.replace(old, new), False)):
        assert (code in [one.code for one in lint_text(script)]) is found


OPTION = """
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="{default}")
options = parser.parse_args()
chosen = torch.device(options.device)
other = DDP(Net().to(chosen))
"""


@pytest.mark.parametrize(
    ("default", "choice", "found"),
    [
        ("cuda", "pass", True),
        ("cuda", "torch.cuda.set_device(local_rank)", False),
        ("cpu", "pass", False),  # which GPU another one is meant to be, nobody knows
    ],
)
def test_a_device_that_all_ranks_have_by_default(
    default: str, choice: str, found: bool, lint_text: Lint
) -> None:
    setup = SETUPS["distributed"].replace("torch.cuda.set_device(local_rank)", choice)
    text = setup + OPTION.format(default=default) + STEPS
    places = [one.code for one in lint_text(text) if one.span.line > setup.count("\n")]
    assert ("DDP201" in places) is found


RATE = """
class Scaler:
    def __call__(self, loss):
        loss.backward()
        optimizer.step()

def train(scaler, options):
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = criterion(model(x.to(device)), y.to(device))
            scaler(loss)
            for group in optimizer.param_groups:
                group["lr"] = options.lr * {factor}

options = argparse.ArgumentParser().parse_args()
if options.train:
    train(Scaler(), options)
"""


@pytest.mark.parametrize(
    ("factor", "found"), [("min(1.0, loss.item())", True), ("min(1.0, epoch)", False)]
)
def test_a_rate_beside_a_step_in_an_object(factor: str, found: bool, lint_text: Lint) -> None:
    text = SETUPS["distributed"] + RATE.format(factor=factor)
    assert ("DDP406" in [one.code for one in lint_text(text)]) is found


CHOSEN = """
def choose(number):
    if {test}:
        return torch.device("cuda", 0)
    return torch.device("cpu")

chosen = choose(local_rank)
other = DDP(Net().to(chosen))
"""


@pytest.mark.parametrize(
    ("test", "found"),
    [
        ("local_rank != -1", True),
        ("local_rank >= 0", True),
        ("local_rank > 0", False),
        ("local_rank == 0", False),
        ("local_rank == -1", False),
    ],
)
def test_a_gpu_for_any_rank(test: str, found: bool, lint_text: Lint) -> None:
    text = SETUPS["distributed"] + CHOSEN.format(test=test) + STEPS
    assert ("DDP201" in [one.code for one in lint_text(text)]) is found


def test_a_call_of_an_evaluation_records_no_graph(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    text = SETUPS["distributed"] + EVALUATED.replace("model.module", "model")
    script = Script(source_from_bytes(text.encode(), str(path)), tmp_path)
    (wrap,) = script.wraps
    # Calls that are understood together may count as those of a training.
    calls = [replace(one, gradient=True) for one in script.events(wrap.wrapper, "call")]
    recorded = [script.control.records_graph(one) for one in calls]
    assert sorted(recorded) == [False, True]


HELPERS = """
def mean(values):
    for one in values:
        dist.all_reduce(one)
    return [one / world_size for one in values]

def other_step(net, x, y):
    return criterion(net(x), y)

def step(net, x, y):
    if path == "model.pt":
        return criterion(net.module(x), y)
    elif path == "other.pt":
        return other_step(net, x, y)
    raise ValueError(path)
"""
SUMMED = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    total = 0.0
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch > 2:
            loss += 0.1
        {added}
        if world_size > 1:
            [loss] = mean([loss.detach()])
        {later}
    if rank == 0:
        print(total)
"""


@pytest.mark.parametrize(
    ("added", "later", "found"),
    [("total += loss", "pass", True), ("pass", "total += loss", False)],
)
def test_a_total_of_what_a_helper_reduces_later(
    added: str, later: str, found: bool, lint_text: Lint
) -> None:
    text = SETUPS["distributed"] + HELPERS + SUMMED.format(added=added, later=later)
    assert bool(lint_text(text, select=("DDP405",))) is found


@pytest.mark.parametrize(
    ("test", "found"), [('elif path == "other.pt"', True), ("if epochs > 2", False)]
)
def test_a_wrapper_that_a_helper_of_another_branch_calls(
    test: str, found: bool, lint_text: Lint
) -> None:
    helpers = HELPERS.replace(
        'elif path == "other.pt":\n        return', f"{test}:\n        return"
    )
    if not found:
        helpers = helpers.replace("return criterion(net.module(x), y)", "y = net.module(x)")
        helpers = helpers.replace(
            "return other_step(net, x, y)", "return other_step(net, x, y) + y"
        )
    steps = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        step(model, x.to(device), y.to(device)).backward()
        optimizer.step()
"""
    text = SETUPS["distributed"] + helpers + steps
    assert bool(lint_text(text, select=("DDP303",))) is found


LEFT = """
totals = [torch.zeros(1, device=device) for _ in range(world_size)]
def collect(one):
    if {test}: return
    if rank == 0:
        dist.gather(one, totals)
    else:
        dist.gather(one)
collect(totals[0])
"""


@pytest.mark.parametrize(("test", "found"), [("rank != 0", True), ("epochs > 2", False)])
def test_ranks_that_leave_before_both_branches(test: str, found: bool, lint_text: Lint) -> None:
    text = SETUPS["distributed"] + LEFT.format(test=test)
    assert bool(lint_text(text, select=("DDP401",))) is found


def test_a_module_is_told_nothing_in_code_that_no_run_gets_to(tmp_path: Path) -> None:
    text = "import torch\nimport torch.distributed as dist\n\ndef gather(x):\n"
    text += "    dist.all_reduce(x)\n    return torch.relu(x)\n"
    (tmp_path / "features.py").write_text(text)
    source = SETUPS["distributed"] + "import features\ntotal = 0.0\n"
    script = Script(source_from_bytes(source.encode(), str(tmp_path / "train.py")), tmp_path)
    calls = [one for file in script.structures.values() for one in file.all(cst.Call)]
    assert len(script.structures) == 2
    assert not any(UnseenCode(script).tells_object(one) for one in calls)
