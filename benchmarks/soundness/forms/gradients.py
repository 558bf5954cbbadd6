"""Statements between the backward pass and the optimizer's step, on the gradients of ``model``."""

from __future__ import annotations

_ALL = "[p.grad for p in model.parameters()]"

GRADIENTS = [
    ["nn.utils.clip_grad_norm_(model.parameters(), 0.1)"],
    ["nn.utils.clip_grad_norm_(model.parameters(), 0.1, norm_type=float('inf'))"],
    ["nn.utils.clip_grad_value_(model.parameters(), 0.05)"],
    ["norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)", 'print(f"{norm.item():.6f}")'],
    [f"norm = torch.stack([g.norm() for g in {_ALL}]).norm()", 'print(f"{norm:.6f}")'],
    [f"print('%.6f' % sum(float(g.abs().sum()) for g in {_ALL}))"],
    ["for p in model.parameters():", "    p.grad.mul_(len(inputs))"],
    ["for p in model.parameters():", "    p.grad.div_(inputs.shape[0])"],
    ["for p in model.parameters():", "    p.grad += 0.01 * p.detach()"],
    ["for p in model.parameters():", "    p.grad = p.grad / (p.grad.norm() + 1)"],
    ["for p in model.parameters():", "    p.grad.sign_()"],
    ["for p in model.parameters():", "    p.grad.add_(0.1 * inputs.mean())"],
    ["for p in model.parameters():", "    p.grad.mul_(1 + loss.detach())"],
    ["for p in model.parameters():", "    p.grad.mul_(out.detach().abs().max())"],
    ["if max(p.grad.abs().max() for p in model.parameters()) > 0.3:", "    optimizer.zero_grad()"],
    [
        "if loss.item() > 1.2:",
        "    for p in model.parameters():",
        "        p.grad.zero_()",
    ],
    ["optimizer.param_groups[0]['lr'] = 0.01 * len(inputs)"],
    ["optimizer.param_groups[0]['lr'] = 0.05 / (1 + loss.item())"],
    ["optimizer.param_groups[0]['lr'] = 0.05 * float(targets.std(0).mean())"],
    ["with torch.no_grad():", "    model.weight.add_(0.01 * inputs.T @ inputs)"],
    ["with torch.no_grad():", "    model.bias.sub_(0.01 * (out - targets).mean(0))"],
    ["with torch.no_grad():", "    model.bias.copy_(0.5 * model.bias + 0.5 * inputs.mean(0))"],
    ["with torch.no_grad():", "    model.weight.clamp_(-0.4, 0.4)"],
    ["with torch.no_grad():", "    model.bias.sub_(0.01 * out.sum(0))"],
    ["with torch.no_grad():", "    model.bias.sub_(0.01 * out[0])"],
]

PENALTIES = [
    ["loss = loss + 0.01 * sum(p.pow(2).sum() for p in model.parameters())"],
    ["loss = loss + 0.01 * sum(p.abs().sum() for p in model.parameters()) / len(inputs)"],
    [
        "g = torch.autograd.grad(loss, model.weight, create_graph=True)[0]",
        "loss = loss + 0.1 * g.pow(2).sum()",
    ],
    [
        "inputs.requires_grad_()",
        "g = torch.autograd.grad(model(inputs).tanh().sum(), inputs, create_graph=True)[0]",
        "loss = loss + 0.1 * g.norm(2, 1).sub(1).pow(2).mean()",
    ],
    [
        "inputs.requires_grad_()",
        "g = torch.autograd.grad(model(inputs).tanh().sum(), inputs, create_graph=True)[0]",
        "loss = loss + 0.1 * g.norm()",
    ],
    [
        "inputs.requires_grad_()",
        "g = torch.autograd.grad(model(inputs).tanh().mean(), inputs, create_graph=True)[0]",
        "loss = loss + 0.1 * g.pow(2).sum()",
    ],
    [
        "noise = inputs.clone().requires_grad_()",
        "g = torch.autograd.grad(F.mse_loss(model(noise), targets), noise)[0]",
        "loss = F.mse_loss(model(inputs + 0.1 * g.sign()), targets)",
    ],
    [
        "noise = inputs.clone().requires_grad_()",
        "g = torch.autograd.grad(F.mse_loss(model(noise), targets), noise)[0]",
        "loss = F.mse_loss(model(inputs + 0.1 * g / g.norm()), targets)",
    ],
    ["loss.register_hook(lambda g: g * 2)"],
    ["out.register_hook(lambda g: g * 2)"],
    ["out.register_hook(lambda g: g * len(g))"],
    ["out.register_hook(lambda g: g / g.norm())"],
    ["out.register_hook(lambda g: g.clamp(-0.01, 0.01))"],
    ["out.register_hook(lambda g: g - g.mean(0))"],
    ["out.register_hook(lambda g: -g)"],
    ["out.retain_grad()"],
    ["loss = loss * len(inputs)"],
    ["loss = loss * len(inputs) / 4"],
    ["loss = loss / inputs.size(0)"],
    ["loss = loss * (labels > 0).sum()"],
    ["loss = loss * labels.max()"],
    ["loss = loss * inputs.shape[0] ** 0.5"],
]
