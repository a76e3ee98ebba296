"""
Hashes of NodePools and EC2NodeClasses as Karpenter 1.14.1's own Go code gives them.

``nodepools.json`` and ``ec2nodeclasses.json`` are specs as people write them; ``odd.json`` has what Go tells
apart and people do not: null, empty and absent, zero and unset, spellings of durations, sizes and moments. A
hash of null stands for a spec that Go refuses to decode.
"""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from karpenter.api.ec2nodeclass import METADATA_DEFAULT, EC2NodeClass
from karpenter.api.meta import ABSENT_LIST, ABSENT_MAP, convert, decode, encode
from karpenter.api.nodepool import NodePool
from karpenter.base.hashstructure import (
    GoDuration,
    GoNillableDuration,
    GoQuantity,
    GoSlice,
    GoString,
    GoTime,
    GoType,
    UnhashableError,
    hash_set,
    hash_struct,
)
from karpenter.cloud.aws.nodeclass.hash import class_hash, plain_class_hash
from karpenter.core.model.nodepool_hash import plain_pool_hash, pool_hash

GOLDEN = Path(__file__).parents[2] / "data" / "hashes"
ROLE_AND_TERMS = {
    "amiSelectorTerms": [{"alias": "al2023@latest"}],
    "subnetSelectorTerms": [{"id": "subnet-1"}],
    "securityGroupSelectorTerms": [{"id": "sg-1"}],
    "role": "r",
}


def golden(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    return found


def plain_hash(item: dict[str, Any]) -> str | None:
    """Return the hash of a spec as it is written, or None where it cannot be decoded."""
    try:
        if item["kind"] == "NodePool":
            return plain_pool_hash(item["spec"])
        return plain_class_hash(item["spec"], ca_bundle=item.get("caBundle", ""))
    except UnhashableError:
        return None


@pytest.mark.parametrize(
    ("name", "count"),
    [("nodepools", 100), ("ec2nodeclasses", 120), ("odd", 208)],
    ids=str,
)
def test_hashes_equal_those_of_go(name: str, count: int) -> None:
    """Every hash of a spec as written is the one that Karpenter 1.14.1 computes."""
    items = golden(name)
    assert len(items) == count

    assert [item for item in items if plain_hash(item) != item["hash"]] == []


def test_pools_hash_as_written_after_they_were_decoded() -> None:
    """The operator, which sees decoded objects, gives the hash of the spec with its defaults."""
    wrong = []
    for item in golden("nodepools"):
        spec = copy.deepcopy(item["spec"])
        found = decode(json.dumps({"metadata": {"name": "x"}, "spec": spec}), NodePool)
        spec["template"]["spec"].setdefault("expireAfter", "720h")
        if pool_hash(found) != plain_pool_hash(spec) or pool_hash(
            decode(encode(found), NodePool)
        ) != pool_hash(found):
            wrong.append(item)

    assert wrong == []


def test_classes_hash_as_written_after_they_were_decoded() -> None:
    """The operator tells empty from absent and false from unset, as Go does with the same object."""
    wrong = []
    for item in golden("ec2nodeclasses"):
        spec = {**item["spec"], "metadataOptions": METADATA_DEFAULT | item["spec"].get("metadataOptions", {})}
        found = decode(json.dumps({"metadata": {"name": "x"}, "spec": item["spec"]}), EC2NodeClass)
        wanted = plain_class_hash(spec, ca_bundle=item["caBundle"])
        again = decode(encode(found), EC2NodeClass)
        if any(class_hash(each, ca_bundle=item["caBundle"]) != wanted for each in (found, again)):
            wrong.append(item)

    assert wrong == []


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"template": {"spec": {"expireAfter": "soon"}}},
            r"spec\.template\.spec\.expireAfter: 'soon' is not a duration",
            id="a bad duration",
        ),
        pytest.param(
            {"template": {"spec": {"taints": [{"key": 1}]}}},
            r"spec\.template\.spec\.taints\[0\]\.key: expected a text, not 1",
            id="a number for a text",
        ),
        pytest.param(
            {"template": {"spec": {"taints": {}}}},
            r"spec\.template\.spec\.taints: expected a list",
            id="a map for a list",
        ),
        pytest.param(
            {"template": {"metadata": {"labels": []}}},
            r"spec\.template\.metadata\.labels: expected a map",
            id="a list for a map",
        ),
        pytest.param(
            {"template": {"spec": {"taints": [{"timeAdded": "now"}]}}},
            r"taints\[0\]\.timeAdded: expected a moment, as in RFC 3339, not 'now'",
            id="a bad moment",
        ),
    ],
)
def test_what_cannot_be_hashed_in_a_pool(spec: dict[str, Any], message: str) -> None:
    """A value of another type is refused with the field's name."""
    with pytest.raises(UnhashableError, match=message):
        plain_pool_hash(spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"kubelet": {"maxPods": "1"}}, r"spec\.kubelet\.maxPods: expected an integer", id="text"
        ),
        pytest.param(
            {"kubelet": {"maxPods": 2**31}}, r"maxPods: 2147483648 does not fit into 32 bits", id="big"
        ),
        pytest.param(
            {"detailedMonitoring": 1}, r"detailedMonitoring: expected true or false, not 1", id="one"
        ),
        pytest.param(
            {"blockDeviceMappings": [{"ebs": {"volumeSize": "much"}}]},
            r"spec\.blockDeviceMappings\[0\]\.ebs\.volumeSize: 'much' is not a quantity",
            id="a bad size",
        ),
    ],
)
def test_what_cannot_be_hashed_in_a_class(spec: dict[str, Any], message: str) -> None:
    """A value that does not fit its type is refused with the field's name."""
    with pytest.raises(UnhashableError, match=message):
        plain_class_hash(spec, ca_bundle="")


def test_the_operator_hashes_a_class_that_go_cannot_decode() -> None:
    """A class with a duration that is none still gets a number, which changes with the spec."""

    def hashed(text: str) -> str:
        kubelet = {"evictionSoftGracePeriod": {"memory.available": text}}
        spec = {**ROLE_AND_TERMS, "kubelet": kubelet}
        return class_hash(convert({"metadata": {}, "spec": spec}, EC2NodeClass), ca_bundle="")

    assert hashed("soon") != hashed("later")


@pytest.mark.parametrize("absent", [ABSENT_MAP, ABSENT_LIST], ids=["map", "list"])
def test_what_is_absent_stays_absent_when_copied(absent: object) -> None:
    """A copy of an absent map or list is still told from an empty one."""
    copies = (copy.copy(absent), copy.deepcopy(absent), pickle.loads(pickle.dumps(absent)))  # noqa: S301

    assert all(each is absent for each in copies)


@pytest.mark.parametrize(
    ("kind", "plain", "expected"),
    [
        pytest.param(GoDuration(), None, True, id="no duration"),
        pytest.param(GoDuration(), "0s", True, id="a duration of nothing"),
        pytest.param(GoDuration(), "1s", False, id="a duration"),
        pytest.param(GoTime(), None, True, id="no moment"),
        pytest.param(GoTime(), "2026-01-01T00:00:00Z", False, id="a moment"),
        pytest.param(GoQuantity(), None, True, id="no quantity"),
        pytest.param(GoSlice(GoString()), None, True, id="no slice"),
        pytest.param(GoSlice(GoString()), [], False, id="an empty slice"),
    ],
)
def test_zero_values_of_go(kind: GoType, plain: object, expected: bool) -> None:
    """What counts as Go's zero value, which IgnoreZeroValue leaves out."""
    assert kind.is_zero(plain) is expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        pytest.param(GoNillableDuration(), hash_struct("NillableDuration", []), id="a duration"),
        pytest.param(GoSlice(GoString()), hash_set(()), id="a slice"),
    ],
)
def test_nothing_has_a_hash_of_its_own(kind: GoType, expected: int) -> None:
    """An absent value behind a pointer is hashed as an empty one."""
    assert kind.hash(None, "spec") == expected
