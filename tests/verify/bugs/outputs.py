"""Bugs in what is printed and written, and on which device."""

from __future__ import annotations

from ddpify.verify import What
from tests.verify.bugs.edits import ACCUMULATED, DDP_MODEL, PLAIN_KEYS
from tests.verify.planting import Bug

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
