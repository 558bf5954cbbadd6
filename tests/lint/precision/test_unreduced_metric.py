"""Right code, in forms that were once reported: numbers that are reported as they should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint.conftest import Lint
from tests.lint.precision.snippets import findings
from tests.lint.setups import SETUPS

RIGHT = {
    "the names of totals, each with its number": """
totals = {}
for x, y in loader:
    totals["loss"] = totals.get("loss", 0.0) + criterion(model(x), y).item()
whole = torch.tensor([*totals.values()], device=device)
dist.all_reduce(whole)
if rank == 0:
    for number, (name, total) in enumerate(totals.items()):
        print(name, whole[number].item() / world_size)
""",
    "a progress bar that shows a step's own loss, and another that each rank has": """
from tqdm import tqdm

bar, total = tqdm(loader, disable=rank != 0), 0.0
for x, y in bar:
    loss = criterion(model(x), y)
    total += loss.item()
    bar.set_postfix(loss=loss.item())
each = tqdm(loader, position=rank)
for x, y in each:
    total += criterion(model(x), y).item()
    each.set_postfix(loss=total)
""",
    "texts beside totals": """
totals = []
for x, y in loader:
    totals.append(criterion(model(x), y).item())
if rank == 0:
    for one, text in zip(totals, ["first", "second"]):
        print(text)
""",
    "a total that a function reduces by way of main memory": """
def reduce_anywhere(tensor):
    held = tensor.detach().cpu()
    dist.all_reduce(held)
    tensor.data.copy_(held.to(tensor.device))

total = 0.0
for x, y in loader:
    total += criterion(model(x), y).item()
whole = torch.tensor([total / len(loader)], device=device)
reduce_anywhere(whole)
if rank == 0:
    print(whole.item() / world_size)
""",
    "a sum over the parts of a step": """
for x, y in loader:
    total = 0.0
    for part in range(4):
        total += criterion(model(x[part::4]), y[part::4]).item()
    if rank == 0:
        print(total)
""",
    "a total that a function of the project reduces where it is": """
def add_up(value):
    if dist.is_initialized():
        dist.all_reduce(value)

total = torch.zeros(1, device=device)
for x, y in loader:
    total += criterion(model(x), y).detach()
add_up(total)
if rank == 0:
    print(total)
""",
    "a weighted mean of the losses": """
each = nn.CrossEntropyLoss(reduction="none")
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        losses = each(model(x), y)
        weights = losses.detach() / losses.detach().sum()
        torch.sum(losses * weights).backward()
        optimizer.step()
""",
    "a log of all ranks, each with its number": """
log = open("log.txt", "a")
log.write(f"rank {rank}: started")
""",
    "a validation with indices that a sort gives": """
def validate():
    for x, y in whole:
        order = torch.sort(model(x), dim=1)[1] + random.randint(0, 1)
        for row in range(len(x)):
            print(x[order[row, 0]])

whole = DataLoader(dataset, 32)
random.seed(0)
for epoch in range(epochs):
    x, y = next(batches)
    criterion(model(x), y).backward()
    optimizer.step()
    validate()
""",
    "parts of all of the data, which are then summed": """
hits = torch.zeros(1, device=device)
for x, y in loader:
    hits += (model(x).argmax(1) == y).sum()
hits = hits / len(dataset)
dist.all_reduce(hits)
print(hits)
""",
    "a line of a step's numbers, put together in a condition": """
for i, (x, y) in enumerate(loader):
    shown = {"loss": criterion(model(x), y).item()}
    if rank == 0 and i % 100 == 0:
        line = f"step {i}"
        for name in shown:
            line += f" {name}: {shown[name]:.3f}"
        print(line)
""",
    "a name of a step's numbers that stands for something else, then": """
for x, y in loader:
    metrics = {"loss": criterion(model(x), y).item()}
    if rank == 0:
        with open("scores.txt", "a") as file:
            if epochs > 5:
                metrics = ["a", "b"]
            else:
                metrics = ["a"]
            chosen = []
            for metric in metrics:
                chosen.append(metric)
            file.write(" ".join(chosen))
""",
    "a score that one process alone has taken": """
settings = argparse.ArgumentParser().parse_args()

def evaluate():
    score = 0.0
    parts = None if settings.local_rank == -1 else DistributedSampler(dataset)
    for x, y in DataLoader(dataset, 32, sampler=parts):
        score += criterion(model(x), y).item()
    return {"score": score}

best = 0.0
if rank == 0:
    if settings.local_rank == -1:
        found = evaluate()
    if found["score"] > best:
        best = found["score"]
        print("best", best)
""",
    "meters and reductions out of a module that is not seen": """
from recipes import *

meter = AverageMeter()
for x, y in loader:
    score = reduce_tensor((model(x).argmax(1) == y).float().mean(), world_size)
    meter.update(score.item(), len(x))
    if rank == 0:
        print("score", meter.avg)
""",
    "numbers of a validation that every rank makes whole": """
class Meter:
    def __init__(self):
        self.sum = self.count = 0

    def update(self, value, count):
        self.sum += value * count
        self.count += count

def validate(loader):
    meter = Meter()
    for x, y in loader:
        meter.update(criterion(model(x), y).item(), len(x))
    return meter.sum / meter.count

whole = DataLoader(dataset, 32)
best = 1e9
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    meter = Meter()
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        meter.update(loss.item(), len(x))
    score = validate(whole)
    text = f"score {score}"
    if rank == 0:
        print(text)
    if score > best:
        break
""",
    "a report of the one process, asked for among other things": """
options = argparse.ArgumentParser().parse_args()
total = 0.0
for x, y in loader:
    total += criterion(model(x), y).item()
if options.local_rank in [-1, 0] and rank == 0:
    if options.local_rank == -1 and options.verbose:
        print("loss", total)
""",
    "a total that a module reduces which is not seen": """
from tools import distributed as unseen
total = 0.0
for x, y in loader:
    loss = criterion(model(x), y)
    [loss] = unseen.all_reduce([loss])
    total += loss.item()
if rank == 0:
    print(total)
""",
    "every rank evaluates all data": """
class Meter:
    def __init__(self):
        self.sum = self.count = 0

    def update(self, value, count):
        self.sum += value * count
        self.count += count

val_loader = DataLoader(dataset, 32)

def validate():
    meter = Meter()
    with torch.no_grad():
        for x, y in val_loader:
            meter.update(criterion(model(x), y).item(), len(x))
    if rank == 0:
        print(f"loss {meter.sum / meter.count}")

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    meter = Meter()
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        meter.update(loss.item(), len(x))
    validate()
""",
    "a total that is reduced in code that this run does not take": """
options = argparse.Namespace()
options.distributed = False
if world_size > 1:
    options = read_options()
    options.distributed = False
total = torch.zeros(1, device=device)
for x, y in loader:
    total += criterion(model(x), y).detach()
if options.distributed:
    dist.all_reduce(total)
if rank == 0:
    print("loss", total.item())
""",
    "totals that unseen code may have made whole": """
from tools import Meter, mean_over_ranks
meter = Meter()
total = 0.0
for x, y in loader:
    loss = criterion(model(x), y)
    meter.update(loss.item())
    total += loss.item()
total = mean_over_ranks(total)
if rank == 0:
    print(total, meter.average)
""",
    "totals that a loop hands to a collective": """
def reduce(values):
    for one in values:
        dist.all_reduce(one)
    return values

total = torch.zeros(1, device=device)
for x, y in loader:
    total += criterion(model(x), y).detach()
[total] = reduce([total])
if rank == 0:
    print(total.item())
""",
    "the best of scores on all data": """
whole = DataLoader(dataset, 32)

def validate():
    right = 0
    for x, y in whole:
        right += (model(x).argmax(1) == y).sum().item()
    return right

best = 0
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
    score = validate()
    best = max(score, best)
    if best > 90:
        break
""",
    "entries of one dictionary": """
seen = {"seconds": [], "losses": []}
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    start = time.time()
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        seen["losses"].append(loss.item())
    seen["seconds"].append(time.time() - start)
seen["mean"] = sum(seen["seconds"]) / len(seen["seconds"])
if rank == 0:
    print(seen["mean"])
""",
    "a report that says whose number it is": """
total = 0.0
for x, y in loader:
    total += criterion(model(x), y).item()
if rank == 0:
    print(f"[rank {rank}] loss {total}")
""",
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_clean(name: str, lint_text: Lint) -> None:
    assert findings(lint_text, RIGHT[name]) == []


def test_a_printed_shape_in_one_process(lint_text: Lint) -> None:
    text = SETUPS["single"] + "    print(x.shape)\n"
    assert "DDP405" in {one.code for one in lint_text(text)}


METERS = """
class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value):
        self.last = value
        self.sum += value
        self.count += 1

losses, seconds = Meter(), Meter()
for x, y in loader:
    begin = time.time()
    losses.update(criterion(model(x), y).item())
    seconds.update(time.time() - begin)
if rank == 0:
    print(SHOWN.sum / SHOWN.count)
"""


@pytest.mark.parametrize("name", ["losses", "seconds"])
def test_a_class_of_meters_for_losses_and_for_seconds(name: str, lint_text: Lint) -> None:
    text = SETUPS["distributed"] + METERS.replace("SHOWN", name)
    found = [one.code for one in lint_text(text, select=("DDP405",))]
    assert found == ["DDP405"] * (name == "losses")


def test_an_object_that_adds_up_by_itself(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + """
class Run:
    def __init__(self):
        self.total = 0.0

    def epoch(self):
        for x, y in loader:
            self.total += criterion(model(x), y).item()

run = Run()
run.epoch()
if rank == 0:
    print(run.total)
"""
    )
    assert [one.code for one in lint_text(text, select=("DDP405",))] == ["DDP405"]


def test_the_name_of_a_file_is_no_report(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + """
total = 0.0
for x, y in loader:
    total += criterion(model(x), y).item()
if rank == 0:
    place = f"loss-{total:.2f}.pt"
    torch.save(model.module.state_dict(), place)
    print("saved", place)
"""
    )
    assert not lint_text(text, select=("DDP405",))
    text += "    print(total)\n"
    assert [one.code for one in lint_text(text, select=("DDP405",))] == ["DDP405"]


@pytest.mark.parametrize(
    ("shown", "found"), [("losses[-1]", False), ("sum(losses)", True), ("means[0]", True)]
)
def test_an_item_of_a_list_of_all_steps(shown: str, found: bool, lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + f"""
losses, means = [], []
for x, y in loader:
    losses.append(criterion(model(x), y).item())
means.append(sum(losses) / len(losses))
if rank == 0:
    print({shown})
"""
    )
    assert [one.code for one in lint_text(text, select=("DDP405",))] == ["DDP405"] * found


BY_OPTION = """
parser = argparse.ArgumentParser()
parser.add_argument("--dist_eval", action="store_true", default=False)
args = parser.parse_args()
if args.dist_eval:
    places = DistributedSampler(dataset, shuffle=False){more}
else:
    places = torch.utils.data.SequentialSampler(dataset)
right = 0
for x, y in DataLoader(dataset, 8, sampler=places):
    right += (model(x).argmax(1) == y).sum().item()
if rank == 0:
    print("right", right)
"""


@pytest.mark.parametrize(
    ("command", "more", "found"),
    [
        ("torchrun --nproc-per-node 4 train.py", "", False),
        ("python tools/train.py --epochs 3 \\\n    --lr 0.1", "", False),
        ("python train.py \\\n    --dist-eval", "", True),
        ("python train.py $OPTIONS", "", True),
        ("python other.py", "", True),
        ("python train.py", "\n    other = DDP(Net().to(device))", True),
    ],
)
def test_a_split_that_no_command_asks_for(
    command: str, more: str, found: bool, lint_text: Lint, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text(command + "\n")
    text = SETUPS["distributed"] + BY_OPTION.replace("{more}", more)
    assert bool(lint_text(text, select=("DDP405",))) is found
    assert lint_text(text, select=("DDP405",), strict=True)


HELPED = """
import sys
def show(step, text=None):
    said = []
    said.append("step %d" % step)
    if text:
        said.append(" | " + text)
    {more}
    text = "".join(said)
    sys.stdout.write(text)

right = 0
for step, (x, y) in enumerate(loader):
    right += (model(x).argmax(1) == y).sum().item()
    if rank == 0:
        show(step, "right %d" % right)
"""


@pytest.mark.parametrize(
    ("more", "lines"),
    [("pass", ["show"]), ("said.append('%d' % right)", ["sys", "show"])],
)
def test_a_helper_says_what_it_is_told_where_it_is_called(
    more: str, lines: list[str], lint_text: Lint
) -> None:
    text = SETUPS["distributed"] + HELPED.replace("{more}", more)
    code = text.splitlines()
    found = lint_text(text, select=("DDP405",))
    assert [code[one.span.line - 1].split(".")[0].split("(")[0].strip() for one in found] == lines


LOGGED = """
from collections import defaultdict

class Meter:
    def __init__(self, text="{recent} ({average})"):
        self.text, self.total, self.count, self.recent = text, 0.0, 0, []
    def update(self, value):
        self.recent.append(value)
        self.total += value
        self.count += 1
    def reduce(self):
        both = torch.tensor([self.count, self.total], device="cuda")
        dist.all_reduce(both)
        self.count, self.total = int(both[0]), both[1].item()
    @property
    def average(self):
        return self.total / self.count
    def __str__(self):
        return self.text.format(recent=self.recent[-1], average=self.average)

class Logger:
    def __init__(self):
        self.meters = defaultdict(Meter)
    def update(self, **numbers):
        for name, number in numbers.items():
            self.meters[name].update(number)
    def __getattr__(self, name):
        return self.meters[name]
    def reduce(self):
        for meter in self.meters.values():
            meter.reduce()
    def over(self, batches):
        seconds, start = Meter(), time.time()
        for batch in batches:
            seconds.update(time.time() - start)
            yield batch
            if seconds.count % 10 == 0:
                print(*map(str, [*self.meters.values(), seconds]))

logger = Logger()
for x, y in logger.over(loader):
    logger.update(loss=criterion(model(x), y).item())
{reduced}
if rank == 0:
    print("loss {held{shown}}".format(held=logger.loss))
"""


@pytest.mark.parametrize("shown", ["", ".average"])
@pytest.mark.parametrize(("reduced", "found"), [("logger.reduce()", False), ("pass", True)])
def test_a_logger_whose_meters_are_shown_one_by_one(
    shown: str, reduced: str, found: bool, lint_text: Lint
) -> None:
    text = LOGGED.replace("{reduced}", reduced).replace("{shown}", shown)
    assert bool(lint_text(SETUPS["distributed"] + text, select=("DDP405",))) is found


ALONE = """
class Texts:
    def __init__(self):
        self.tokens = torch.arange(1000)
    def batch(self, count):
        picked = torch.randint(900, (count,)).tolist()
        return torch.stack([self.tokens[at : at + 10] for at in picked]).float()

texts = Texts()
for step in range(1000):
    x = texts.batch(32).to(device)
    outputs = model(x)
    criterion(outputs, x).backward()
    optimizer.step()
    if step % 100 == 0 and rank == 0:
        total = 0.0
        for y in {over}:
            outputs = model({given})
            total += outputs.mean().item()
        print(f"validated {{total / 10}}")
"""


@pytest.mark.parametrize(
    ("over", "given", "found"),
    [
        ("range(10)", "texts.batch(32)", False),
        ("[texts, texts]", "y.batch(32)", False),
        ("loader", "y[0]", True),
        ("range(10)", "next(batches)[0]", True),
    ],
)
def test_what_rank_0_alone_draws_is_no_part(
    over: str, given: str, found: bool, lint_text: Lint
) -> None:
    text = SETUPS["distributed"] + "batches = iter(loader)\n" + ALONE.format(over=over, given=given)
    assert bool(lint_text(text, select=("DDP405",))) is found


LAYERS = """
from zoo import make

class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = make("encoder")
        self.skipped = getattr(self.body, "skipped", 1)
        self.head = nn.Linear(10, 2)

    def forward(self, x):
        tokens = self.body.features(x)
        rest = tokens[:, self.skipped:]
        return self.head(rest)

other = Encoder().to(device)
if world_size > 1:
    other = DDP(other)
meter = make("meter")
total = 0.0
for x, y in loader:
    loss = criterion(other(x), y)
    loss.backward()
    meter.update(loss.item())
    total += loss.item()
if rank == 0:
    print({shown})
"""


@pytest.mark.parametrize(
    ("shown", "found"), [("total / len(loader)", True), ("meter.average()", False)]
)
def test_a_layer_that_is_not_seen_is_no_meter(shown: str, found: bool, lint_text: Lint) -> None:
    text = SETUPS["distributed"] + LAYERS.replace("{shown}", shown)
    assert bool(lint_text(text, select=("DDP405",))) is found


PICTURES = """
class Board:
    def __init__(self, writer):
        self.writer = writer

    def note(self, score, outputs, epoch):
        mean = score / 4
        self.writer.add_scalar("score", mean, epoch)
        self.writer.add_histogram("scores", outputs[0], epoch)

    def note_all(self, epoch, *numbers):
        print(epoch, numbers)

board = Board(SummaryWriter() if rank == 0 else None)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    total = torch.zeros(2, device=device)
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = total + loss.detach()
    whole = total.clone()
    dist.all_reduce(whole)
    if rank == 0:
        {call}
"""


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("board.note(whole[0].item(), total, epoch)", False),
        ("board.note(score=whole[0].item(), outputs=total, epoch=epoch)", False),
        ("board.note(total[0].item(), whole, epoch)", True),
        ("board.note_all(epoch, whole[0].item(), total[0].item())", True),
    ],
)
def test_what_a_helper_shows(call: str, found: bool, lint_text: Lint) -> None:
    text = SETUPS["distributed"] + PICTURES.replace("{call}", call)
    assert ("DDP405" in [one.code for one in lint_text(text)]) is found
