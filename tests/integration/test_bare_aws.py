"""
An account before anything was installed, as a process: the page about it is followed, command by command.

The AWS CLI runs the commands where there is one; where there is none, the SDK makes the same calls.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore import xform_name
from click.testing import CliRunner

from karpenter.cli import main

REAL_TIME = True

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "embedded-aws.md"
BLOCK = re.compile(r"^```bash\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def karpenter(*arguments: str) -> str:
    """Run ``karpenter`` and return what it prints."""
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Start what the page starts, use its environment, and return the commands that follow."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (block,) = BLOCK.finditer(PAGE.read_text("utf-8"))
    up, *others = block["text"].splitlines()
    words = shlex.split(up.removeprefix("eval $(karpenter ").removesuffix(")"))
    for line in karpenter(*words, "--instance-types", "m5.large").splitlines():
        name, _, value = line.removeprefix("export ").partition("=")
        monkeypatch.setenv(name, shlex.split(value)[0])
    yield others
    karpenter("local", "down")


def aws(line: str) -> Any:
    """Run a command of the AWS CLI, or what it stands for, and return the answer."""
    _, service, command, *options = shlex.split(line)
    cli = shutil.which("aws")
    if cli is not None:
        told = subprocess.run(  # noqa: S603  what the page prints
            [cli, service, command, *options],
            env={**os.environ, "AWS_PAGER": ""},
            check=True,
            capture_output=True,
        )
        return json.loads(told.stdout)
    client: Any = boto3.Session().client(service)
    method = command.replace("-", "_")
    operation = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[method])
    given = {key[2:].replace("-", "_"): value for key, value in zip(options[::2], options[1::2], strict=True)}
    known = operation.input_shape.members if operation.input_shape else ()
    return getattr(client, method)(
        **{name: given[xform_name(name)] for name in known if xform_name(name) in given}
    )


def test_the_page_can_be_followed(commands: list[str]) -> None:
    """Every command works, the node group has joined, and the log holds the one change that was made."""
    told = {line.split()[2]: aws(line) for line in commands if line.startswith("aws ")}

    number = told["get-caller-identity"]["Account"]
    role = f"arn:aws:iam::{number}:role/eksctl-blue-nodegroup-main-NodeInstanceRole"
    assert told["list-access-entries"]["accessEntries"] == [role]
    assert told["get-parameter"]["Parameter"]["Value"].startswith("ami-")
    machines = json.loads(karpenter("local", "aws", "instances", "-o", "json"))
    assert [(each["zone"], each["state"]) for each in machines] == [
        ("us-west-2a", "running"),
        ("us-west-2b", "running"),
    ]
    (last,) = [line for line in commands if line.startswith("karpenter ")]
    (changed,) = json.loads(karpenter(*last.split()[1:], "-o", "json"))
    assert (changed["eventName"], changed["resources"]) == ("CreateServiceLinkedRole", ["spot.amazonaws.com"])
