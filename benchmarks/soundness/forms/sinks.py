"""What a training loop does with a result ``r`` of any shape."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sink:
    """What is done with ``r``: before the loop, where a loss is, after the step, after the loop."""

    name: str
    before: tuple[str, ...] = ()
    loss: tuple[str, ...] = ()
    step: tuple[str, ...] = ()
    end: tuple[str, ...] = ()


LOSS = [
    Sink("loss", loss=(line,))
    for line in (
        "loss = loss + 0.1 * r.double().pow(2).mean()",
        "loss = loss + 0.1 * (r * r).mean()",
        "loss = loss + 0.01 * r.double().sum()",
        "loss = loss + 0.1 * r.double().abs().max()",
        "loss = loss * (1 + r.double().detach().abs().mean())",
        "loss = loss + F.mse_loss(r, targets)",
        "loss = ((out - r) ** 2).mean()",
        "loss = ((out - r.detach()) ** 2).mean()",
        "loss = F.mse_loss(out * r, targets)",
        "loss = F.mse_loss(out + 0.1 * r, targets)",
        "loss = loss + 0.1 * (r * targets).sum() / len(targets)",
        "loss = loss + 0.1 * r.double().flatten()[0]",
        "loss = loss / (1 + r.double().numel())",
    )
]
OTHER = [
    *(
        Sink("print", step=(line,))
        for line in (
            'print(f"{r.double().sum().item():.6f}")',
            'print(f"{r.double().mean().item():.6f} {loss.item():.6f}")',
            'print("largest", f"{float(r.double().max()):.6f}")',
            "print(tuple(r.shape))",
            "print(r.numel())",
            'print(" ".join(f"{v:.6f}" for v in r.double().flatten().tolist()))',
            'print("%.6f" % r.double().flatten()[0].item())',
        )
    ),
    Sink("saved", step=('torch.save(r.detach(), "r.pt")',)),
    Sink("saved", step=('torch.save({"r": r.detach(), "loss": loss.item()}, "r.pt")',)),
    Sink("saved", end=('torch.save(r.detach().clone(), "r.pt")',)),
    Sink(
        "saved",
        step=(
            'with open("log.txt", "a") as log:',
            '    log.write(f"{r.double().sum().item():.6f}\\n")',
        ),
    ),
    Sink("saved", step=('np.save("r.npy", r.detach().numpy())',)),
    Sink(
        "collected",
        before=("kept = []",),
        step=("kept.append(r.detach())",),
        end=('print(f"{sum(k.double().sum().item() for k in kept):.6f}", len(kept))',),
    ),
    Sink(
        "collected",
        before=("kept = []",),
        step=("kept.append(r.detach().double().flatten())",),
        end=('print(f"{torch.cat(kept).std():.6f}")',),
    ),
    Sink(
        "collected",
        before=("kept = []",),
        step=("kept.extend(r.detach().double().flatten().tolist())",),
        end=('print(len(kept), f"{sum(kept) / len(kept):.6f}")',),
    ),
    Sink(
        "collected",
        before=("kept = collections.defaultdict(list)",),
        step=('kept["r"].append(r.double().mean().item())',),
        end=("print([f'{v:.6f}' for v in kept['r']])",),
    ),
    Sink(
        "collected",
        before=("kept = []",),
        step=("kept += r.detach().double().flatten().tolist()",),
        end=("print([f'{v:.6f}' for v in sorted(kept)[:3]], f'{statistics.median(kept):.6f}')",),
    ),
    Sink(
        "collected",
        before=("kept = torch.zeros(0)",),
        step=("kept = torch.cat([kept, r.detach().double().flatten()])",),
        end=('print(f"{kept.sort().values.diff().max():.6f}")',),
    ),
    Sink("decides", loss=("if r.double().mean() > 0.01:", "    loss = loss * 2")),
    Sink("decides", loss=("if r.double().sum().item() > 0.5:", "    continue")),
    Sink("decides", loss=("if (r > 0.4).any():", "    loss = loss + 0.1 * out.pow(2).mean()")),
    Sink("decides", loss=("loss = loss * 3 if float(r.double().max()) > 0.8 else loss",)),
    Sink("decides", loss=("loss = loss * torch.where(r.double().mean() > 0.01, 2.0, 0.5)",)),
    Sink(
        "decides",
        before=("best = -1e9",),
        step=(
            "if r.double().sum() > best:",
            "    best = r.double().sum().item()",
            '    torch.save(model.state_dict(), "best.pt")',
        ),
        end=('print(f"{best:.6f}")',),
    ),
    Sink(
        "kept in a state",
        before=("running = 0.0",),
        loss=(
            "running = 0.9 * running + 0.1 * r.double().detach().mean()",
            "loss = loss * (1 + running)",
        ),
        end=('print(f"{running:.6f}")',),
    ),
    Sink(
        "kept in a state",
        before=("total, count = 0.0, 0",),
        step=("total += r.double().sum().item()", "count += r.numel()"),
        end=('print(f"{total / count:.6f}")',),
    ),
    Sink(
        "kept in a state",
        before=("previous = torch.zeros(())",),
        loss=("loss = loss + 0.1 * previous", "previous = r.double().detach().abs().mean()"),
    ),
    Sink(
        "sets the learning rate",
        step=(
            "for group in optimizer.param_groups:",
            "    group['lr'] = 0.05 / (1 + float(r.double().abs().mean()))",
        ),
    ),
]
