"""Files that rank 0 writes and all ranks read, where helpers do one or both."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

WAIT = "    pass  # wait\n"
READ = "net.load_state_dict(torch.load(path, map_location=device))\n"
FORMS = {
    "a helper that asks": (
        "def save(file):\n    if rank == 0:\n        torch.save(net.state_dict(), file)\n"
        f"{WAIT}\nsave(path)\n{READ}"
    ),
    "a helper for rank 0": (
        "def save(file):\n    torch.save(net.state_dict(), file)\n\n"
        f"if rank == 0:\n    save(path)\nif True:\n{WAIT}{READ}"
    ),
    "a helper that leaves": (
        "def save(file):\n    if rank != 0:\n        return\n"
        "    torch.save(net.state_dict(), file)\n\n"
        f"save(path)\nif True:\n{WAIT}{READ}"
    ),
    "a helper that reads": (
        f"def read(file):\n{WAIT}    return torch.load(file, map_location=device)\n\n"
        "if rank == 0:\n    torch.save(net.state_dict(), path)\n"
        "net.load_state_dict(read(path))\n"
    ),
    "methods": (
        "class Best:\n    def __init__(self, file):\n        self.file = file\n\n"
        "    def save(self):\n        if rank == 0:\n"
        "            torch.save(net.state_dict(), self.file)\n"
        f"    {WAIT}\n"
        "    def load(self):\n"
        "        net.load_state_dict(torch.load(self.file, map_location=device))\n\n"
        'best = Best("best.pt")\nbest.save()\nbest.load()\n'
    ),
    "a helper that hands all on": (
        "def save(*args, **kwargs):\n    if rank == 0:\n        torch.save(*args, **kwargs)\n\n"
        f"save(net.state_dict(), path)\nif True:\n{WAIT}{READ}"
    ),
    "a helper that hands names on": (
        "def save(**kwargs):\n    if rank == 0:\n        torch.save(**kwargs)\n\n"
        f"save(obj=net.state_dict(), f=path)\nif True:\n{WAIT}{READ}"
    ),
    "one of several paths": (
        "def save(*args):\n    if rank == 0:\n        torch.save(*args)\n\n"
        'def main(folder):\n    files = [folder + "/last.pt"]\n'
        '    files.append(f"{folder}/{epochs}.pt")\n'
        f"    for file in files:\n        save(net.state_dict(), file)\n{WAIT}"
        '    net.load_state_dict(torch.load(folder + "/last.pt", map_location=device))\n\n'
        'main("runs")\n'
    ),
    "closures": (
        'def main():\n    file = "best.pt"\n\n'
        "    def save():\n        if dist.get_rank() == 0:\n"
        "            torch.save(net.state_dict(), file)\n\n"
        "    def load():\n"
        "        net.load_state_dict(torch.load(file, map_location=device))\n\n"
        f"    save()\n{WAIT}    load()\n\nmain()\n"
    ),
    "a text": (
        "def index():\n    if rank == 0:\n"
        '        with open("index.json", "w") as file:\n            json.dump({"a": 1}, file)\n'
        f'{WAIT}\nindex()\nwith open("index.json") as file:\n    table = json.load(file)\n'
    ),
}
TWO_FILES = {
    "other texts": (
        "def save(file):\n    if rank == 0:\n        torch.save(net.state_dict(), file)\n\n"
        'save("a.pt")\nnet.load_state_dict(torch.load("b.pt", map_location=device))\n'
    ),
    "other arguments": (
        "def save(file):\n    if rank == 0:\n        torch.save(net.state_dict(), file)\n\n"
        "def read(file):\n    return torch.load(file, map_location=device)\n\n"
        'save("a.pt")\nnet.load_state_dict(read("b.pt"))\n'
    ),
    "a file of another object": (
        "class Best:\n    def __init__(self, file):\n        self.file = file\n\n"
        "    def save(self):\n        if rank == 0:\n"
        "            torch.save(net.state_dict(), self.file)\n\n"
        'Best("a.pt").save()\nstate = torch.load("b.pt", map_location=device)\n'
    ),
    "another file, handed on": (
        "def save(*args):\n    if rank == 0:\n        torch.save(*args)\n\n"
        'save(net.state_dict(), "a.pt")\nstate = torch.load("b.pt", map_location=device)\n'
    ),
    "none of several paths": (
        'files = ["a.pt", "b.pt"]\nfor file in files:\n    if rank == 0:\n'
        "        torch.save(net.state_dict(), file)\n"
        'state = torch.load("c.pt", map_location=device)\n'
    ),
    "what is read to be saved": (
        "def save(state, file):\n    if rank == 0:\n        torch.save(state, file)\n\n"
        "save(torch.load(path, map_location=device), path)\n"
    ),
    "rank 0 alone reads": (
        "def save(file):\n    if rank == 0:\n        torch.save(net.state_dict(), file)\n\n"
        "save(path)\nif rank == 0:\n    state = torch.load(path, map_location=device)\n"
    ),
}


def _found(lint_text: Lint, text: str) -> bool:
    return bool(lint_text(SETUPS["distributed"] + text, select=("DDP419",)))


@pytest.mark.parametrize("form", FORMS)
def test_the_others_are_to_wait(form: str, lint_text: Lint) -> None:
    assert _found(lint_text, FORMS[form])
    assert not _found(lint_text, FORMS[form].replace("pass  # wait", "dist.barrier()"))


@pytest.mark.parametrize("form", TWO_FILES)
def test_nobody_waits_for_another_file(form: str, lint_text: Lint) -> None:
    assert not _found(lint_text, TWO_FILES[form])
