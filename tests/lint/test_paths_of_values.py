"""What excuses or makes a finding is on the way of its value, not anywhere in the file."""

from __future__ import annotations

import pytest

from ddpify.lint.diagnostics import Confidence
from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

LOOP = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion({model}(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
STEP = LOOP.format(model="model")
WHOLE = """
class Samples(Dataset):
    def __init__(self, files):
        if {asks}:
            {inside}
        self.files = files

    def __getitem__(self, index):
        return self.files[index], 0

    def __len__(self):
        return len(self.files)

everything = DataLoader(Samples(list(range(100))), 8, shuffle=True)
for x, y in everything:
    loss = criterion(model(x.to(device)), y.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
ENTRIES = """
def mean_over_ranks(value):
    dist.all_reduce(value)
    return value / world_size

kept = {"loss": [], "penalty": []}
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept["loss"].append(mean_over_ranks(loss.detach()).item())
        kept["penalty"].append({penalty})
    for k in kept.keys():
        kept[k] = sum(kept[k]) / len(kept[k])
    if rank == 0:
        print("penalty " + str(kept["penalty"]))
"""
HELPER = """
def show(text):
    print(text)

total = torch.zeros(1, device=device)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    {reduce}
    if rank == 0:
        show(f"loss {{total.item() / len(loader) / world_size}}")
"""
SEEDED = """
class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(10, 2, dropout={share})

    def forward(self, x):
        return self.attention(x, x, x)[0]

attending = DDP(Attending().to(device), device_ids=[local_rank])
with open(f"settings-{{time.time()}}.json", "w") as f:
    json.dump({{}}, f)
with open("settings.json") as f:
    settings = json.load(f)
torch.manual_seed({seed})
for x, y in loader:
    criterion(attending(x.to(device)), y.to(device)).backward()
"""
COLLATED = """
def put_together(samples):
    return torch.stack([x for x, _ in samples]), torch.tensor([y for _, y in samples])

batches = DataLoader(dataset, 8, sampler=sampler, collate_fn=put_together)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in batches:
        loss = criterion(net(x{moved}), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

FLAGS = (
    STEP
    + """
def save(state, best=False):
    torch.save(state, path)
    if best:
        torch.save(state, "best.pt")

if rank == 0:
    save(net.state_dict(), True)
    save(net.state_dict(), best=False)
{more}
"""
)
TASKS = """
import argparse
import json
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def compare(options):
    with open("compared.json", "w") as file:
        json.dump({{}}, file)


def main(options):
    if options.compare:
        compare(options)
        {end}
    dist.init_process_group("nccl")
    device = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(device)
    model = DDP(torch.nn.Linear(1, 1).to(device), device_ids=[device])
    model(torch.zeros(1, 1, device=device)).sum().backward()


parser = argparse.ArgumentParser()
parser.add_argument("--compare", action="store_true")
main(parser.parse_args())
"""
GATHERED = """
def sizes(tensor):
    {own}
    parts = [torch.zeros_like(own) for _ in range(world_size)]
    dist.all_gather(parts, own)
    return torch.cat(parts)

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        out = model(x.to(device))
        loss = criterion(out, y.to(device)) + sizes(out).float().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
LISTED = """
class Pictures(Dataset):
    def __init__(self, folder):
        self.files = []
        names = []
        for name in os.listdir(folder):
            names.append(name)
        {order}
        for name in names:
            self.files.append(os.path.join(folder, name))
        self.files = [one for one in self.files]

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return torch.load(self.files[index], map_location="cpu"), 0

pictures = Pictures("data")
chosen = DistributedSampler(pictures)
for x, y in DataLoader(pictures, 4, sampler=chosen):
    criterion(model(x.to(device)), y.to(device)).backward()
    optimizer.step()
"""
TAKEN = """
batches = iter(loader)
for step in range(100):
    x, y = next(batches)
    loss = criterion(model(x.to(device)), y.to(device))
    if {number} > 10:
        break
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LOGGED = (
    STEP
    + """
log_folder = None

def use(folder):
    global log_folder
    log_folder = folder

def note(text):
    {asks}
        with open(os.path.join("logs", "log.txt"), "a") as file:
            file.write(text)

if rank == 0:
    use("logs")
note("done")
"""
)
WINDOWS = """
parser = argparse.ArgumentParser()
parser.add_argument("--every", type=int, default={every})
args = parser.parse_args()
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for i, (x, y) in enumerate(loader):
        criterion(model(x.to(device)), y.to(device)).backward()
        if i % args.every == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
MEETING = (
    STEP
    + """
def meet():
    if not dist.is_available() or not dist.is_initialized():
        return
    if dist.get_world_size() == 1:
        return
    dist.barrier()

if {asks}:
    meet()
"""
)
PARTS = (
    STEP
    + """
part = DistributedSampler(dataset, num_replicas={size}, rank={part})
for x, y in DataLoader(dataset, 8, sampler=part):
    criterion(model(x.to(device)), y.to(device)).backward()
"""
)


def entries(penalty: str) -> str:
    return ENTRIES.replace("{penalty}", penalty)


@pytest.mark.parametrize(
    ("code", "wrong", "right"),
    [
        pytest.param(
            "DDP101",
            WHOLE.format(asks="rank == 0", inside="print(len(files))"),
            WHOLE.format(asks="world_size > 1", inside="files = files[rank::world_size]"),
            id="a rank that only decides who prints",
        ),
        pytest.param(
            "DDP405",
            entries("net.penalty().item() + loss.item()"),
            entries("mean_over_ranks(loss.detach()).item()"),
            id="one reduced entry of a dictionary",
        ),
        pytest.param(
            "DDP405",
            HELPER.format(reduce="pass"),
            HELPER.format(reduce="dist.all_reduce(total)"),
            id="a report by a function of the project",
        ),
        pytest.param(
            "DDP601",
            SEEDED.format(share=0.1, seed='settings.get("seed", 0)'),
            SEEDED.format(share=0.1, seed='settings.get("seed", 0) + rank'),
            id="a file that is written beside the settings",
        ),
        pytest.param(
            "DDP601",
            SEEDED.format(share=0.1, seed=0),
            SEEDED.format(share=0.0, seed=0),
            id="dropout in attention",
        ),
        pytest.param(
            "DDP208",
            COLLATED.format(moved=""),
            COLLATED.format(moved=".to(device)"),
            id="batches of a collate function that knows no device",
        ),
        pytest.param(
            "DDP501",
            "steps = epochs * len(loader)\n"
            + STEP
            + 'torch.save(net.state_dict(), f"{steps}.pt")\n',
            "steps = epochs * len(loader)\n"
            + STEP
            + 'torch.save(net.state_dict(), f"{steps}-{rank}.pt")\n',
            id="a path with the length of a loader that is made for a rank",
        ),
        pytest.param(
            "DDP501",
            FLAGS.format(more="save(net.state_dict(), best=True)"),
            FLAGS.format(more="pass"),
            id="a flag that says no",
        ),
        pytest.param(
            "DDP411",
            GATHERED.format(own="own = tensor * 2"),
            GATHERED.format(own="own = torch.tensor([len(tensor)], device=device)"),
            id="numbers that are gathered",
        ),
        pytest.param(
            "DDP116",
            LISTED.format(order="pass"),
            LISTED.format(order="names = sorted(names)"),
            id="a list that is sorted before it is used",
        ),
        pytest.param(
            "DDP402",
            TAKEN.format(number="loss.item()"),
            TAKEN.format(number="step"),
            id="a batch that next() takes",
        ),
        pytest.param(
            "DDP501",
            LOGGED.format(asks="if text:"),
            LOGGED.format(asks="if log_folder is not None:"),
            id="a global that rank 0 alone sets",
        ),
        pytest.param(
            "DDP601",
            SEEDED.format(share=0.1, seed=1),
            SEEDED.format(share=0.1, seed="random.randint(1, 1000)"),
            id="a seed that each process draws",
        ),
        pytest.param(
            "DDP801",
            WINDOWS.format(every=4),
            WINDOWS.format(every=1),
            id="a window of one batch",
        ),
        pytest.param(
            "DDP401",
            MEETING.format(asks="rank == 0"),
            MEETING.format(asks="epochs > 3"),
            id="a helper that meets where there is a group",
        ),
        pytest.param(
            "DDP308",
            'if rank == 0:\n    net.load_state_dict(torch.load(path, map_location="cpu"))\n' + STEP,
            STEP + 'if rank == 0:\n    net.load_state_dict(torch.load(path, map_location="cpu"))\n',
            id="weights that are loaded after the last step",
        ),
        pytest.param(
            "DDP104",
            PARTS.format(size="torch.cuda.device_count()", part="rank"),
            PARTS.format(size="world_size", part="rank"),
            id="a node's number of parts",
        ),
        pytest.param(
            "DDP104",
            PARTS.format(size="world_size", part="0"),
            PARTS.format(size="1", part="0"),
            id="one certain part",
        ),
    ],
)
def test_found_where_it_is_wrong(lint_text: Lint, code: str, wrong: str, right: str) -> None:
    head = SETUPS["distributed"]
    found = [code in {one.code for one in lint_text(head + text)} for text in (wrong, right)]
    assert found == [True, False]


def test_all_of_the_data_past_the_wrapper(lint_text: Lint) -> None:
    whole = SETUPS["distributed"].replace("32, sampler=sampler", "32, shuffle=True")
    text = whole + LOOP.format(model="model.module").replace("    sampler.set_epoch(epoch)\n", "")
    assert {"DDP101", "DDP303"} <= {one.code for one in lint_text(text)}


def test_a_rate_beside_a_step_is_likely_whatever_leads_to_both(lint_text: Lint) -> None:
    rate = '        optimizer.param_groups[0]["lr"] = 0.1 * loss.item()\n'
    loop = (STEP + rate).replace("\n", "\n    ")
    options = "args = argparse.ArgumentParser().parse_args()\nif args.train:\n"
    found = lint_text(SETUPS["distributed"] + options + loop)
    confidences = [one.confidence for one in found if one.code == "DDP406"]
    assert confidences == [Confidence.LIKELY]


def test_all_of_the_data_by_the_name_of_a_bar(lint_text: Lint) -> None:
    head = "from tqdm import tqdm\n" + SETUPS["distributed"]
    loop = LOOP.format(model="model").replace("    sampler.set_epoch(epoch)\n", "")
    bar = "    batches = enumerate(loader)\n    if rank == 0:\n        batches = tqdm(batches)\n"
    named = loop.replace("    for x, y in loader:\n", bar + "    for i, (x, y) in batches:\n")
    whole = head.replace("32, sampler=sampler", "32, shuffle=True")
    found = ["DDP101" in {one.code for one in lint_text(text + named)} for text in (whole, head)]
    assert found == [True, False]


@pytest.mark.parametrize("beside", [False, True])
def test_a_wrapper_that_another_training_calls(lint_text: Lint, beside: bool) -> None:
    own = "criterion(model(torch.zeros(4, 10)), torch.zeros(4).long()).backward()\n"
    elsewhere = f"def measure():\n    {own}\nmeasure()\n"
    text = LOOP.format(model="model.module") + (own if beside else elsewhere)
    assert "DDP303" in {one.code for one in lint_text(SETUPS["distributed"] + text)}


def test_a_model_that_moves_its_inputs_itself(lint_text: Lint) -> None:
    moving = SETUPS["distributed"].replace("self.l2(self.l1(x)", "self.l2(self.l1(x.to(device))")
    codes = {one.code for one in lint_text(moving + COLLATED.format(moved=""))}
    assert "DDP208" not in codes


@pytest.mark.parametrize(("end", "found"), [("pass", True), ("return", False)])
def test_what_ends_before_the_group_starts(lint_text: Lint, end: str, found: bool) -> None:
    codes = {one.code for one in lint_text(TASKS.format(end=end))}
    assert ("DDP501" in codes) is found


@pytest.mark.parametrize(("divisor", "found"), [("size", True), ("4", False)])
def test_the_number_that_a_group_is_told(lint_text: Lint, divisor: str, found: bool) -> None:
    head = SETUPS["distributed"].split("local_rank =")[0]
    text = f"""
def work(rank, size):
    dist.init_process_group("nccl", rank=rank, world_size=size)
    torch.cuda.set_device(rank)
    model = DDP(Net().to(rank), device_ids=[rank])
    loss = criterion(model(torch.zeros(4, 10).to(rank)), torch.zeros(4).long().to(rank))
    (loss / {divisor}).backward()

mp.spawn(work, args=(torch.cuda.device_count(),), nprocs=torch.cuda.device_count())
"""
    assert ("DDP409" in {one.code for one in lint_text(head + text)}) is found
