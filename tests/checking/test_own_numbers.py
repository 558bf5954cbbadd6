"""Numbers of one rank's own samples are followed to where they are shown or decide something."""

from __future__ import annotations

from collections.abc import Callable

from ddpify.checking import Report

Checked = Callable[..., tuple[Report, list[str]]]

LOCAL = ("    dist.all_reduce(total)\n    model.train()", "    model.train()")
LOSS = ("        dist.all_reduce(total)\n", "")


def found(report: Report, lines: list[str]) -> set[tuple[str, str]]:
    return {(one.code, lines[(one.line or 1) - 1].strip()[:14]) for one in report.findings}


def test_a_sum_that_rank_0_prints(checked: Checked) -> None:
    report, lines = checked("sampled", LOSS)
    assert found(report, lines) == {("DDP405", 'print(f"epoch ')}


def test_a_score_that_steers_a_scheduler_and_a_checkpoint(checked: Checked) -> None:
    report, lines = checked("sampled", LOCAL)
    expected = {("DDP405", 'print(f"epoch '), ("DDP406", "scheduler.step"),
                ("DDP405", "if score < bes")}  # fmt: skip
    assert found(report, lines) == expected


def test_a_perplexity_in_a_text_file_of_rank_0(checked: Checked) -> None:
    line = "        scheduler.step(score)\n"
    write = (
        f"{line}        import math\n        if rank == 0:\n            "
        "with open('log.txt', 'a') as log:\n                "
        "log.write(f'{math.exp(min(loss.item(), 9.0)):.3f}')\n"
    )
    report, lines = checked("sampled", (line, write))
    assert found(report, lines) == {("DDP405", "log.write(f'{m")}


def test_early_stopping_by_each_rank_s_own_loss_is_possible(checked: Checked) -> None:
    stop = "        stop = loss.detach().clone()\n        dist.all_reduce(stop)\n"
    report, lines = checked(
        "accumulated", (stop, "        stop = loss.detach().clone() * 2\n"), (
            'print("epoch", epoch, "loss", stop.item() / world, flush=True)', "pass"
        )
    )  # fmt: skip
    assert found(report, lines) == {("DDP402", "if stop.item()")}
    assert report.findings[0].certainty == "possible"


def test_a_number_that_names_its_rank_is_fine(checked: Checked) -> None:
    own = '        print(f"[rank {rank}] loss {loss.item():.3f}")\n        dist.barrier()\n'
    report, _ = checked("sampled", ("        dist.barrier()\n", own))
    assert report.findings == []


NET = "class Net(nn.Module):"
STOPPER = """class Stopper:
    def __init__(self):
        self.best, self.bad, self.stop = 1e9, 0, False

    def __call__(self, value):
        if value > self.best:
            self.bad += 1
            if self.bad >= 50:
                self.stop = True
        else:
            self.best = value


stopper = Stopper()


class Net(nn.Module):"""


def test_a_stopper_of_a_class_that_follows_a_converted_number(checked: Checked) -> None:
    line = "        scheduler.step(score)\n"
    report, lines = checked(
        "sampled", (NET, STOPPER), (line, f"{line}        stopper(float(loss))\n"
                                    "        if stopper.stop:\n            break\n")
    )  # fmt: skip
    assert found(report, lines) == {("DDP402", "if stopper.sto")}
    assert report.findings[0].certainty == "possible"


def test_numpy_s_mean_of_losses_decides_about_a_file_through_an_argument(
    checked: Checked,
) -> None:
    save = (
        "import numpy\n\n\ndef keep(net, best, rank):\n    if best and rank == 0:\n"
        "        torch.save(net.state_dict(), 'kept.pt')\n\n\n"
    )
    report, lines = checked(
        "sampled", (NET, save + NET), ("            total += loss.detach()\n",
        "            total += loss.detach()\n            losses.append(loss.item())\n"),
        ("        total = torch.zeros(())\n",
         "        total = torch.zeros(())\n        losses = []\n"),
        ("        scheduler.step(score)\n", "        scheduler.step(score)\n"
         "        better = numpy.mean(losses) < 1e6\n        keep(net, better, rank)\n"),
    )  # fmt: skip
    assert found(report, lines) == {("DDP405", "better = numpy")}


def test_a_stopper_that_follows_the_score_of_all_ranks_is_fine(checked: Checked) -> None:
    line = "        scheduler.step(score)\n"
    report, _ = checked(
        "sampled", (NET, STOPPER), (line, f"{line}        stopper(float(score))\n"
                                    "        if stopper.stop:\n            break\n")
    )  # fmt: skip
    assert report.findings == []
