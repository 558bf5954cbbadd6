"""The planted bugs: what is changed, and what verify must say about it."""

from __future__ import annotations

from ddpify.verify import What
from tests.verify.planting import OPTIONAL, Bug, Edits

SHARDED = r"^( *)<loader> = dd\.shard\((.*)\)$"
WRAPPED = r"^( *)<model> = dd\.wrap\((.*)\)$"
BACKWARD = r"^( *)<loss>\.backward\(\)$"
STEP = r"^( *)<optimizer>\.step\(\)$"
FORWARD = r"^( *)<output> = <model>\(<data>\)\n( *)<loss> = "
ON_RANK_0 = r"\1if dist.get_rank() == 0: "
WHOLE_TEST = (OPTIONAL + r"<test_loader> = dd\.shard\(", "<test_loader> = dd.replicate(")
DDP_MODEL = (WRAPPED, r"\1<model> = DDP(\2)")
PLAIN_KEYS = (
    OPTIONAL + r"dd\.save\(<model>\.state_dict\(\)",
    "dd.save(<model>.module.state_dict()",
)
OWN_EVALUATION = (r"dd\.(sum|mean)\((.*)\)\.item\(\)", r"(\2).item()")
WITH_BATCH_NORM = (
    r"<model> = (Net\(.*\))\.to\(device\)",
    r"<model> = torch.nn.Sequential(torch.nn.BatchNorm1d(2) if hasattr(args, 'hidden') "
    r"else torch.nn.BatchNorm2d(1), \1).to(device)",
)
ACCUMULATED: Edits = (
    (
        r"^( *)<loss>\.backward\(\)\n *<optimizer>\.step\(\)",
        r"\1<loss> = <loss> / 4\n\1<loss>.backward()\n"
        r"\1if <batch> % 4 == 3 or <batch> + 1 == len(<loader>):\n"
        r"\1    <optimizer>.step()\n\1    <optimizer>.zero_grad()",
    ),
    (r"^ *<optimizer>\.zero_grad\(\)\n( *<output>)", r"\1"),
)
SUMMED: Edits = (
    (
        OPTIONAL + r"<loss> = F\.nll_loss\(<output>, target\)",
        "<loss> = F.nll_loss(<output>, target, reduction='sum')",
    ),
    (OPTIONAL + r"lr=args\.lr\)", "lr=args.lr, weight_decay=0.1)"),
)
PER_BATCH_SCHEDULE: Edits = (
    (r"<scheduler> = StepLR\(.*\)",
     "<scheduler> = optim.lr_scheduler.CosineAnnealingLR(<optimizer>, 2 * len(<loader>))\n"
     "    <optimizer>.register_step_post_hook(lambda *a: <scheduler>.step())"),
    (r"^( *)<scheduler>\.step\(\)$", r"\1pass"),
)  # fmt: skip

DATA_BUGS = [
    Bug("no sampler", ((SHARDED, r"\1<loader> = \2"), WHOLE_TEST), (What.DATA,), "DDP101"),
    Bug(
        "no set_epoch",
        ((SHARDED, r"\1<loader> = spread(\2)"), WHOLE_TEST),
        (What.DATA,),
        "DDP102",
    ),
    Bug(
        "sampler seeded by rank",
        ((SHARDED, r"\1<loader> = spread(\2, seed=dist.get_rank())"), WHOLE_TEST),
        (What.DATA,),
        "DDP604",
    ),
    Bug(
        "sampler with rank 0 everywhere",
        (
            (SHARDED, r"\1<loader> = spread(\2, num_replicas=dist.get_world_size(), rank=0)"),
            WHOLE_TEST,
        ),
        (What.DATA,),
        "DDP104",
    ),
    Bug(
        "batch size not divided",
        (
            (SHARDED, r"\1<loader> = spread(\2, divide=False)"),
            WHOLE_TEST,
            (
                OPTIONAL + r"<model>\.train\(\)",
                "<model>.train(); <loader>.sampler.set_epoch(epoch)",
            ),
        ),
        (What.DATA,),
        "DDP110",
    ),
    Bug(
        "split drawn by each rank",
        ((r"^( *)(kept, held = )", r"\1torch.manual_seed(dist.get_rank())\n\1\2"),),
        (What.DATA,),
        "DDP107",
        before=(
            (
                r"^( *)(<test_loader> = .*)$",
                r"\1\2\n"
                r"\1kept, held = torch.utils.data.random_split(<loader>.dataset, [0.7, 0.3])\n"
                r"\1<loader> = torch.utils.data.DataLoader(kept, 16, shuffle=True)\n"
                r"\1<test_loader> = torch.utils.data.DataLoader(held, 16)",
            ),
            (r"len\(<test_loader>\.dataset\)", "len(<test_loader>.dataset)"),
        ),
    ),
    Bug(
        "contents drawn by each rank",
        (
            (
                SHARDED,
                r"\1<loader> = \2; <loader>.dataset.__class__.__getitem__ = (lambda get: "
                r"lambda self, i: (get(self, i)[0] / (1 + dist.get_rank()), get(self, i)[1]))"
                r"(<loader>.dataset.__class__.__getitem__); "
                r"<loader> = dd.shard(<loader>)",
            ),
        ),
        (What.DATA,),
        "DDP108",
    ),
    Bug(
        "batches drawn by hand, the same on all ranks",
        ((r"len\(<loader>\.dataset\)", "96"),),
        (What.DATA,),
        "DDP106",
        both=(
            (
                r"^( *)(<model> = .*)$",
                r"\1stock = [<loader>.dataset[i] for i in range(96)]\n"
                r"\1class ByHand(list):\n"
                r"\1    dataset = stock\n"
                r"\1<test_loader>, whole = [], <test_loader>\n"
                r"\1<test_loader> = ByHand(<test_loader>)\n"
                r"\1<loader> = ByHand((torch.stack([stock[i][0] for i in ix]), "
                r"torch.as_tensor([int(stock[i][1]) for i in ix])) "
                r"for ix in torch.randperm(96).split(16))\n"
                r"\1\2",
            ),
        ),
    ),
]

UPDATE_BUGS = [
    Bug("scheduler on rank 0", ((r"^( *)(<scheduler>\.step\(\))", ON_RANK_0 + r"\2"),),
        (What.LEARNING_RATE,), "DDP407"),
    Bug("optimizer on rank 0", ((r"^( *)(<optimizer>\.step\(\))", ON_RANK_0 + r"\2"),),
        (What.STEPS,), "DDP407"),
    Bug("zero_grad on rank 0",
        ((r"^( *)((?:<optimizer>|<model>)\.zero_grad\(.*\))", ON_RANK_0 + r"\2"),),
        (What.GRADIENT, What.LOSS), "DDP407"),
    Bug("two steps a batch", ((STEP, r"\1<optimizer>.step()\n\1<optimizer>.step()"),),
        (What.STEPS,), "DDP407"),
    Bug("plateau on a number of one rank",
        ((r"<scheduler>\.step\(1\.0 / \(1 \+ epoch\)\)",
          "<scheduler>.step(epoch if dist.get_rank() else 1.0 / (1 + epoch))"),),
        (What.LEARNING_RATE,), "DDP406",
        before=((r"<scheduler> = StepLR\(.*\)",
                 "<scheduler> = optim.lr_scheduler.ReduceLROnPlateau(<optimizer>, patience=0)"),
                (r"^( *)<test>\n *<scheduler>\.step\(\)",
                 r"\1<test>\n\1<scheduler>.step(1.0 / (1 + epoch))"))),
    Bug("schedule by a loader that is split",
        ((r"2 \* len\(<loader>\)", "2 * (len(<loader>) // dist.get_world_size())"),),
        (What.LEARNING_RATE,), "DDP418", before=PER_BATCH_SCHEDULE),
    Bug("learning rate times the world size",
        ((r"^( *<optimizer> = .*lr=)([\w.\-]+)", r"\1\2 * dist.get_world_size()"),),
        (What.LEARNING_RATE,), "DDP110"),
    Bug("weights changed on one rank after wrapping",
        ((WRAPPED, r"\1<model> = dd.wrap(\2)\n"
          r"\1if dist.get_rank(): [p.data.mul_(1.01) for p in <model>.parameters()]"),),
        (What.START,), "DDP308"),
]  # fmt: skip

GRADIENT_BUGS = [
    Bug("BatchNorm by rank", ((WRAPPED, r"\1<model> = dd.wrap(\2, sync_batchnorm=False)"),),
        (What.LOSS, What.GRADIENT), "DDP312", before=(WITH_BATCH_NORM,)),
    Bug("BatchNorm by rank, in the script's own layers",
        ((WRAPPED, r"\1<model> = dd.wrap(\2, sync_batchnorm=False)"),),
        (What.LOSS, What.GRADIENT), "DDP312", needs="BatchNorm"),
    Bug("loss over the world size",
        ((BACKWARD, r"\1(<loss> / dist.get_world_size()).backward()"),),
        (What.LOSS, What.GRADIENT), "DDP409"),
    Bug("loss not over the accumulated batches",
        ((r"<loss> / 4", "<loss>"),),
        (What.LOSS, What.GRADIENT), "DDP416", before=ACCUMULATED),
    Bug("sum loss", ((r"<loss> = dd\.sum\((.*)\)$", r"<loss> = \1"),),
        (What.LOSS, What.GRADIENT), "DDP408", before=SUMMED),
    Bug("loss over valid tokens",
        ((r"<loss> = dd\..*$", "keep = target.view(-1) != 0; <loss> = "
          "(F.nll_loss(<output>, target, reduction='none') * keep).sum() / keep.sum()"),),
        (What.LOSS, What.GRADIENT), "DDP408",
        before=((r"<loss> = F\.nll_loss\(<output>, target\)",
                 "keep = target.view(-1) != 0; <loss> = "
                 "(F.nll_loss(<output>, target, reduction='none') * keep).sum() / keep.sum()"),)),
    Bug("loss over valid tokens, unweighted",
        ((r"^( *<loss> = )dd\.mean\((.*), weight=.*\)$", r"\1\2"),),
        (What.LOSS, What.GRADIENT), "DDP408", needs="a loss with weights"),
    Bug("forward past the wrapper", (DDP_MODEL, PLAIN_KEYS,
        (FORWARD, r"\1<output> = <model>.module(<data>)\n\2<loss> = ")),
        (What.LOSS, What.GRADIENT), "DDP303"),
    Bug("a reference from before wrapping", ((WRAPPED, r"\1<model> = \2; wrapped = DDP(<model>)"),),
        (What.LOSS, What.GRADIENT), "DDP304"),
    Bug("frozen when it was wrapped", (PLAIN_KEYS,
        (WRAPPED, r"\1<model> = \2; first = next(<model>.parameters()).requires_grad_(False)\n"
         r"\1<model> = DDP(<model>); first.requires_grad_(True)")),
        (What.GRADIENT,), "DDP306"),
    Bug("parameters outside the wrapper",
        ((WRAPPED, r"\1<model> = \2; name, layer = list(<model>.named_children())[-1]\n"
          r"\1setattr(<model>, name, DDP(layer))"),),
        (What.GRADIENT,), "DDP305"),
    Bug("two backwards on one forward", (DDP_MODEL, PLAIN_KEYS,
        (BACKWARD, r"\1(<loss> / 2).backward(retain_graph=True)\n\1(<loss> / 2).backward()")),
        (What.GRADIENT, What.LOSS), "DDP310"),
    Bug("cast after wrapping", (PLAIN_KEYS, (WRAPPED, r"\1<model> = DDP(\2).double()")),
        (What.DEVICE,), "DDP302"),
    Bug("optimizer made before sharding",
        ((WRAPPED, r"\1<model> = \2"),
         (r"^( *)(<optimizer> = .*)$",
          r"\1\2\n\1from torch.distributed.fsdp import fully_shard\n"
          r"\1from torch.distributed.device_mesh import init_device_mesh\n"
          r"\1fully_shard(<model>, mesh=init_device_mesh('cpu', (dist.get_world_size(),)))"),
         (r"dd\.save\(.*\)", "<model>.state_dict()")),
        (What.GRADIENT, What.STEPS), "DDPF01"),
]  # fmt: skip

HANGS = [
    Bug("one rank stops early",
        ((STEP, r"\1<optimizer>.step()\n"
          r"\1if <late> and dist.get_rank() == 1: <leave>"),),
        (What.HANG, What.COLLECTIVE), "DDP402"),
    Bug("one rank skips a batch", (DDP_MODEL, PLAIN_KEYS,
        (BACKWARD, r"\1if <late> and dist.get_rank() == 1: continue\n\1<loss>.backward()")),
        (What.HANG, What.COLLECTIVE), "DDP402"),
    Bug("barrier on rank 0",
        ((r"^( *)(<test>)", r"\1\2\n" + ON_RANK_0 + "dist.barrier()"),),
        (What.HANG, What.COLLECTIVE), "DDP401"),
    Bug("evaluation on rank 0, with its sums", ((r"^( *)(<test>)", ON_RANK_0 + r"\2"),),
        (What.HANG, What.COLLECTIVE), "DDP401"),
    Bug("evaluation on rank 0", (DDP_MODEL, PLAIN_KEYS, OWN_EVALUATION,
        (r"<test_loader> = dd\.shard\((.*)\)$", r"<test_loader> = \1"),
        (r"^( *)(<test>)", ON_RANK_0 + r"\2")),
        (What.HANG, What.COLLECTIVE), "DDP403", before=(WITH_BATCH_NORM,)),
]  # fmt: skip

OUTPUT_BUGS = [
    Bug("metric of one rank", ((r"correct \+= dd\.sum\((.*)\)\.item\(\)$",
        r"correct += (\1).item() * dist.get_world_size()"),),
        (What.PRINTED,), "DDP405"),
    Bug("mean of one rank", ((r"^( *[\w.]+ \+?= )dd\.mean\((.*)\)\.item\(\)$", r"\1(\2).item()"),),
        (What.PRINTED,), "DDP405", needs="a printed mean"),
    Bug("local sum over the whole data set",
        ((r"test_loss \+= dd\.sum\((.*)\)\.item\(\)", r"test_loss += \1.item()"),),
        (What.PRINTED,), "DDP111"),
    Bug("checkpoint by every rank", ((r"dd\.save", "torch.save"),), (What.FILE,), "DDP501"),
    Bug("log by every rank",
        ((r"^( *)(<once>)$", r"\1\2\n\1open('log.txt', 'a').write('epoch\\n')"),),
        (What.FILE,), "DDP501",
        before=((r"^( *)(<once>)$",
                 r"\1\2\n\1if int(__import__('os').environ.get('RANK', 0)) == 0:\n"
                 r"\1    open('log.txt', 'a').write('epoch\\n')"),)),
    Bug("the wrapper's keys", (DDP_MODEL,), (What.FILE,), "DDP503"),
    Bug("every rank prints",
        ((r"^( *)dd\.init\(\)$", r"\1descriptor = os.dup(1); stream = sys.stdout; dd.init()\n"
          r"\1os.dup2(descriptor, 1); sys.stdout = stream"),),
        (What.PRINTED,), "DDP508"),
    Bug("the same device everywhere",
        ((r"device = (.*)$", r"device = torch.device('cuda:0')"),), (What.DEVICE,), "DDP201"),
    Bug("loads onto the GPU that saved",
        ((r"torch\.load\('state.pt'.*\)", "torch.load('state.pt')"),
         (r"device = (.*)$", r"device = torch.device('cuda', int(os.environ['LOCAL_RANK']))")),
        (What.DEVICE,), "DDP205",
        before=((r"^( *)(<optimizer> = .*)$",
                 r"\1torch.save(1, 'state.pt')\n\1torch.load('state.pt')\n\1\2"),)),
    Bug("synchronised at each accumulated batch", (DDP_MODEL, PLAIN_KEYS), (), "DDP801",
        before=ACCUMULATED, note=True),
]  # fmt: skip

FOOLS = [
    Bug("ignores its data",
        ((FORWARD, r"\1<output> = <model>(torch.zeros_like(<data>))\n\2<loss> = "),),
        (What.DATA,), ""),
    Bug("trains on rank 0 alone",
        ((SHARDED, r"\1<loader> = \2"), (WRAPPED, r"\1<model> = \2"),
         (r"^(def train\(.*\):)$", r"\1\n    if dist.get_rank(): return"),
         (OPTIONAL + r"<loss> = dd\.(?:mean|sum)\((.*)\)$", r"<loss> = \1"), WHOLE_TEST,
         (OPTIONAL + r"dd\.global_batch_size\(<data>\)", "len(<data>)")),
        (What.STEPS, What.WORK, What.DATA), ""),
]  # fmt: skip

BUGS = [*DATA_BUGS, *UPDATE_BUGS, *GRADIENT_BUGS, *HANGS, *OUTPUT_BUGS, *FOOLS]
