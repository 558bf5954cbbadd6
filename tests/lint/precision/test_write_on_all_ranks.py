"""Right code, in forms that were once reported: writes that are not those of all ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint.conftest import Lint
from tests.lint.precision.snippets import RENDEZVOUS, STARTS, STEP, findings
from tests.lint.setups import SETUPS

RIGHT = {
    "an empty file, to lock": """
from pathlib import Path
Path("checkpoints.lock").touch(exist_ok=True)
""",
    "a file that no call asks for": """
def lines(table=None):
    if table:
        with open(table, "w") as file:
            json.dump([1], file)
    return [1]

print(len(lines()))
""",
    "a folder that the system makes": """
os.system("mkdir -p ./checkpoints")
""",
    "a function for rank 0, or for the one process": """
def save():
    torch.save(model.module.state_dict(), path)

options = argparse.ArgumentParser().parse_args()
if options.distributed:
    if rank == 0:
        save()
else:
    save()
""",
    "a branch for one process, beside one with another word": """
options = argparse.ArgumentParser().parse_args()
if options.dist == "off":
    net.load_state_dict(torch.load(path))
    torch.save(net.state_dict(), path)
if options.dist == "on":
    model = DDP(net, device_ids=[local_rank])
""",
    "the other side of a question, asked anew": """
options = argparse.ArgumentParser().parse_args()
if options.dist:
    model = DDP(net, device_ids=[local_rank])
if not options.dist:
    torch.save(net.state_dict(), path)
""",
    "a save in a function, for one process or for rank 0": """
options = argparse.ArgumentParser().parse_args()

def save(state):
    if options.dist_train:
        if dist.get_rank() == 0:
            torch.save(state, path)
    else:
        torch.save(state, path)

save(net.state_dict())
""",
    "what a switch of the process's environment asks for": """
if os.environ.get("SHOW"):
    torch.save(net.state_dict(), path)
""",
    "a save where a name says which rank": """
options = argparse.ArgumentParser().parse_args()

def save(settings):
    saves = settings.local_rank in [-1, 0]
    if saves:
        torch.save(net.state_dict(), path)

save(options)
""",
    "a path with an option for the process": """
options = argparse.ArgumentParser().parse_args()
torch.save(net.state_dict(), os.path.join(path, "part_" + str(options.shard_id) + ".pt"))
torch.save(net.state_dict(), f"{path}.{options.gpu}")
""",
    "a save under a lock": """
from filelock import FileLock
with FileLock("model.lock"):
    torch.save(net.state_dict(), path)
""",
    "an object that is told whether to write": """
class Log:
    def __init__(self, on):
        self.on = on

    def write(self, text):
        if self.on:
            with open("log.txt", "a") as file:
                file.write(text)

Log(argparse.ArgumentParser().parse_args().local_rank <= 0).write("started")
""",
    "a path with a name out of code that ddpify cannot read": """
from recipes import fresh_name
torch.save(net.state_dict(), f"{path}-{fresh_name()}.pt")
""",
    "a launcher that starts the ranks": """
def start():
    for index in range(4):
        log = open(f"gpu{index}.log", "w")
        subprocess.Popen(["python", "train.py"], stdout=log)

start()
""",
    "a launcher that makes a folder": """
def start():
    if not os.path.isdir("logs"):
        os.makedirs("logs")
    for index in range(4):
        subprocess.Popen(["python", "train.py", str(index)])

start()
""",
    "ways out of a function for all ranks but one": """
import sys

def save(number):
    if number != 0:
        sys.exit(0)
    torch.save(net.state_dict(), path)

def write(number):
    if number != 0:
        return
    else:
        print("writing")
    torch.save(net.state_dict(), path)

def put(number):
    match number:
        case 0:
            torch.save(net.state_dict(), path)

write(rank)
put(rank)
save(rank)
""",
    "objects and functions that rank 0 alone has": """
class Saver:
    def save(self, state):
        torch.save(state, path)

def keep(best):
    if best:
        torch.save(net.state_dict(), path)

saver = Saver() if rank == 0 else None
if saver is not None:
    saver.save(net.state_dict())
write = torch.save if rank == 0 else print
write(net.state_dict(), path)
best = False
if rank == 0:
    best = True
keep(best)
""",
    "files of a process": """
import tempfile
with tempfile.TemporaryDirectory() as folder:
    torch.save(net.state_dict(), os.path.join(folder, "model.pt"))
with open(os.devnull, "w") as nothing:
    nothing.write("text")
""",
    "a write and a barrier of one process": """
if world_size == 1:
    torch.save(net.state_dict(), path)
if rank == 0 and world_size < 2:
    dist.barrier()
""",
    "a guard by an attribute that nothing sets": """
class Trainer:
    def save(self):
        torch.save(net.state_dict(), path)

    def fit(self):
        if self.gpu_id == 0:
            self.save()

Trainer().fit()
""",
    "files named after samples": """
batches = iter(loader)
for number in range(len(loader)):
    x, names = next(batches)
    for one, name in zip(model(x), names):
        np.save(os.path.join("out", name), one.cpu().numpy())
""",
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_clean(name: str, lint_text: Lint) -> None:
    assert findings(lint_text, RIGHT[name]) == []


@pytest.mark.parametrize("start", STARTS)
def test_the_number_that_a_group_is_joined_under_is_the_rank(start: str, lint_text: Lint) -> None:
    imports = SETUPS["distributed"].split("local_rank =")[0] + "import pool\n"
    for guard, expected in (("if number == 0:", False), ("if epoch == 0:", start == "processes")):
        text = imports + RENDEZVOUS.replace("{guard}", guard).replace("{start}", STARTS[start])
        assert ("DDP501" in {one.code for one in lint_text(text)}) == expected


WORKER = """
def worker(number, count, export):
    dist.init_process_group("nccl", rank=number, world_size=count)
    model = DDP(Net().to(number), device_ids=[number])
    if {when}:
        torch.save(model.module.state_dict(), path)

def main(export):
    if export or torch.cuda.device_count() < 2:
        worker(0, 1, export)
    else:
        mp.spawn(worker, nprocs=2, args=(2, export))

main(argparse.ArgumentParser().parse_args().export)
"""


def test_what_only_a_run_without_ranks_asks_for(lint_text: Lint) -> None:
    text = SETUPS["distributed"].split("local_rank =")[0] + WORKER
    assert lint_text(text.replace("{when}", "export"), select=("DDP501",)) == []
    assert lint_text(text.replace("{when}", "not export"), select=("DDP501",)) != []


def test_one_finding_for_a_file_that_is_opened_and_written(lint_text: Lint) -> None:
    text = SETUPS["distributed"] + 'json.dump([1], open("rows.json", "w"))\n'
    assert len(lint_text(text, select=("DDP501",))) == 1


def test_a_folder_for_all_processes(lint_text: Lint) -> None:
    text = """
import tempfile
torch.save(net.state_dict(), os.path.join(tempfile.gettempdir(), "model.pt"))
"""
    assert lint_text(SETUPS["distributed"] + text, select=("DDP501",)) != []


def test_where_a_model_lies_is_no_part_of_a_path(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + """
net.name = "small"
for x, y in loader:
    criterion(model(x), y).backward()
torch.save(model.module.state_dict(), f"{model.module.name}.pt")
torch.save(net.state_dict(), "{}.pt".format(net.name))
"""
    )
    assert [one.code for one in lint_text(text, select=("DDP501",))] == ["DDP501"] * 2


def test_a_path_out_of_a_file_of_settings(lint_text: Lint) -> None:
    text = (
        "import yaml\nfrom addict import Dict\n"
        + SETUPS["distributed"]
        + """
settings = Dict(yaml.safe_load(open("settings.yaml")))
torch.save(net.state_dict(), os.path.join(settings.folder, "last.pt"))
"""
    )
    assert [one.code for one in lint_text(text, select=("DDP501",))] == ["DDP501"]


def test_a_folder_out_of_an_unseen_library(lint_text: Lint) -> None:
    save = 'torch.save(net.state_dict(), os.path.join(FOLDER, "best.pt"))\n'
    text = "import tracker\n" + SETUPS["distributed"] + save
    assert not lint_text(text.replace("FOLDER", "tracker.run.dir"), select=("DDP501",))
    found = lint_text(text.replace("FOLDER", '"out"'), select=("DDP501",))
    assert [one.code for one in found] == ["DDP501"]


def test_a_call_of_one_of_several_classes(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + """
class Plain:
    def finish(self):
        torch.save(net.state_dict(), "net.pt")

class Parallel:
    def finish(self):
        if rank == 0:
            torch.save(net.state_dict(), "net.pt")

kinds = {"plain": Plain, "parallel": Parallel}
kind = argparse.ArgumentParser().parse_args().kind
KIND().finish()
"""
    )
    assert not lint_text(text.replace("KIND()", "kinds[kind]()"), select=("DDP501",))
    found = lint_text(text.replace("KIND()", "Plain()"), select=("DDP501",))
    assert [one.code for one in found] == ["DDP501"]


def test_a_process_beside_the_ranks(lint_text: Lint) -> None:
    text = """
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def watch(path):
    with open(path, "w") as file:
        file.write("busy")

def work(rank, path):
    dist.init_process_group("gloo", rank=rank, world_size=2)
    with open(path, "w") as file:
        file.write("done")

if __name__ == "__main__":
    mp.Process(target=watch, args=("log.txt",)).start()
    mp.spawn(work, ("out.txt",), 2)
"""
    lines = text.splitlines()
    found = [lines[one.span.line - 2] for one in lint_text(text, select=("DDP501",))]
    assert found == ['    dist.init_process_group("gloo", rank=rank, world_size=2)']


REMOVED = """
for x, y in DataLoader(data, sampler=DistributedSampler(data)):
    F.cross_entropy(model(x), y).backward()
Path("old.txt").unlink(missing_ok=True)
os.system(f"rm -rf {path}.old")
subprocess.run("rm old.txt", shell=True)
held = sqlite3.connect("held.db").execute("select 1").fetchall()
Path("new.txt").write_text("x")
"""


def test_what_is_taken_away_or_read_is_not_written(lint_text: Lint) -> None:
    text = SETUPS["distributed"] + "import sqlite3\nfrom pathlib import Path\n" + REMOVED
    found = [one.message for one in lint_text(text, select=("DDP501",))]
    assert len(found) == 1 and "write_text()" in found[0]


def test_what_is_asserted_to_be_one_process_before(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + STEP
        + """
def search():
    {asserted}
    if epochs:
        torch.save(net.state_dict(), "best.pt")

search()
"""
    )
    for alone in ('assert local_rank == -1, "one process"', "assert world_size == 1"):
        assert not lint_text(text.replace("{asserted}", alone), select=("DDP501",))
    for several in ("assert local_rank >= 0", "assert world_size > 1"):
        assert lint_text(text.replace("{asserted}", several), select=("DDP501",))


TRAINING = """
import torch
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

def train(net, loader, options):
    if options.distributed:
        net = DDP(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
"""


ONE_OF_TWO = """
import argparse
import torch
import torch.nn as nn
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from training import train

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--distributed", action="store_true")
    options = parser.parse_args()
    {start}
    net = nn.Linear(3, 2)
    train(net, DataLoader(TensorDataset(torch.ones(9, 3), torch.ones(9).long()), 3), options)
    torch.save(net.state_dict(), "net.pt")
"""


def test_a_script_that_never_starts_the_group(lint_text: Lint, tmp_path: Path) -> None:
    """The training that it shares with others wraps the model for them."""
    (tmp_path / "training.py").write_text(TRAINING)
    for start in ("pass", "print(options)"):
        assert not lint_text(ONE_OF_TWO.replace("{start}", start), select=("DDP501", "DDP101"))
    for start in ('dist.init_process_group("nccl")', "unseen.init_distributed()"):
        found = lint_text(ONE_OF_TWO.replace("{start}", start), select=("DDP501", "DDP101"))
        assert {one.code for one in found} == {"DDP501", "DDP101"}


def test_a_write_in_another_file_is_named(lint_text: Lint, tmp_path: Path) -> None:
    (tmp_path / "files.py").write_text(
        'import torch\n\n\ndef keep(net):\n    torch.save(net, "a.pt")\n'
    )
    text = SETUPS["distributed"] + STEP + "from files import keep\nkeep(net.state_dict())\n"
    found = [one.message for one in lint_text(text, select=("DDP501",))]
    assert found == [
        "all ranks write the same file with save() in files.py:5: it may be corrupt",
    ]


@pytest.mark.parametrize("lock", ["fcntl.flock(file, fcntl.LOCK_EX)", "fcntl.lockf(file, 2)"])
def test_a_file_that_one_rank_after_the_other_writes(lock: str, lint_text: Lint) -> None:
    text = (
        "import fcntl\n"
        + SETUPS["distributed"]
        + """
def note(score):
    with open("scores.json", "r+") as file:
        {lock}
        held = json.load(file)
        file.seek(0)
        json.dump({**held, "score": score}, file)

for x, y in loader:
    criterion(model(x), y).backward()
note(1)
"""
    )
    assert not lint_text(text.replace("{lock}", lock), select=("DDP501",))
    assert lint_text(text.replace("{lock}", "pass"), select=("DDP501",))


MEASURED = """
from zoo import score, name_of

value = score(model)
torch.save(model.module.state_dict(), {path})
"""


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ('f"net-{value:.2f}.pt"', True),
        ('f"net-{value:.3e}.pt"', True),
        ('f"net-{value}.pt"', False),
        ('f"net-{rank:.0f}.pt"', False),
        ('f"net-{name_of(value)}-{value:.2f}.pt"', False),
    ],
)
def test_a_number_with_decimals_is_no_process(path: str, found: bool, lint_text: Lint) -> None:
    text = SETUPS["distributed"] + MEASURED.replace("{path}", path)
    assert bool(lint_text(text, select=("DDP501",))) is found


@pytest.mark.parametrize(
    ("command", "found"),
    [("pip install -U einops", False), ("python prepare.py --out data.pt", True)],
)
def test_what_installs_a_missing_package(command: str, found: bool, lint_text: Lint) -> None:
    text = f"""
try:
    import einops
except ImportError:
    os.system("{command}")
{STEP}"""
    codes = [one.code for one in lint_text(SETUPS["distributed"] + text)]
    assert ("DDP501" in codes) is found
