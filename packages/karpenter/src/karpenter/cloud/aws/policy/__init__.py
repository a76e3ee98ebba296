"""
The IAM policies that the controller needs.

The documents are in ``policies.json``, with ``${...}`` for what differs from cluster to cluster. They allow
the calls that the provider makes and no others: what it creates carries the tags of the cluster, and it may
change and delete only what does.

https://karpenter.sh/docs/reference/cloudformation/
"""

from __future__ import annotations

import json
from importlib.resources import files
from string import Template
from typing import Any, Final

import msgspec

FILE: Final = "policies.json"


class PolicyScope(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster, region and account that policies are for."""

    cluster: str
    region: str
    account: str
    partition: str = "aws"
    node_role: str = ""
    """The name of the role of nodes; empty means the one that the guides suggest."""

    queue: str = ""
    """The name of the interruption queue; empty means the name of the cluster."""


def policies(scope: PolicyScope) -> dict[str, dict[str, Any]]:
    """Return the policy documents by the names that the policies have in an account."""
    known = {
        "Cluster": scope.cluster,
        "Region": scope.region,
        "Account": scope.account,
        "Partition": scope.partition,
        "NodeRole": scope.node_role or f"KarpenterNodeRole-{scope.cluster}",
        "Queue": scope.queue or scope.cluster,
    }
    text = Template(files(__package__).joinpath(FILE).read_text("utf-8")).substitute(known)
    documents: dict[str, dict[str, Any]] = json.loads(text)
    return documents
