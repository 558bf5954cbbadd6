"""Code that is right, in forms that were once reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.lint.diagnostics import Confidence
from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

STEP = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
"""
RIGHT = {
    "a folder that the system makes": """
os.system("mkdir -p ./checkpoints")
""",
    "an object of all ranks that is made of what one rank has opened": """
buffer = torch.zeros(8) if rank == 0 else torch.ones(8)
holder = None
if epochs > 5:
    holder = Net() if epochs > 7 else None
if holder is not None:
    dist.barrier()
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
    "a loader for one process, beside the one for several": """
def make_loader(args):
    if args.distributed:
        return DataLoader(dataset, 32, sampler=sampler)
    else:
        return DataLoader(dataset, 32, shuffle=True)

loader = make_loader(options.parse())
"""
    + STEP,
    "a model cast in the branch that does not wrap it": """
options = argparse.ArgumentParser().parse_args()
net = Net()
if options.distributed:
    net = DDP(net.cuda(), device_ids=[local_rank])
else:
    net.half()
    net.to(device)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(net(x), y).backward()
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
    "a load for the case without a GPU, and two others": """
gpu = argparse.ArgumentParser().parse_args().gpu
if gpu is None:
    state = torch.load(path)
elif torch.cuda.is_available():
    state = torch.load(path, map_location=f"cuda:{gpu}")
net.load_state_dict(state)
""",
    "layers that are spread over GPUs": """
class Halves(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 10).to("cuda:0")
        self.l2 = nn.Linear(10, 2).to("cuda:1")

    def forward(self, x):
        return self.l2(self.l1(x).to("cuda:1"))

halves = Halves()
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
    "a random split of rank 0's that all get": """
torch.manual_seed(1 + rank)
order = torch.randperm(len(dataset)).to(device)
dist.broadcast(order, 0)
part = torch.utils.data.Subset(dataset, order.tolist()[:50])
""",
    "a variable under its former and its present name": """
os.environ["NCCL_BLOCKING_WAIT"] = "1"
os.environ["TORCH_NCCL_BLOCKING_WAIT"] = "1"
""",
    "data of each epoch's own": """
for epoch in range(epochs):
    rows = TensorDataset(torch.load(f"part-{epoch}.pt", map_location="cpu"))
    for x, y in DataLoader(rows, 32, sampler=DistributedSampler(rows)):
        criterion(model(x), y).backward()
        optimizer.step()
""",
    "a sampler with one part": """
only = DistributedSampler(dataset, num_replicas=1, rank=0)
for epoch in range(epochs):
    for x, y in DataLoader(dataset, 32, sampler=only):
        criterion(model(x), y).backward()
        optimizer.step()
""",
    "a sum over the parts of a step": """
for x, y in loader:
    total = 0.0
    for part in range(4):
        total += criterion(model(x[part::4]), y[part::4]).item()
    if rank == 0:
        print(total)
""",
    "what a switch of the process's environment asks for": """
if os.environ.get("SHOW"):
    torch.save(net.state_dict(), path)
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
    "a load of what was saved in main memory": """
if rank == 0:
    torch.save({name: one.cpu() for name, one in net.state_dict().items()}, path)
dist.barrier()
net.load_state_dict(torch.load(path))
""",
    "a save where a name says which rank": """
options = argparse.ArgumentParser().parse_args()

def save(settings):
    saves = settings.local_rank in [-1, 0]
    if saves:
        torch.save(net.state_dict(), path)

save(options)
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
    "a model that is moved, then wrapped, each in a method": """
class Runner:
    def __init__(self, net):
        self.net = net

    def wrap(self):
        self.net = DDP(self.net, device_ids=[local_rank])

    def move(self, device):
        self.net = self.net.to(device)
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
    "a single epoch, by a name": """
most = 1
for epoch in range(most):
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
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
    "the state of a schedule, which has no tensors": """
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
schedule.load_state_dict(torch.load("schedule.pt"))
""",
    "a path with a name out of code that ddpify cannot read": """
from recipes import fresh_name
torch.save(net.state_dict(), f"{path}-{fresh_name()}.pt")
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
    "a rate out of a table, times that of the group": """
rates = [0.1] * 100
for step, (x, y) in enumerate(loader):
    loss = criterion(model(x), y)
    for group in optimizer.param_groups:
        group["lr"] = rates[step] * group["base"]
        group.update({"last": loss.item()})
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
    "a mode in which rank 0 alone measures": """
def main(measures):
    if measures and rank == 0:
        print(model.module(torch.zeros(32, 10, device=device)).shape)
        return
    dist.barrier()

main(argparse.ArgumentParser().parse_args().measures)
""",
    "a rank that ends all with an error": """
import sys
if rank == 0 and epochs > 100:
    print("too long")
    sys.exit(1)
dist.barrier()
""",
    "a chain of comparisons in a forward": """
class Bounded(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Net()

    def forward(self, x, most=None):
        if 0 < len(x) < 100:
            x = self.inner(x)
        return x

print(Bounded()(torch.zeros(2, 10)))
""",
    "a load of the rank's own file": """
own = f"model-{rank}.pt"
torch.save(net.state_dict(), own)
net.load_state_dict(torch.load(own))
""",
    "a load by mapping of the file": """
net.load_state_dict(torch.load(path, mmap=True))
""",
    "the rank on its node, through functions of its own": """
number = 0

def choose():
    global number
    count = rank
    number = count % torch.cuda.device_count()

def get_number():
    return number

choose()
other = DDP(Net().to(device), device_ids=[get_number()])
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
    "a report of the one process, asked for among other things": """
options = argparse.ArgumentParser().parse_args()
total = 0.0
for x, y in loader:
    total += criterion(model(x), y).item()
if options.local_rank in [-1, 0] and rank == 0:
    if options.local_rank == -1 and options.verbose:
        print("loss", total)
""",
    "a way out by the number of elements": """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        scores = model(x)
        criterion(scores, y).backward()
        optimizer.step()
        if scores.numel() < 3:
            break
""",
    "a check of the rank that fails": """
if local_rank >= torch.cuda.device_count():
    raise RuntimeError("more ranks than GPUs")
other = DDP(Net().to(device), device_ids=[local_rank])
dist.barrier()
""",
    "a model that is on the CPU already": """
other = DDP(Net())
other.to("cpu")
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(other(x), y).backward()
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
    "a rank that fails": """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x), y)
        if torch.isnan(loss).any():
            raise RuntimeError("not a number")
        loss.backward()
        optimizer.step()
""",
    "an entry beside one that a rank fills": """
state = {"step": 0, "loss": 0.0}
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        state["step"] += 1
        state["loss"] += loss.item()
        if state["step"] > 1000:
            break
""",
    "a loop over the numbers of batches": """
batches = iter(loader)
for number in range(len(loader)):
    x, y = next(batches)
    if number < 7:
        continue
    criterion(model(x), y).backward()
    optimizer.step()
""",
    "a frozen teacher": """
teacher = DDP(Net().to(device), device_ids=[local_rank])
for p in teacher.parameters():
    p.requires_grad = False
"""
    + STEP,
    "parameters switched by an argument": """
def switch(network, flag):
    for p in network.parameters():
        p.requires_grad = flag

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        switch(model, False)
        switch(model, True)
        criterion(model(x), y).backward()
        optimizer.step()
""",
    "a load for the case without a GPU of one's own": """
def resume(gpu):
    if gpu is None:
        state = torch.load(path)
    else:
        state = torch.load(path, map_location=f"cuda:{gpu}")
    net.load_state_dict(state)

resume(local_rank)
""",
    "a launcher that starts the ranks": """
def start():
    for index in range(4):
        log = open(f"gpu{index}.log", "w")
        subprocess.Popen(["python", "train.py"], stdout=log)

start()
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
    "accumulation steps that follow from the world size": """
rounds = 4096 // (8 * world_size)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        for part in range(rounds):
            model.require_backward_grad_sync = part == rounds - 1
            loss = criterion(model(x), y)
            loss = loss / rounds
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
    "a loss without weights on the GPU": """
def train(gpu):
    loss_function = nn.CrossEntropyLoss().cuda()
    for x, y in loader:
        loss_function(model(x), y).backward()
        optimizer.step()

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    train(local_rank)
""",
    "a launcher that makes a folder": """
def start():
    if not os.path.isdir("logs"):
        os.makedirs("logs")
    for index in range(4):
        subprocess.Popen(["python", "train.py", str(index)])

start()
""",
    "two views of each sample, of which the loss takes one": """
similarity = nn.CosineSimilarity(dim=1)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for views, _ in loader:
        first, second = model(views[0]), model(views[1])
        loss = -(similarity(first, second.detach()).mean() + similarity(second, first).mean())
        loss.backward()
        optimizer.step()
""",
    "a cast above the wrap": """
class Trainer:
    def __init__(self):
        self.network = Net().to(device)

    def prepare(self):
        self.network.half()
        self.network = DDP(self.network, device_ids=[local_rank])

    def fit(self):
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            for x, y in loader:
                optimizer.zero_grad()
                criterion(self.network(x), y).backward()
                optimizer.step()

trainer = Trainer()
trainer.prepare()
optimizer = torch.optim.SGD(trainer.network.parameters(), lr=0.1)
trainer.fit()
""",
    "Slurm's variables under torchrun's names": """
def from_slurm():
    os.environ["RANK"] = os.environ["SLURM_PROCID"]
    os.environ["LOCAL_RANK"] = os.environ["SLURM_LOCALID"]
    os.environ["MASTER_ADDR"] = "node-0"

from_slurm()
""",
    "a cache of data": """
def load_data(cached):
    data, _ = torch.load(cached)
    return data

source = DataLoader(load_data("cache.pt"), 32, sampler=DistributedSampler(dataset))
""",
    "a transform with a generator of its own": """
class Noise:
    def __init__(self):
        self.generator = random.Random()

    def __call__(self, x):
        return x + self.generator.random()

class Noisy(Dataset):
    def __init__(self):
        self.transform = Noise()

    def __len__(self):
        return len(dataset)

    def __getitem__(self, index):
        return self.transform(dataset[index][0]), dataset[index][1]

noisy = Noisy()
order = DistributedSampler(noisy)
for epoch in range(epochs):
    order.set_epoch(epoch)
    for x, y in DataLoader(noisy, 32, sampler=order):
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
""",
    "a measurement of backward passes": """
def measure(layers):
    times = []
    for layer in layers:
        try:
            start = time.time()
            layer(torch.zeros(1, 10)).sum().backward()
            times.append(time.time() - start)
        except Exception:
            times.append(float("nan"))
    return times

measure([net.l1])
""",
    "GPUs that an option names": """
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="0,1")
os.environ["CUDA_VISIBLE_DEVICES"] = parser.parse_args().device
""",
    "a GPU for each process of MPI": """
from mpi4py import MPI

os.environ["CUDA_VISIBLE_DEVICES"] = f"{MPI.COMM_WORLD.Get_rank() % 8}"
""",
    "an option for old versions of PyTorch alone": """
MAJOR = int(torch.__version__.split(".")[0])
parser = argparse.ArgumentParser()
if MAJOR == 1:
    parser.add_argument("--local_rank", type=int)
args = parser.parse_args()
torch.cuda.set_device(args.local_rank)
""",
    "each rank sees its own GPU alone": """
os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["SLURM_LOCALID"]
mine = torch.device("cuda:0")
torch.cuda.set_device(mine)
""",
    "a method of what the model holds": """
if rank == 0:
    kept = model.module if hasattr(model, "module") else model
    kept.config.to_json_file("config.json")
""",
    "the world size, returned beside the rank": """
def setup():
    if dist.is_initialized():
        return dist.get_world_size(), dist.get_rank()
    try:
        size = int(os.environ["SLURM_NTASKS"])
        number = int(os.environ["SLURM_PROCID"])
    except KeyError:
        size, number = 1, 0
    return size, number

size, number = setup()
parallel = Net().to(device)
if size > 1:
    parallel = DDP(parallel, device_ids=[local_rank])
"""
    + STEP,
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
    "other ways to tell the epoch": """
def fit(samples):
    for x, y in samples:
        criterion(model(x), y).backward()
        optimizer.step()

one, two = DistributedSampler(dataset), DistributedSampler(dataset)
first, second = DataLoader(dataset, 32, sampler=one), DataLoader(dataset, 32, sampler=two)
for epoch in range(epochs):
    one.epoch = epoch
    tell = getattr(second.sampler, "set_epoch", None)
    if callable(tell):
        tell(epoch)
    fit(first)
    fit(second)
    fit(DataLoader(dataset, 32, sampler=DistributedSampler(dataset, seed=epoch)))
""",
    "a question about a GPU": """
print(torch.cuda.memory_allocated(torch.device("cuda:0")))
""",
    "gradients that are averaged as one tensor, or in a hook": """
def average(network):
    gradients = [p.grad for p in network.parameters()]
    flat = torch.cat([one.reshape(-1) for one in gradients])
    dist.all_reduce(flat)

head = nn.Linear(2, 2).to(device)
stepper = torch.optim.SGD(head.parameters(), lr=0.1)
for x, y in loader:
    criterion(head(model(x)), y).backward()
    average(head)
    stepper.step()
""",
    "parameters that rank 0 has alone": """
head = nn.Linear(2, 2).to(device)
groups = [{"params": list(model.parameters())}]
if rank == 0:
    groups.append({"params": list(head.parameters())})
stepper = torch.optim.SGD(groups, lr=0.1)
for x, y in loader:
    criterion(head(model(x)), y).backward()
    stepper.step()
""",
    "a probe on what the model gives without a gradient": """
probe = DDP(nn.Linear(2, 2).to(device), device_ids=[local_rank])
for x, y in loader:
    criterion(probe(model.module(x).detach()), y).backward()
    optimizer.step()
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
    "a step left out after all ranks met": """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        if torch.isnan(loss):
            optimizer.zero_grad()
            continue
        optimizer.step()
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
    "files named after samples": """
batches = iter(loader)
for number in range(len(loader)):
    x, names = next(batches)
    for one, name in zip(model(x), names):
        np.save(os.path.join("out", name), one.cpu().numpy())
""",
    "a loss that is made of all ranks' outputs": """
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, gradient):
        return gradient

gather = Gather.apply
total = 0.0
for x, y in loader:
    total += criterion(gather(model(x)), gather(y)).item()
if rank == 0:
    print(total)
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
    "a wrapped model without buffers on one rank": """
if rank == 0:
    with torch.no_grad():
        print(model(torch.zeros(1, 10, device=device)))
""",
    "batches that the data set makes": """
normed = DDP(nn.Sequential(nn.Linear(10, 2), nn.BatchNorm1d(2)).to(device))
whole = DataLoader(dataset, batch_size=1, sampler=sampler, collate_fn=lambda samples: samples[0])
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in whole:
        criterion(normed(x), y).backward()
        optimizer.step()
""",
}


SHORTENED = "DDP208"  # the snippets leave out that batches are moved


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_clean(name: str, lint_text: Lint) -> None:
    found = lint_text(SETUPS["distributed"] + RIGHT[name])
    assert [one for one in found if one.code != SHORTENED] == []


SPAWNED = """
import argparse
import random
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)


def worker(local_rank, world_size, args):
    args.local_rank = local_rank
    dist.init_process_group(
        "nccl", init_method="tcp://127.0.0.1:29500", world_size=world_size, rank=local_rank
    )
    torch.cuda.set_device(args.local_rank)
    dataset = TensorDataset(torch.zeros(100, 10), torch.zeros(100).long())
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, 32, sampler=sampler)
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(10, 2), nn.Dropout()).cuda(), device_ids=[local_rank]
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
            optimizer.step()
    dist.destroy_process_group()


def main():
    args = parser.parse_args()
    torch.manual_seed(1)
    world_size = torch.cuda.device_count()
    mp.spawn(worker, nprocs=world_size, args=(world_size, args))


if __name__ == "__main__":
    main()
"""


def test_the_process_that_spawns_is_no_rank(lint_text: Lint) -> None:
    """Its seed reaches no rank, and the option for the local rank is set by the ranks."""
    assert not {"DDP601", "DDP703"} & {one.code for one in lint_text(SPAWNED)}


def test_an_evaluation_that_never_joins_a_group(lint_text: Lint) -> None:
    """A function shared with the training makes a DistributedSampler there, not here."""
    text = """
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def make_loader():
    dataset = TensorDataset(torch.zeros(100, 10), torch.zeros(100).long())
    sampler = DistributedSampler(dataset) if dist.is_initialized() else None
    return DataLoader(dataset, 32, sampler=sampler)


def main():
    loader, model, correct = make_loader(), torch.nn.Linear(10, 2), 0
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum().item()
    print(correct / len(loader.dataset))


if __name__ == "__main__":
    main()
"""
    assert lint_text(text) == []


RENDEZVOUS = """
def worker(number, count):
    dist.init_process_group(
        "nccl", init_method="tcp://127.0.0.1:29500", rank=number, world_size=count
    )
    device = torch.device("cuda", number)
    torch.cuda.set_device(device)
    dataset = TensorDataset(torch.zeros(100, 10), torch.zeros(100).long())
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, 32, sampler=sampler)
    model = DDP(Net().to(device), device_ids=[number])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
        {guard}
            torch.save(model.module.state_dict(), path)
    dist.destroy_process_group()


def main():
    for number in range(4):
        {start}


if __name__ == "__main__":
    main()
"""
STARTS = {
    "processes": "mp.Process(target=worker, args=(number, 4)).start()",
    "something unseen": "pool.submit(worker, number, 4)",
}


@pytest.mark.parametrize("start", STARTS)
def test_the_number_that_a_group_is_joined_under_is_the_rank(start: str, lint_text: Lint) -> None:
    imports = SETUPS["distributed"].split("local_rank =")[0] + "import pool\n"
    for guard, expected in (("if number == 0:", False), ("if epoch == 0:", start == "processes")):
        text = imports + RENDEZVOUS.replace("{guard}", guard).replace("{start}", STARTS[start])
        assert ("DDP501" in {one.code for one in lint_text(text)}) == expected


def test_a_sampler_that_is_told_the_epoch_through_its_loader(lint_text: Lint) -> None:
    told = STEP.replace("sampler.set_epoch", "loader.batch_sampler.sampler.set_epoch")
    found = lint_text(SETUPS["distributed"] + told)
    assert [one for one in found if one.code != SHORTENED] == []


SPLIT = """
import numpy as np
import torch
from torch.utils.data import DataLoader, DistributedSampler, Subset


def take(dataset, count):
    return Subset(dataset, np.random.choice(len(dataset), count, replace=False))


def make_loader(dataset):
    return DataLoader(dataset, 32, sampler=DistributedSampler(take(dataset, 10)))
"""


def test_a_library_may_be_seeded_by_whoever_calls_it(lint_text: Lint) -> None:
    assert "DDP107" not in {one.code for one in lint_text(SPLIT, name="data.py")}
    called = SPLIT + "loader = make_loader(dataset)\ntorch.distributed.init_process_group()\n"
    assert "DDP107" in {one.code for one in lint_text(called)}


def test_sharding_chooses_the_device(lint_text: Lint) -> None:
    """Where nobody has chosen one, the mesh takes the rank's own."""
    text = (
        SETUPS["distributed"].split("local_rank =")[0]
        + """
from torch.distributed.fsdp import fully_shard
local_rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group()
net = Net()
fully_shard(net)
net.to_empty(device=torch.device("cuda"))
probe = torch.zeros(1).to("cuda")
"""
    )
    assert lint_text(text, select=("DDP201",)) == []
    assert lint_text(text.replace("fully_shard(net)", ""), select=("DDP201",)) != []


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


TOOL = """
def prepare(net, place):
    if place != -1:
        dist.init_process_group("nccl")
        net = DDP(net.to(place), device_ids=[place])
    return net

net = Net()
net.load_state_dict(torch.load(path))
net = prepare(net, int(os.environ.get("LOCAL_RANK", -1)))
rows = [net(x).tolist() for x, y in DataLoader(dataset, 32)]
with open("rows.json", "w") as file:
    json.dump(rows, file)
"""


def test_a_tool_that_can_join_a_group(lint_text: Lint) -> None:
    """Nothing in it is shared out among ranks."""
    text = SETUPS["distributed"].split("local_rank =")[0] + TOOL
    assert lint_text(text, select=("DDP205", "DDP501")) == []
    text = text.replace("32)]", "32, sampler=DistributedSampler(dataset))]")
    found = {one.code for one in lint_text(text, select=("DDP205", "DDP501"))}
    assert found == {"DDP205", "DDP501"}


def test_one_finding_for_a_file_that_is_opened_and_written(lint_text: Lint) -> None:
    text = SETUPS["distributed"] + 'json.dump([1], open("rows.json", "w"))\n'
    assert len(lint_text(text, select=("DDP501",))) == 1


def test_a_printed_shape_in_one_process(lint_text: Lint) -> None:
    text = SETUPS["single"] + "    print(x.shape)\n"
    assert "DDP405" in {one.code for one in lint_text(text)}


def test_tests_are_no_ranks(lint_text: Lint) -> None:
    """A test builds what is trained elsewhere, in one process."""
    text = SETUPS["distributed"].replace('dist.init_process_group("nccl")\n', "")
    text = text.replace("sampler=sampler", "shuffle=True") + "def test_step():\n    pass\n" + STEP
    assert "DDP101" in {one.code for one in lint_text(text)}
    assert lint_text(text, name="test_step.py") == []
    assert lint_text(text, name="tests/helpers.py") == []


def test_a_device_of_the_rank_that_is_0_without_a_group(lint_text: Lint) -> None:
    """The number of the GPU is a parameter, which another path sets to a constant."""
    text = SETUPS["distributed"].split("local_rank =")[0] + RENDEZVOUS
    text = text.replace("{guard}", "if number == 0:").replace("{start}", STARTS["processes"])
    text = text.replace("    main()", "    worker(0, 1) if epochs == 1 else main()")
    assert lint_text(text, select=("DDP201",)) == []


def test_a_run_of_one_process_that_starts_no_group(lint_text: Lint) -> None:
    text = """
def start():
    if not torch.cuda.is_available():
        return
    elif "RANK" not in os.environ:
        print(torch.empty(1).cuda())
        return
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")


start()
"""
    text = SETUPS["distributed"].split("local_rank =")[0] + text
    assert lint_text(text, select=("DDP202",)) == []
    always = text.replace('"RANK" not in os.environ', "epochs == 10")
    assert lint_text(always, select=("DDP202",)) != []


TWO_WAYS = """
def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()

def worker(number, count):
    dist.init_process_group("nccl", rank=number, world_size=count)
    train(DDP(make().to(number), device_ids=[number]))

def make():
    return Net()

options = argparse.ArgumentParser().parse_args()
if {test}:
    train(make())
else:
    mp.spawn(worker, nprocs=4, args=(4,))
"""


def test_a_model_that_another_path_wraps(lint_text: Lint) -> None:
    text = SETUPS["distributed"].split("local_rank =")[0] + "loader = DataLoader(dataset, 32)\n"
    alone = text + TWO_WAYS.replace("{test}", "not options.distributed")
    assert lint_text(alone, select=("DDP305",)) == []


def test_ranks_that_do_not_train_at_all(lint_text: Lint) -> None:
    """The wrapper waits for them, which is said once."""
    text = """
if rank > 0:
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
"""
    found = {one.code for one in lint_text(SETUPS["distributed"] + text)}
    assert "DDP407" not in found
    assert "DDP403" in found or "DDP401" in found


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


def test_a_folder_for_all_processes(lint_text: Lint) -> None:
    text = """
import tempfile
torch.save(net.state_dict(), os.path.join(tempfile.gettempdir(), "model.pt"))
"""
    assert lint_text(SETUPS["distributed"] + text, select=("DDP501",)) != []


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


def test_a_sampler_of_one_part_joins_no_group(lint_text: Lint) -> None:
    text = SETUPS["distributed"].split("local_rank =")[0]
    text += """
only = DistributedSampler(dataset, num_replicas=1, rank=0)
model = Net()
model.load_state_dict(torch.load(path))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(dataset, 32, sampler=only):
    criterion(model(x), y).backward()
    optimizer.step()
torch.save(model.state_dict(), path)
"""
    assert [one for one in lint_text(text, select=("DDP205", "DDP501")) if not one.single] == []
    several = text.replace(", num_replicas=1, rank=0", "")
    assert [one for one in lint_text(several, select=("DDP501",)) if not one.single] != []


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


def test_the_model_inside_is_trained_where_an_option_wraps_it(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + """
options = argparse.ArgumentParser().parse_args()
raw = Net().to(device)
if options.together:
    whole = DDP(raw, device_ids=[local_rank])
for x, y in loader:
    criterion(raw(x), y).backward()
"""
    )
    (one,) = lint_text(text, select=("DDP304",))
    assert one.confidence is Confidence.LIKELY
    assert lint_text(text.replace("options.together", "epochs > 5"), select=("DDP304",)) != []


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


@pytest.mark.parametrize(("trained", "found"), [("model", True), ("beside", False)])
def test_a_sum_of_the_losses_of_what_is_wrapped(trained: str, found: bool, lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + f"""
beside = Net().to(device)
with torch.no_grad():
    first = model(dataset[0][0]).mean()
for x, y in loader:
    (F.cross_entropy({trained}(x), y, reduction="sum") * first).backward()
"""
    )
    found_codes = [one.code for one in lint_text(text, select=("DDP408",))]
    assert found_codes == ["DDP408"] * found


@pytest.mark.parametrize(("value", "found"), [("False", False), ("True", True)])
def test_frozen_where_ddp_looks_for_unused_parameters(
    value: str, found: bool, lint_text: Lint
) -> None:
    text = SETUPS["distributed"].replace("device_ids=[local_rank]", "find_unused_parameters=True")
    text += f"""
for p in Net().parameters():
    p.requires_grad = False
for p in net.parameters():
    p.requires_grad = {value}
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
"""
    assert [one.code for one in lint_text(text, select=("DDP306",))] == ["DDP306"] * found


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


@pytest.mark.parametrize(
    ("shuffle", "found"), [("", True), (", shuffle=True", True), (", shuffle=pick()", False)]
)
def test_a_sampler_that_may_not_shuffle(shuffle: str, found: bool, lint_text: Lint) -> None:
    text = "from elsewhere import pick\n" + SETUPS["distributed"] + STEP
    text = text.replace("    sampler.set_epoch(epoch)\n", "").replace(
        "DistributedSampler(dataset)", f"DistributedSampler(dataset{shuffle})"
    )
    assert [one.code for one in lint_text(text, select=("DDP102",))] == ["DDP102"] * found


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


@pytest.mark.parametrize(
    ("rate", "loss", "found"),
    [
        ("0.1", "summed(model(x), y)", True),
        ("0.1 * world_size", "summed(model(x), y)", False),
        ("0.1", "weighed(summed(model(x), y))", False),
    ],
)
def test_a_sum_that_a_rate_or_unseen_code_makes_up_for(
    rate: str, loss: str, found: bool, lint_text: Lint
) -> None:
    text = SETUPS["distributed"].replace("lr=0.1", f"lr={rate}") + (
        f"""
from elsewhere import weighed
summed = nn.CrossEntropyLoss(reduction="sum")
for x, y in loader:
    loss = {loss}
    loss.backward()
    optimizer.step()
"""
    )
    assert [one.code for one in lint_text(text, select=("DDP408",))] == ["DDP408"] * found


@pytest.mark.parametrize(("first", "found"), [("", True), ("seed_everything(0)\n", False)])
def test_code_that_is_not_seen_may_seed(first: str, found: bool, lint_text: Lint) -> None:
    text = "from elsewhere import seed_everything\n" + SETUPS["distributed"] + first
    text += "train, held_out = random_split(dataset, [80, 20])\n"
    assert [one.code for one in lint_text(text, select=("DDP107",))] == ["DDP107"] * found


@pytest.mark.parametrize(("score", "found"), [("total", True), ("agree(total)", False)])
def test_a_mean_of_what_unseen_code_adds_up(score: str, found: bool, lint_text: Lint) -> None:
    text = (
        "from elsewhere import agree\n"
        + SETUPS["distributed"]
        + f"""
total = 0.0
for x, y in loader:
    total += criterion(model(x), y).item()
print({score} / len(dataset))
"""
    )
    assert [one.code for one in lint_text(text, select=("DDP111",))] == ["DDP111"] * found


@pytest.mark.parametrize(("test", "found"), [("loss", True), ("mean_of_all_ranks", False)])
def test_a_way_out_by_a_number_that_unseen_code_reduced(
    test: str, found: bool, lint_text: Lint
) -> None:
    text = (
        "from elsewhere import reduce_mean\n"
        + SETUPS["distributed"]
        + f"""
for x, y in loader:
    loss = criterion(model(x), y)
    mean_of_all_ranks = reduce_mean(loss)
    if torch.isnan({test}):
        continue
    loss.backward()
"""
    )
    assert [one.code for one in lint_text(text, select=("DDP402",))] == ["DDP402"] * found


@pytest.mark.parametrize(
    ("divided", "found"), [("loss", True), ("loss / 2", True), ("loss / max(many, 1)", False)]
)
def test_a_sum_that_is_divided_by_how_many_terms_it_has(
    divided: str, found: bool, lint_text: Lint
) -> None:
    text = (
        SETUPS["distributed"]
        + f"""
from elsewhere import fill
for x, y in loader:
    many = fill(torch.zeros(1))
    loss = F.cross_entropy(model(x), y, reduction="sum")
    loss = {divided}
    loss.backward()
"""
    )
    assert [one.code for one in lint_text(text, select=("DDP408",))] == ["DDP408"] * found


@pytest.mark.parametrize(
    ("variable", "found"), [("RANK", True), ("SLURM_PROCID", False), ("LOCAL_RANK", True)]
)
def test_a_cluster_gives_processes_gpus_of_their_own(
    variable: str, found: bool, lint_text: Lint
) -> None:
    text = (
        SETUPS["distributed"]
        .replace('int(os.environ["LOCAL_RANK"])', f'int(os.environ["{variable}"])')
        .replace("torch.cuda.set_device(local_rank)\n", "")
        .replace('torch.device("cuda", local_rank)', 'torch.device("cuda:0")')
        .replace("local_rank", "number")
    )
    assert [one.code for one in lint_text(text, select=("DDP201",))] == ["DDP201"] * found


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


@pytest.mark.parametrize(("bar", "found"), [("tqdm(loader)", 1), ("enumerate(tqdm(loader))", 1)])
def test_a_loop_over_a_bar_that_has_a_name(bar: str, found: int, lint_text: Lint) -> None:
    text = (
        "from tqdm import tqdm\n"
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
    assert [one.code for one in lint_text(text, select=("DDP101",))] == ["DDP101"] * found


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


@pytest.mark.parametrize(("inside", "found"), [(False, True), (True, False)])
def test_some_layers_frozen_after_the_wrap(inside: bool, found: bool, lint_text: Lint) -> None:
    change = """for name, p in model.named_parameters():
    if "l1" in name:
        p.requires_grad = True
    else:
        p.requires_grad = False
"""
    step = "        " + change.replace("\n", "\n        ").rstrip() + "\n"
    text = SETUPS["distributed"] + ("" if inside else change) + STEP + (step if inside else "")
    assert [one.code for one in lint_text(text, select=("DDP306",))] == ["DDP306"] * found


def test_a_model_that_another_file_trains_past_its_wrapper(tmp_path: Path, lint_text: Lint) -> None:
    (tmp_path / "work.py").write_text(
        "class Work:\n"
        "    def __init__(self, model):\n        self.model = model\n"
        "    def run(self, loader, criterion, optimizer):\n"
        "        for x, y in loader:\n"
        "            criterion(self.model(x), y).backward()\n"
        "            optimizer.step()\n"
    )
    text = "from work import Work\n" + SETUPS["distributed"]
    for trained, found in (("model.module", ["DDP304"]), ("model", [])):
        given = text + f"Work({trained}).run(loader, criterion, optimizer)\n"
        assert [one.code for one in lint_text(given, select=("DDP304",))] == found


def test_what_an_unseen_object_gives_is_no_wrapper_of_its_own(lint_text: Lint) -> None:
    text = (
        "from elsewhere import make\n"
        + SETUPS["distributed"]
        + """
trainer = make()
trainer.whole = DDP(trainer.whole, device_ids=[local_rank])
for epoch in range(epochs):
    scores, _ = trainer.train(epoch, loader)
    if rank == 0:
        for key, score in scores.items():
            print(key, score)
"""
    )
    assert not lint_text(text, select=("DDP403",))


def test_a_file_whose_name_tells_what_another_one_says(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + """
last = torch.load("last.pt")
epoch = last["epoch"]
state = torch.load(f"model-{epoch}.pt", map_location="cpu")
net.load_state_dict(state)
"""
    )
    assert not lint_text(text, select=("DDP205",))
    text += "net.load_state_dict(last['model'])\n"
    assert [one.code for one in lint_text(text, select=("DDP205",))] == ["DDP205"]


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


def test_a_sampler_alone_starts_no_second_process(lint_text: Lint) -> None:
    text = """
import torch
from torch.utils.data import DataLoader, DistributedSampler
from elsewhere import dataset, evaluate

device = torch.device("cuda:0")
evaluate(DataLoader(dataset, sampler=DistributedSampler(dataset, 1 + 0, rank=0)), device)
"""
    assert not lint_text(text, select=("DDP201",))


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


@pytest.mark.parametrize(("off", "found"), [("options.several = False\n", False), ("", True)])
def test_a_script_that_has_switched_it_off(off: str, found: bool, lint_text: Lint) -> None:
    text = f"""
import argparse
import torch
import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler
from torch.nn.parallel import DistributedDataParallel as DDP
from elsewhere import Net, dataset, criterion

options = argparse.ArgumentParser().parse_args()
{off}net = Net()
if options.several:
    dist.init_process_group("nccl")
    loader = torch.utils.data.DataLoader(dataset, 8, sampler=DistributedSampler(dataset))
    model = DDP(net)
net.load_state_dict(torch.load("net.pt"))
for x, y in loader:
    criterion(model(x), y).backward()
"""
    assert [one.code for one in lint_text(text, select=("DDP205",))] == ["DDP205"] * found


def test_an_option_that_starts_the_ranks_may_be_given(lint_text: Lint) -> None:
    """Its default says nothing about them; what is set for good does."""
    head = SETUPS["distributed"].split("local_rank =")[0]
    text = (
        head
        + """
parser = argparse.ArgumentParser()
parser.add_argument("--dist", default=False)
args = parser.parse_args()
local_rank = int(os.environ.get("LOCAL_RANK", 0))
net = Net().cuda()
if args.dist:
    dist.init_process_group("nccl")
    net = DDP(net, device_ids=[local_rank])
net.load_state_dict(torch.load(path))
for x, y in DataLoader(dataset):
    criterion(net(x), y).backward()
"""
    )
    assert [one.code for one in lint_text(text, select=("DDP205",))] == ["DDP205"]
    switched = text.replace(
        "args = parser.parse_args()", "args = parser.parse_args()\nargs.dist = False"
    )
    assert not lint_text(switched, select=("DDP205",))


def test_a_schedule_that_a_function_of_rank_zero_steps(lint_text: Lint) -> None:
    """It is found where it is that of all ranks, not where the function made it for itself."""
    head = SETUPS["distributed"] + "plan = torch.optim.lr_scheduler.StepLR(optimizer, 10)\n"
    text = """
def validate():
    {made}
    plan.step()

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
    if rank == 0:
        validate()
"""
    assert lint_text(head + text.replace("{made}", "pass"), select=("DDP407",))
    own = "plan = torch.optim.SGD(Net().parameters(), lr=0.1)"
    assert not lint_text(head + text.replace("{made}", own), select=("DDP407",))


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


def test_a_model_that_is_not_seen_is_trained_past_its_wrapper(lint_text: Lint) -> None:
    """Its name tells, where the wrapper has another one and is not called."""
    text = (
        SETUPS["distributed"]
        + """

def train(rank, raw):
    wrapped = DDP(raw, device_ids=[local_rank])
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    for x, y in loader:
        criterion({called}(x), y).backward()
        optimizer.step()

def launch(raw):
    mp.spawn(train, args=(raw,), nprocs=2)
"""
    )
    assert lint_text(text.replace("{called}", "raw"), select=("DDP304",))
    assert not lint_text(text.replace("{called}", "wrapped"), select=("DDP304",))
    same = text.replace("wrapped", "raw").replace("{called}", "raw")
    assert not lint_text(same, select=("DDP304",))


def test_an_evaluation_of_rank_zero_that_a_step_answers(lint_text: Lint) -> None:
    """Its forward sends the buffers, and that of the others' next step takes them."""
    text = (
        SETUPS["distributed"]
        + """
normed = DDP(nn.Sequential(nn.Linear(10, 10), nn.BatchNorm1d(10)).to(device))

@torch.no_grad()
def evaluate():
    return sum(normed(x).sum().item() for x, y in DataLoader(dataset, 32))

for epoch in range(epochs):
    {first}
    for x, y in loader:
        criterion(normed(x), y).backward()
        optimizer.step()
    {then}
"""
    )
    ask = "if rank == 0: evaluate()"
    before = text.replace("{first}", ask).replace("{then}", "pass")
    assert not lint_text(before, select=("DDP403",))
    after = text.replace("{first}", "pass").replace("{then}", ask)
    assert lint_text(after, select=("DDP403",))


def test_weights_that_are_drawn_through_the_wrapper_itself(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + """
def fresh(layer):
    if isinstance(layer, nn.Linear):
        nn.init.normal_(layer.weight)

{of}.apply(fresh)
"""
        + STEP
    )
    for of in ("model", "model.module"):
        assert lint_text(text.replace("{of}", of), select=("DDP308",))
    assert not lint_text(text.replace("{of}", "Net()"), select=("DDP308",))


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


def test_which_entries_a_batch_has_is_the_same_on_all_ranks(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + """
for batch in loader:
    out = model(batch["x"])
    if {asked}:
        continue
    criterion(out, batch["y"]).backward()
    optimizer.step()
"""
    )
    for asked in ('"y" not in batch', '"y" not in batch.keys()', 'epochs and not ("y" in batch)'):
        assert not lint_text(text.replace("{asked}", asked), select=("DDP402",))
    for asked in ('batch["y"].sum() == 0', '"nan" in str(out.sum())'):
        assert lint_text(text.replace("{asked}", asked), select=("DDP402",))


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


def test_a_loss_past_the_wrapper_is_said_once_for_a_function(lint_text: Lint) -> None:
    """What is called before the last may prepare targets."""
    text = (
        SETUPS["distributed"].replace("model = DDP(net, device_ids=[local_rank])", "")
        + """
class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes, self.head = Net(), Net()

model = DDP(Parts().to(device), device_ids=[local_rank])

def loss_of(x):
    wanted = model.module.codes(x).argmax(1)
    return criterion(model.module.head(x), wanted)

for x, y in loader:
    loss_of(x).backward()
    optimizer.step()
"""
    ).replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n", "")
    found = lint_text(text, select=("DDP303",))
    assert [text.splitlines()[one.span.line - 1] for one in found] == [
        "    return criterion(model.module.head(x), wanted)"
    ]


def test_slices_that_a_function_of_another_file_reads(lint_text: Lint, tmp_path: Path) -> None:
    shown = "def shown(x):\n    held = x[1:]\n    first = held[0]\n    return first\n"
    (tmp_path / "pictures.py").write_text(shown)
    text = (
        SETUPS["distributed"]
        + """
from pictures import shown

torch.manual_seed(0)
data, wanted = torch.zeros(100, 10), torch.zeros(100).long()
for step in range(100):
    picked = torch.randint(100, (8,))
    criterion(model(data[picked]), wanted[picked]).backward()
    optimizer.step()
    shown(data)
"""
    )
    assert lint_text(text, select=("DDP106",))


def test_an_epoch_that_is_told_by_another_name(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + """
def run(count):
    step = 0
    for epoch in range(count):
        {told}
        loader.sampler.set_epoch({number})
        for x, y in loader:
            criterion(model(x), y).backward()
            optimizer.step()
        step += 1

run(epochs)
"""
    )
    for told, number in (("at = epoch", "at"), ("pass", "step"), ("pass", "count - epoch")):
        changed = text.replace("{told}", told).replace("{number}", number)
        assert not lint_text(changed, select=("DDP102",))
    for number in ("count", "epochs", "3"):
        same = text.replace("{told}", "pass").replace("{number}", number)
        assert lint_text(same, select=("DDP102",))


def test_a_batch_that_is_made_anew_from_its_own_samples(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + """
for batch in {batches}:
    kept = [i for i, name in enumerate(batch["name"]) if name]
    if not kept:
        continue
    batch = {key: held[kept] for key, held in batch.items()}
    criterion(model(batch["x"]), batch["y"]).backward()
    optimizer.step()
"""
    )
    assert lint_text(text.replace("{batches}", "loader"), select=("DDP402",))
    whole = text.replace("{batches}", "DataLoader(dataset, 32)")
    assert not lint_text(whole, select=("DDP402",))


def test_a_write_in_another_file_is_named(lint_text: Lint, tmp_path: Path) -> None:
    (tmp_path / "files.py").write_text(
        'import torch\n\n\ndef keep(net):\n    torch.save(net, "a.pt")\n'
    )
    text = SETUPS["distributed"] + STEP + "from files import keep\nkeep(net.state_dict())\n"
    found = [one.message for one in lint_text(text, select=("DDP501",))]
    assert found == [
        "all ranks write the same file with save() in files.py:5: it may be corrupt",
    ]
