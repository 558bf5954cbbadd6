"""Which functions of a dictionary a branch may call that has asked about the key."""

from __future__ import annotations

import pytest

from ddpify.source import source_from_bytes
from ddpify.understanding.interpreter import Interpreter
from ddpify.understanding.project import Project

SCRIPT = """
import argparse
def resnet(): pass
def resnext(): pass
def vgg(): pass
made = {"resnet": resnet, "resnext": resnext, "vgg": vgg}
args = argparse.ArgumentParser().parse_args()
"""

ALL = {"resnet", "resnext", "vgg"}
LINES = {
    "if args.name.startswith('res'): made[args.name]()": {"resnet", "resnext"},
    "if args.name.endswith(('xt', 'vgg')): made[args.name]()": {"resnext", "vgg"},
    "if args.name == 'vgg': made[args.name]()": {"vgg"},
    "if args.name != 'vgg': made[args.name]()": {"resnet", "resnext"},
    "if not args.name.startswith('res'): made[args.name]()": {"vgg"},
    "if 'net' in args.name: made[args.name]()": {"resnet"},
    "if args.name in ('vgg', 'resnet'): made[args.name]()": {"vgg", "resnet"},
    "if args.name == 'vgg' or args.deep: made[args.name]()": ALL,
    "if args.name == 'vgg' and args.deep: made[args.name]()": {"vgg"},
    "if args.name == 'vgg':\n    print()\nelse:\n    made[args.name]()": {"resnet", "resnext"},
    "if args.name == 'alexnet': made[args.name]()": ALL,  # which may be put in elsewhere
    "if args.other == 'vgg': made[args.name]()": ALL,
    "if args.name == 'vgg':\n    args.name = input()\n    made[args.name]()": ALL,
    "if args.name == 'vgg':\n    args = changed(args)\n    made[args.name]()": ALL,
    "if args.name == 'vgg':\n    changed(args)\n    made[args.name]()": ALL,
    "name = args.name\nif name == 'vgg': made[name]()": {"vgg"},
    "for name in made:\n    if name == 'vgg': made[name]()": {"vgg"},
    "if name == 'vgg':\n    for name in made: made[name]()": ALL,
}


@pytest.mark.parametrize("lines", LINES)
def test_called(lines: str) -> None:
    # What nothing calls would be run by itself: all are called where that is not looked at.
    run = Interpreter(Project(source_from_bytes((SCRIPT + lines).encode(), "train.py")))
    run.run()
    callers = run.facts.callers
    assert {one.name.value for one in callers if callers[one]} == LINES[lines]  # type: ignore[attr-defined]
