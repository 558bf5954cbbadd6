"""Scripts for ``test_evidence``: ``RIGHT`` must not be reported by the rule, ``WRONG`` must."""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """A script behind the lines of a set-up, and the rule that it is about."""

    code: str
    text: str
    setup: str = "distributed"


TRAIN = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
"""
RIGHT = {
    "a removed name under a number made of the version": Case(
        "DDP907",
        """
import torch
major = int(torch.__version__.split(".")[0])
if major < 2:
    from torch._six import inf
""",
        "bare",
    ),
    "a removed name under a function that gives the version": Case(
        "DDP907",
        """
import torch
def installed():
    return tuple(int(x) for x in torch.__version__.split(".")[:2])
if installed() < (1, 9):
    import torch._six
""",
        "bare",
    ),
    "a removed name under a question for it": Case(
        "DDP907",
        """
import torch
if hasattr(torch, "_six"):
    import torch._six
""",
        "bare",
    ),
    "an option that the parser may leave to others": Case(
        "DDP703",
        """
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)
args, unknown = parser.parse_known_args()
print(args.local_rank)
""",
    ),
    "a number that is zipped with the batches": Case(
        "DDP402",
        """
from itertools import cycle
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for (x, y), i in zip(loader, cycle(range(4))):
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        if i > 2:
            break
""",
    ),
    "a number zipped with the batches under a name": Case(
        "DDP402",
        """
from itertools import cycle
import itertools
pairs = zip(loader, cycle(range(4)))
for batch, i in pairs:
    loss = criterion(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    if i > 2:
        break
""",
    ),
    "a rank in the group of a node": Case(
        "DDP203",
        """
local = dist.new_group(list(range(8)))
torch.cuda.set_device(dist.get_rank(group=local))
""",
    ),
    "a rank in the group of a node, from a function": Case(
        "DDP203",
        """
_LOCAL = None
def make():
    global _LOCAL
    _LOCAL, _ = dist.new_subgroups()
def get_local_rank():
    return dist.get_rank(group=_LOCAL)
make()
torch.cuda.set_device(get_local_rank())
""",
    ),
    "yaml.dump that gives the text back": Case(
        "DDP501",
        """
import yaml
print(yaml.dump({"a": 1}))
text = yaml.dump({"a": 1}, default_flow_style=False)
print(yaml.safe_dump({"a": 1}))
"""
        + TRAIN,
    ),
    "losses of crops that a chunk takes apart": Case(
        "DDP412",
        """
class DINOLoss(nn.Module):
    def __init__(self, out_dim, ncrops):
        super().__init__()
        self.ncrops = ncrops
        self.register_buffer("center", torch.zeros(1, out_dim))
    def forward(self, student_output, teacher_output):
        student_out = student_output / 0.1
        student_out = student_out.chunk(self.ncrops)
        teacher_out = F.softmax((teacher_output - self.center) / 0.04, dim=-1)
        teacher_out = teacher_out.detach().chunk(2)
        total_loss = 0
        n = 0
        for iq, q in enumerate(teacher_out):
            for v in range(len(student_out)):
                if v == iq:
                    continue
                loss = torch.sum(-q * F.log_softmax(student_out[v], dim=-1), dim=-1)
                total_loss += loss.mean()
                n += 1
        total_loss /= n
        return total_loss
dino = DINOLoss(2, 10).to(device)
teacher = Net().to(device)
for x, y in loader:
    crops = torch.cat([x, x.flip(1)])
    with torch.no_grad():
        t = teacher(crops)
    loss = dino(model(crops), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
    "numbers of samples that are compared after backward()": Case(
        "DDP412",
        """
for x, y in loader:
    z = model(x)
    loss = criterion(z, y)
    loss.backward()
    optimizer.step()
    order = z.argsort(0)
    spread = (z @ z.t()).mean()
    loss = loss.item() + spread
    if rank == 0:
        print(loss, order[0])
""",
    ),
    "a view whose last dimension is not known": Case(
        "DDP412",
        """
def run(V):
    for x, y in loader:
        logits = model(x)
        loss = F.cross_entropy(logits[:, :-1].contiguous().view(-1, V), y.view(-1))
        loss.backward()
        optimizer.step()
run(int(os.environ["V"]))
""",
    ),
    "a name that the process which submits the jobs makes": Case(
        "DDP507",
        """
import os, time, uuid
import torch, torch.distributed as dist
import torch.nn as nn
import submitit
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset, DistributedSampler

def train(args):
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl", init_method=args.dist_url)
    model = DDP(nn.Linear(3, 3).cuda())
    opt = torch.optim.SGD(model.parameters(), 0.1)
    data = TensorDataset(torch.zeros(9, 3))
    for x, in DataLoader(data, 3, sampler=DistributedSampler(data)):
        model(x.cuda()).sum().backward()
        opt.step()

class Trainer(object):
    def __init__(self, args):
        self.args = args
    def __call__(self):
        train(self.args)
    def checkpoint(self):
        empty = type(self)(self.args)
        return submitit.helpers.DelayedSubmission(empty)

def get_init_file():
    os.makedirs("/shared/exp", exist_ok=True)
    init_file = "/shared/exp/" + uuid.uuid4().hex + "_init"
    if os.path.exists(init_file):
        os.remove(init_file)
    return init_file

def main():
    import argparse
    p = argparse.ArgumentParser()
    p.add_argument("--out", default="")
    args = p.parse_args()
    args.out = "/shared/" + time.strftime("%H%M%S")
    os.makedirs(args.out, exist_ok=True)
    executor = submitit.AutoExecutor(folder=args.out, slurm_max_num_timeout=30)
    executor.update_parameters(name="x")
    args.dist_url = "file://" + get_init_file()
    trainer = Trainer(args)
    job = executor.submit(trainer)
    print(job.job_id)

if __name__ == "__main__":
    main()
""",
        "bare",
    ),
    "a seed of the process that spawns the ranks, in a function": Case(
        "DDP601",
        """
import os, random
import torch, torch.distributed as dist, torch.multiprocessing as mp
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset, DistributedSampler

def worker(rank, args):
    dist.init_process_group("nccl", rank=rank, world_size=2)
    torch.cuda.set_device(rank)
    model = DDP(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).cuda())
    opt = torch.optim.SGD(model.parameters(), 0.1)
    data = TensorDataset(torch.zeros(9, 3))
    for x, in DataLoader(data, 3, sampler=DistributedSampler(data)):
        model(x.cuda()).sum().backward()
        opt.step()
def seed_all(seed):
    random.seed(seed)
    torch.manual_seed(seed)
def main():
    import argparse
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=None)
    args = p.parse_args()
    if args.seed is not None:
        seed_all(args.seed)
    mp.spawn(worker, nprocs=2, args=(args,))
if __name__ == "__main__":
    main()
""",
        "bare",
    ),
    "a meter that reduces its sum and count": Case(
        "DDP405",
        """
class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0
    def update(self, v, n=1):
        self.sum += v * n
        self.count += n
    def synchronize(self):
        t = torch.tensor([self.sum, self.count], device=device)
        dist.barrier()
        dist.all_reduce(t)
        t = t.tolist()
        self.count = int(t[1])
        self.sum = t[0]
class Trainer:
    def __init__(self):
        self.meter = Meter()
        self.total = torch.zeros(1, device=device)
    def reduce(self):
        dist.all_reduce(self.total)
    def epoch(self):
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            self.meter.update(loss.item(), len(x))
            self.total += loss.detach()
        self.meter.synchronize()
        self.reduce()
        if rank == 0:
            print("loss", self.meter.sum / self.meter.count, self.total.item())
Trainer().epoch()
""",
    ),
    "the state of the model inside, by an option": Case(
        "DDP503",
        """
options = argparse.ArgumentParser().parse_args()
whole = Net().to(device)
if options.distributed:
    whole = DDP(whole)
raw = whole.module if options.distributed else whole
torch.save({"model": raw.state_dict()}, f"model-{rank}.pt")
"""
        + TRAIN,
    ),
    "a checkpoint that most ranks of a node may be told to write": Case(
        "DDP502",
        """
told = [None]
dist.scatter_object_list(told, [None] * world_size, src=0)
if local_rank < 4:
    if told[0] == "save":
        torch.save(model.module.state_dict(), path)
""",
    ),
    "an error in the steps of a model that is not wrapped": Case(
        "DDP404",
        """
probe = nn.Linear(10, 2)
adam = torch.optim.Adam(probe.parameters())
for x, y in loader:
    try:
        criterion(probe(x), y).backward()
        adam.step()
    except RuntimeError:
        continue
""",
    ),
    "windows as long as a configuration says": Case(
        "DDP801",
        """
import yaml
cfg = yaml.safe_load(open("cfg.yaml"))
for step, (x, y) in enumerate(loader):
    criterion(model(x), y).backward()
    if step % cfg["accumulate"] == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    ),
    "the samplers of all ranks, in one process": Case(
        "DDP104",
        """
for number in range(2):
    print(list(DistributedSampler(dataset, num_replicas=2, rank=number)))
""",
    ),
    "a log that all open to append, and that one writes after it was passed on": Case(
        "DDP501",
        """
def resume():
    log = open("log.txt", "a+")
    return log, 3
def note(log, epoch):
    log.write(f"{epoch}")
log, start = resume()
if rank == 0:
    note(log, start)
"""
        + TRAIN,
    ),
    "a loop over names of another package, of which one is trained with": Case(
        "DDP402",
        """
from tasks import names
for name in names:
    for x, y in loader:
        loss = criterion(model(x), y)
        if name == "main":
            break
        loss.backward()
        optimizer.step()
""",
    ),
    "a backward on all ranks, in both branches": Case(
        "DDP403",
        """
for x, y in loader:
    loss = criterion(model(x), y)
    if rank == 0:
        loss.backward()
        print(loss.item())
    else:
        loss.backward()
    optimizer.step()
""",
    ),
}
WRONG = {
    "a removed name under another condition": Case(
        "DDP907",
        """
import torch
if input():
    from torch._six import inf
""",
        "bare",
    ),
    "an option of a parser beside one that leaves options to others": Case(
        "DDP703",
        """
parser, other = argparse.ArgumentParser(), argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)
other.parse_known_args()
args = parser.parse_args()
print(args.local_rank)
""",
    ),
    "a path with a number of a loaded checkpoint": Case(
        "DDP501",
        """
state = torch.load("old.pt", map_location=device)
start = state["epoch"]
for epoch in range(start, epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    torch.save(net.state_dict(), f"model-{epoch}.pt")
""",
    ),
    "a batch that is zipped with numbers": Case(
        "DDP402",
        """
from itertools import cycle
for (x, y), i in zip(loader, cycle(range(4))):
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    if loss.item() > 2:
        break
""",
    ),
    "a rank in the group of all": Case(
        "DDP203",
        """
torch.cuda.set_device(dist.get_rank(group=None))
""",
    ),
    "yaml.dump into a file": Case(
        "DDP501",
        """
import yaml
with open("config.yaml", "w") as file:
    yaml.dump({"a": 1}, file)
"""
        + TRAIN,
    ),
    "views of samples that are chunked and then compared": Case(
        "DDP412",
        """
for x, y in loader:
    out = F.normalize(model(torch.cat([x, x.flip(1)])), dim=1)
    a, b = out.chunk(2)
    sim = a @ b.t() / 0.1
    loss = criterion(sim, torch.arange(len(x), device=device))
    loss.backward()
    optimizer.step()
""",
    ),
    "differences of each sample and each other": Case(
        "DDP412",
        """
for x, y in loader:
    z = model(x)
    d = z.unsqueeze(0) - z.unsqueeze(1)
    loss = d.pow(2).sum(-1).mean()
    loss.backward()
    optimizer.step()
""",
    ),
    "a softmax over the samples": Case(
        "DDP412",
        """
for x, y in loader:
    z = model(x)
    loss = -F.softmax(z, dim=0).log().mean()
    loss.backward()
    optimizer.step()
""",
    ),
    "a deviation over the samples": Case(
        "DDP412",
        """
for x, y in loader:
    z = model(x)
    loss = F.relu(1 - z.std(dim=0)).mean()
    loss.backward()
    optimizer.step()
""",
    ),
    "a total of a class that reduces something else": Case(
        "DDP405",
        """
class Trainer:
    def __init__(self):
        self.total = 0.0
        self.hits = torch.zeros(1, device=device)
    def reduce_hits(self):
        dist.all_reduce(self.hits)
    def epoch(self):
        for x, y in loader:
            out = model(x)
            loss = criterion(out, y)
            loss.backward()
            optimizer.step()
            self.total += loss.item()
            self.hits += (out.argmax(1) == y).sum()
        self.reduce_hits()
        if rank == 0:
            print("loss", self.total / len(loader))
Trainer().epoch()
""",
    ),
    "a meter of a class that reduces something else": Case(
        "DDP405",
        """
class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0
    def update(self, v, n=1):
        self.sum += v * n
        self.count += n
class Trainer:
    def __init__(self):
        self.meter = Meter()
    def evaluate(self):
        hits = torch.zeros(1, device=device)
        for x, y in loader:
            hits += (model(x).argmax(1) == y).sum()
        dist.all_reduce(hits)
        return hits
    def epoch(self):
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            self.meter.update(loss.item(), len(x))
        self.evaluate()
        if rank == 0:
            print("loss", self.meter.sum / self.meter.count)
Trainer().epoch()
""",
    ),
    "a rank from an option beside a text that names another": Case(
        "DDP711",
        """
import argparse
import torch.distributed as dist

print("torchrun sets CUDA_VISIBLE_DEVICES and RANK")
parser = argparse.ArgumentParser()
parser.add_argument("--rank", type=int, default=0)
args = parser.parse_args()
dist.init_process_group("nccl", rank=args.rank, world_size=2)
""",
        "bare",
    ),
    "a name of the time beside a command that starts no rank": Case(
        "DDP507",
        """
def main():
    commit = subprocess.run(["git", "rev-parse", "HEAD"])
    out = f"runs/{time.strftime('%H%M%S')}"
    os.makedirs(out)
main()
""",
    ),
    "a log that all open to append and write after it was passed on": Case(
        "DDP501",
        """
def resume():
    log = open("log.txt", "a+")
    return log, 3
def note(log, epoch):
    log.write(f"{epoch}")
log, start = resume()
note(log, start)
"""
        + TRAIN,
    ),
    "a checkpoint behind what the other ranks of a node leave": Case(
        "DDP502",
        """
def save():
    if local_rank > 0:
        return
    torch.save(model.module.state_dict(), path)
save()
""",
    ),
    "an end by the loss of batches that another package makes": Case(
        "DDP402",
        """
from timm.data import create_loader
batches = create_loader(dataset, distributed=True)
for x, y in batches:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    if loss.item() > 100:
        break
""",
    ),
    "a backward by a rank's own loss": Case(
        "DDP402",
        """
for x, y in loader:
    loss = criterion(model(x), y)
    if loss.item() < 100:
        loss.backward()
    optimizer.step()
""",
    ),
    "a backward on rank 0 alone": Case(
        "DDP403",
        """
for x, y in loader:
    loss = criterion(model(x), y)
    if rank > 0:
        continue
    loss.backward()
    optimizer.step()
""",
    ),
    "a method past a wrapper that takes the model's name": Case(
        "DDP303",
        """
import hydra
class Workspace:
    def __init__(self, cfg):
        self.model = hydra.utils.instantiate(cfg.policy)
    def run(self):
        self.model = DDP(self.model, device_ids=[local_rank])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        for x, y in loader:
            self.model.module.compute_loss(x).backward()
            self.optimizer.step()
Workspace(hydra.compose("train")).run()
""",
    ),
    "a log of all ranks with what a function of the rank gives": Case(
        "DDP501",
        """
def epoch(rank):
    total = 0
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    if rank == 0:
        print(total)
    return {"loss": total, "lr": 0.1 * world_size}
stats = epoch(rank)
with open("log.txt", "a") as file:
    file.write(json.dumps(stats))
""",
    ),
}
