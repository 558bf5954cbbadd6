"""Bugs and right variants of ``two_models_ddp.py``."""

from __future__ import annotations

from benchmarks.by_hand.case import Case

DRAW_X = "        x = real[torch.randperm(96, generator=draw)[:16]]\n"
DRAW_Z = "        z = torch.randn(16, 3, generator=draw)\n"
SLICE = "        x, z = x[rank::world], z[rank::world]\n"
CRITIC = "        average_gradients(critic)\n"
GENERATOR = "            average_gradients(generator)\n"
STEP_C = "        optimizer_c.step()\n"
STEP_G = "            optimizer_g.step()\n"
AVERAGE = "a.mul_(0.9).add_(p, alpha=0.1)"
DIVIDE = "    flat /= dist.get_world_size()\n"
ALL_AT_ONCE = """    grads = [p.grad for p in model.parameters()]
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for grad, part in zip(grads, flat.split([grad.numel() for grad in grads]), strict=True):
        grad.copy_(part.view_as(grad))
"""
ONE_BY_ONE = """    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()
"""
SHOWN = "        dist.all_reduce(shown)\n"
SAVE = "    if rank == 0:\n        torch.save"

RIGHT = [
    Case("right: gradients that the generator clears", (("fake.detach()", "fake"),)),
    Case("right: as it is", ()),
    Case("right: averaged one by one", ((ALL_AT_ONCE, ONE_BY_ONE),)),
    Case("right: averaged before it is summed", (
        (DIVIDE, ""), ("    dist.all_reduce(flat)\n", "    flat /= dist.get_world_size()\n"
                       "    dist.all_reduce(flat)\n"))),
    Case("right: gathered and averaged", (
        ("    dist.all_reduce(flat)\n" + DIVIDE,
         "    parts = [torch.empty_like(flat) for _ in range(dist.get_world_size())]\n"
         "    dist.all_gather(parts, flat)\n    flat = torch.stack(parts).mean(dim=0)\n"),)),
    Case("right: reduced to rank 0 and broadcast", (
        ("    dist.all_reduce(flat)\n",
         "    dist.reduce(flat, 0)\n    dist.broadcast(flat, 0)\n"),)),
    Case("right: waits for an asynchronous sum", (
        ("dist.all_reduce(flat)", "dist.all_reduce(flat, async_op=True).wait()"),)),
    Case("right: contiguous slices", (
        (SLICE, SLICE.replace("[rank::world]", ".chunk(world)[rank]")),)),
    Case("right: averages by lerp", ((AVERAGE, "a.lerp_(p, 0.1)"),)),
    Case("right: parameters averaged after the step as well", (
        (STEP_C, STEP_C + "        for p in critic.parameters():\n"
         "            dist.all_reduce(p.data)\n            p.data /= world\n"),)),
    Case("right: sums of squares of the gradients by rank", (
        (CRITIC, CRITIC + "        norms = [p.grad.norm() for p in critic.parameters()]\n"
         "        dist.all_reduce(torch.stack(norms))\n"),)),
]  # fmt: skip

BUGS = [
    Case("the critic is not averaged", ((CRITIC, ""),), rules=("DDP303",), words="no gradient"),
    Case("the generator is not averaged", ((GENERATOR, ""),), rules=("DDP303",)),
    Case("the other model is averaged", (
        (GENERATOR, GENERATOR.replace("(generator)", "(critic)")),), rules=("DDP303",)),
    Case("summed", ((DIVIDE, ""),), rules=("DDP409",)),
    Case("divided twice", (
        ("    for grad, part", DIVIDE + "    for grad, part"),), rules=("DDP409", "DDP408")),
    Case("averaged after the step", ((CRITIC, ""), (STEP_C, STEP_C + CRITIC)),
         rules=("DDP303",), words="after the step"),
    Case("no broadcast and seeds by rank", (
        ("manual_seed(0)", "manual_seed(rank)"), ("dist.broadcast(p.data, 0)", "pass")),
        rules=("DDP601", "DDP602", "DDP322", "DDP308")),
    Case("batches drawn by rank", (("manual_seed(1)", "manual_seed(1 + rank)"),),
         rules=("DDP106", "DDP602", "DDP604")),
    Case("every rank has the whole batch", ((SLICE, ""),), rules=("DDP101", "DDP106")),
    Case("the noise is not sliced", ((SLICE, "        x = x[rank::world]\n"),
         ("bce(critic(fake.detach()), torch.zeros(n, 1))",
          "bce(critic(fake.detach()), torch.zeros(16, 1))"),
         ("bce(critic(generator(z)), torch.ones(n, 1))",
          "bce(critic(generator(z)), torch.ones(16, 1))")), rules=("DDP101", "DDP106")),
    Case("equal noise on all ranks", (
        (DRAW_Z, DRAW_Z + "        own = torch.Generator().manual_seed(step)\n"),
        (SLICE, "        x = x[rank::world]\n        z = torch.randn(len(x), 3, generator=own)\n")),
        rules=("DDP106",), words="random|noise|draw"),
    Case("the generator trains every round", (("if step % 2:", "if True:"),), words="step"),
    Case("the generator trains in the other rounds", (("if step % 2:", "if step % 2 == 0:"),),
         words="step"),
    Case("the generator trains by rank", (("if step % 2:", "if step % 2 == rank:"),),
         rules=("DDP401", "DDP402", "DDP407")),
    Case("zero_grad of the critic left out", (("        optimizer_c.zero_grad()\n", ""),),
         words="zero_grad"),
    Case("zero_grad of the generator left out", (("            optimizer_g.zero_grad()\n", ""),),
         words="zero_grad"),
    Case("another rate of the critic", (
        ("critic.parameters(), lr=0.01", "critic.parameters(), lr=0.01 * world"),),
        rules=("DDP110",)),
    Case("another rate of the average", ((AVERAGE, AVERAGE.replace("=0.1", "=0.2")),),
         words="average|outside"),
    Case("average on rank 1 alone", (
        (AVERAGE, "a.lerp_(p, 0.1 if rank else 0.0)"),), rules=("DDP407",),
        words="average|outside"),
    Case("average of the critic's rounds", (
        ("            with torch.no_grad():\n", "        with torch.no_grad():\n        "
         "    if True:\n"),
        ("                for a, p", "                for a, p")), words="average|outside"),
    Case("local loss is printed", ((SHOWN, "        shown *= world\n"),), rules=("DDP405",)),
    Case("every rank writes", ((SAVE, "    if True:\n        torch.save"),), rules=("DDP501",)),
    Case("rank 1 writes something else", (
        (SAVE, '    if rank == 1:\n        torch.save({}, "other.pt")\n' + SAVE),),
        words="other.pt"),
    Case("the wrong slice at the end", (
        (SLICE, SLICE.replace("rank::world", "min(rank, 11 - step)::world")),),
        rules=("DDP104", "DDP106")),
    Case("betas of Adam", (
        ("critic.parameters(), lr=0.01", "critic.parameters(), lr=0.01, betas=(0.5, 0.999)"),),
        words="betas"),
    Case("amsgrad", (
        ("critic.parameters(), lr=0.01", "critic.parameters(), lr=0.01, amsgrad=True"),),
         words="amsgrad"),
    Case("another optimizer", (
        ("optim.Adam(critic", "optim.RMSprop(critic"),), words="RMSprop"),
]  # fmt: skip

CASES = RIGHT + BUGS
