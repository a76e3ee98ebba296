"""
The command ``aws`` for tests of pages: as much of the AWS CLI as the pages use, by the SDK's own models.

    python -m tests.integration.aws_command SERVICE OPERATION [--parameter value...] [--query Q]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import boto3
import jmespath  # type: ignore[import-untyped]  # part of the SDK
from botocore import xform_name

_OWN = frozenset({"query", "output"})


def main(words: list[str]) -> str:
    """Run a command, and return what it prints."""
    service, command, *rest = words
    client: Any = boto3.client(service)
    method = command.replace("-", "_")
    operation = next(each for each in client.meta.service_model.operation_names if xform_name(each) == method)
    members = client.meta.service_model.operation_model(operation).input_shape.members
    given = _options(rest)
    known = {xform_name(name).replace("_", "-"): name for name in members}
    parameters = {
        known[key]: _value(members[known[key]], values) for key, values in given.items() if key not in _OWN
    }
    answer = getattr(client, method)(**parameters)
    answer.pop("ResponseMetadata", None)
    found = jmespath.search(given["query"][0], answer) if "query" in given else answer
    if given.get("output") == ["text"]:
        return "\t".join(map(str, found)) if isinstance(found, list) else str(found)
    return json.dumps(found, indent=4, default=str) if found else ""


def _options(words: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name = word.removeprefix("--")
            found[name] = []
        else:
            found[name].append(word)
    return found


def _value(shape: Any, values: list[str]) -> Any:
    if shape.type_name == "list":
        return [_structure(shape.member, each) if "=" in each else each for each in values]
    [text] = values
    return Path(text.removeprefix("file://")).read_text("utf-8") if text.startswith("file://") else text


def _structure(shape: Any, text: str) -> dict[str, Any]:
    pairs = [each.partition("=") for each in text.split(",")]
    return {key: [value] if shape.members[key].type_name == "list" else value for key, _, value in pairs}


if __name__ == "__main__":
    sys.stdout.write(f"{main(sys.argv[1:])}\n")
