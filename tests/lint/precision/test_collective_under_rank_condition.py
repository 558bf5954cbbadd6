"""Right code, in forms that were once reported: collectives that every rank reaches."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.precision.snippets import findings
from tests.lint.setups import SETUPS

RIGHT = {
    "an object of all ranks that is made of what one rank has opened": """
buffer = torch.zeros(8) if rank == 0 else torch.ones(8)
holder = None
if epochs > 5:
    holder = Net() if epochs > 7 else None
if holder is not None:
    dist.barrier()
""",
    "a barrier for the ranks that leave, and one for the others": """
def merge(first_only):
    if first_only:
        if dist.get_rank() != 0:
            dist.barrier()
            return None
    merged = os.listdir(".")
    dist.barrier()
    return merged

merge(True)
""",
    "a bar of one rank over the batches of all": """
from tqdm import tqdm
bar = tqdm(loader) if rank == 0 else loader
total = 0.0
for x, y in bar:
    total += criterion(model(x), y).item()
mean = total / len(loader) if epochs > 3 else None
if mean is not None:
    whole = torch.tensor(mean, device=device)
    dist.all_reduce(whole)
""",
    "a function that reads the rank and the number of ranks": """
def first_of(names):
    for name in names:
        if name in os.environ:
            return int(os.environ[name])
    return -1

place, count = first_of(["RANK", "PMI_RANK"]), first_of(["WORLD_SIZE", "PMI_SIZE"])
if count > 1:
    dist.barrier()
""",
    "an entry beside the rank, in settings that went through functions": """
def read(given):
    found = {"infer": {"enabled": False}}
    found.update(given)
    return found

given = {}
given["group"] = {"rank": rank}
settings = read(given)
if dist.is_initialized() and not settings["infer"]["enabled"]:
    dist.barrier()
""",
    "what rank 0 has told all ranks": """
wanted = torch.tensor([1 if (rank == 0 and os.path.exists("stop")) else 0], device=device)
dist.broadcast(wanted, src=0)
stops = wanted.item() == 1
if stops:
    dist.barrier()
""",
    "whether there are ranks, by the number of this one": """
several = int(os.environ.get("RANK", -1)) != -1
if several:
    dist.barrier()
""",
    "a rank that ends all with an error": """
import sys
if rank == 0 and epochs > 100:
    print("too long")
    sys.exit(1)
dist.barrier()
""",
    "ranks that leave early meet the others first": """
def report(name):
    if rank != 0:
        dist.barrier()
        return
    print(name)
    dist.barrier()

report(path)
""",
    "options beside the rank in one dictionary": """
def report(settings):
    if settings["verbose"]:
        model(torch.zeros(1, 10, device=device))
        dist.barrier()

settings = {"verbose": True}
settings["rank"] = rank
report(settings)
""",
    "a collective in either case": """
dist.barrier() if rank == 0 else dist.barrier()
""",
    "a check of the rank that fails": """
if local_rank >= torch.cuda.device_count():
    raise RuntimeError("more ranks than GPUs")
other = DDP(Net().to(device), device_ids=[local_rank])
dist.barrier()
""",
    "one rank goes first": """
@contextlib.contextmanager
def first():
    if local_rank != 0:
        dist.barrier()
    yield
    if local_rank == 0:
        dist.barrier()

with first():
    if not os.path.exists("cache.json"):
        with open("cache.json", "w") as file:
            json.dump([1], file)
""",
    "what an earlier call of all ranks has left": """
import functools

@functools.cache
def measure(step):
    dist.barrier()
    return step

measure(3)
if rank == 0:
    print(measure(3))
""",
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_clean(name: str, lint_text: Lint) -> None:
    assert findings(lint_text, RIGHT[name]) == []


@pytest.mark.parametrize(
    ("guard", "found"),
    [("rank == 0", True), ("place == 0", True), ("unsure == 0", False), ("told['id'] == 0", False)],
)
def test_a_hang_needs_a_condition_that_is_on_the_rank(
    guard: str, found: bool, lint_text: Lint
) -> None:
    text = SETUPS["distributed"]
    text += f"""
place = -1
if dist.is_initialized():
    place = dist.get_rank()
unsure = len(os.listdir("."))
if epochs > 5:
    unsure = dist.get_rank()
told = {{"id": rank, "kind": len(path)}}
if {guard}:
    dist.barrier()
"""
    assert [one.code for one in lint_text(text, select=("DDP401",))] == ["DDP401"] * found


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("dist.all_reduce(total, dist.ReduceOp.SUM)", True),
        ("dist.all_reduce(total, dist.ReduceOp.SUM, pair)", False),
        ("dist.barrier(pair)", False),
        ("dist.reduce(total, 0, dist.ReduceOp.SUM, pair)", False),
        ("dist.new_group([0, 1], None, 'gloo')", True),
    ],
)
def test_some_ranks_meet_in_a_group_of_their_own(call: str, found: bool, lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + f"""
pair = dist.new_group([0, 1])
total = torch.zeros(1, device=device)
if rank in (0, 1):
    {call}
"""
    )
    assert [one.code for one in lint_text(text, select=("DDP401",))] == ["DDP401"] * found


def test_a_wrapper_with_a_group_of_its_own(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + """
workers = dist.new_group([0, 1])
if rank in (0, 1):
    inner = DDP(Net().to(device), device_ids=[local_rank], process_group=workers)
    for x, y in loader:
        criterion(inner(x), y).backward()
"""
    )
    assert not lint_text(text, select=("DDP401", "DDP403"))
    text = text.replace(", process_group=workers", "")
    found = {one.code for one in lint_text(text, select=("DDP401", "DDP403"))}
    assert found == {"DDP401", "DDP403"}


def test_a_rank_that_may_have_nothing_left(lint_text: Lint) -> None:
    """There may be enough for all; which rank it is, is another question."""
    text = (
        SETUPS["distributed"]
        + """
for i in range(4):
    own = list(range(rank * 8 + i, rank * 8 + 8))
    own = [k for k in own if k < len(dataset)]
    if {test}:
        break
    dist.all_reduce(torch.zeros(1, device=device))
"""
    )
    assert not lint_text(text.replace("{test}", "not own"), select=("DDP401",))
    assert lint_text(text.replace("{test}", "rank > 2"), select=("DDP401",))


LEFT = """
def leave():
    if {asked}:
        dist.destroy_process_group()

def probe():
    dist.all_reduce(torch.zeros(1))

{before}
if rank == 0:
    {first}
    probe()
"""


@pytest.mark.parametrize(
    ("before", "first", "asked", "found"),
    [
        ("pass", "leave()", "dist.is_initialized()", False),
        ("pass", "print(1)", "dist.is_initialized()", True),
        ("pass", "leave()", "epochs > 20", True),
        ("leave(); dist.init_process_group('nccl')", "print(1)", "dist.is_initialized()", True),
    ],
)
def test_what_a_rank_does_after_it_has_left_the_group(
    before: str, first: str, asked: str, found: bool, lint_text: Lint
) -> None:
    text = LEFT.format(before=before, first=first, asked=asked)
    assert ("DDP401" in {one.code for one in findings(lint_text, text)}) is found


AGREED = """
state = {"rows": None}
for step in range(epochs):
    if state.get("rows") is not None:
        dist.all_reduce(torch.zeros(1))
    if rank == 0:
        chosen = random.randint(0, 3)
    else:
        chosen = 0
    sent = torch.tensor(chosen)
    {sending}
    {taking}
    width = [1, 2, 3, 4][chosen]
    state["rows"] = torch.zeros(width) if {test} else None
"""


@pytest.mark.parametrize(
    ("sending", "taking", "test", "found"),
    [
        ("dist.broadcast(sent, 0)", "chosen = sent.item()", "width", False),
        ("sent += 1", "chosen = sent.item()", "width", True),
        ("dist.broadcast(sent, 0)", "pass", "width", True),
        ("dist.broadcast(sent, 0)", "if step > 3: chosen = sent.item()", "width", True),
    ],
)
def test_what_is_made_of_a_number_that_all_have_agreed_on(
    sending: str, taking: str, test: str, found: bool, lint_text: Lint
) -> None:
    text = AGREED.replace("{sending}", sending).replace("{taking}", taking).replace("{test}", test)
    assert ("DDP401" in {one.code for one in findings(lint_text, text)}) is found


TOLD = """
def begin():
    return open("log.txt", "w")

def make(log, size):
    if log is not None:
        log.write("made")
    return {given}, size

def resume(held):
    last = torch.load("last.pt", map_location="cpu")
    return {resumed}

log = begin() if rank == 0 else None
held, size = make(log, 10)
step = resume(held)
for epoch in range(epochs):
    ready = {test}
    if ready:
        dist.barrier()
"""


@pytest.mark.parametrize(
    ("given", "resumed", "test", "found"),
    [
        ("[torch.zeros(size)]", 'last["step"]', "step + epoch > 5", False),
        ("[torch.zeros(size)]", "held", "step", False),
        ("log", 'last["step"]', "step + epoch > 5", False),
        ("log", "held", "step", True),
        ("log", 'last["step"]', "held", True),
    ],
)
def test_what_a_function_is_given_and_does_not_give_back(
    given: str, resumed: str, test: str, found: bool, lint_text: Lint
) -> None:
    text = TOLD.replace("{given}", given).replace("{resumed}", resumed).replace("{test}", test)
    assert ("DDP401" in {one.code for one in findings(lint_text, text)}) is found
