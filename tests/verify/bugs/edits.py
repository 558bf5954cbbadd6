"""Places in a converted script that bugs change, and scripts that they need."""

from __future__ import annotations

from tests.verify.planting import OPTIONAL, Edits

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
