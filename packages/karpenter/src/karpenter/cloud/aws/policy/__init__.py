"""
What the provider must be allowed to do, as policies of IAM.

The documents are in ``policies.json``, with ``${...}`` for what differs from cluster to cluster. They allow
the calls that the provider makes and no others: what it makes carries the tags of the cluster, and it may
change and delete only what does.
"""

from __future__ import annotations

import json
from importlib.resources import files
from string import Template
from typing import Any, Final

import msgspec

FILE: Final = "policies.json"


class PolicyScope(msgspec.Struct, frozen=True, kw_only=True):
    """What differs from cluster to cluster."""

    cluster: str
    region: str
    account: str
    partition: str = "aws"
    node_role: str = ""
    """The name of the role of nodes; the one that guides suggest, unless told otherwise."""

    queue: str = ""
    """The name of the interruption queue; that of the cluster, unless told otherwise."""


def policies(place: PolicyScope) -> dict[str, dict[str, Any]]:
    """Return the documents by the names that the policies have in an account."""
    known = {
        "Cluster": place.cluster,
        "Region": place.region,
        "Account": place.account,
        "Partition": place.partition,
        "NodeRole": place.node_role or f"KarpenterNodeRole-{place.cluster}",
        "Queue": place.queue or place.cluster,
    }
    text = Template(files(__package__).joinpath(FILE).read_text("utf-8")).substitute(known)
    documents: dict[str, dict[str, Any]] = json.loads(text)
    return documents
