"""The templates that a set has had."""

import pytest

from karpenter.kube.targets import Plain
from karpenter_local.controllers.history import (
    HASH,
    data_of,
    find_present,
    new_revision,
    superfluous,
    template_of,
)
from tests.unit.local.controllers.objects import workload


def revision(number: int, owner: Plain) -> Plain:
    """Return a revision of the owner's present template."""
    return new_revision(owner, number=number, collisions=0)


def changed(note: str) -> Plain:
    """Return a daemon set whose template carries a note."""
    owner = workload("DaemonSet", "agent")
    owner["spec"]["template"]["metadata"]["annotations"] = {"note": note}
    return owner


def test_a_revision_brings_its_template_back() -> None:
    """What is kept is a patch that replaces the template, and reads as the template."""
    owner = workload("DaemonSet", "agent")

    assert data_of(owner)["spec"]["template"]["$patch"] == "replace"
    assert template_of(revision(1, owner)) == owner["spec"]["template"]


@pytest.mark.parametrize(
    ("kind", "label"),
    [("DaemonSet", HASH), ("StatefulSet", "controller.kubernetes.io/hash")],
)
def test_the_label_of_the_hash(kind: str, label: str) -> None:
    """Each kind labels its revisions in its own way."""
    made = revision(3, workload(kind, "db"))

    assert made["metadata"]["name"] == f"db-{made['metadata']['labels'][label]}"
    assert made["revision"] == 3


def test_find_present() -> None:
    """The present template is found by its content."""
    known = [revision(1, changed("a")), revision(2, changed("b"))]

    assert find_present(changed("a"), known) is known[0]
    assert find_present(changed("c"), known) is None


@pytest.mark.parametrize(
    ("limit", "in_use", "expected"),
    [
        pytest.param(10, set[str](), [], id="few enough"),
        pytest.param(1, set[str](), [1, 2], id="the oldest go"),
        pytest.param(0, {"b"}, [1, 3], id="what is in use stays"),
    ],
)
def test_superfluous(limit: int, in_use: set[str], expected: list[int]) -> None:
    """Old revisions beyond the limit go, unless pods still have them."""
    owner = workload("DaemonSet", "agent", revisionHistoryLimit=limit)
    past = [revision(number, changed(note)) for number, note in enumerate("abc", 1)]
    hashes = {each["metadata"]["labels"][HASH] for each in past if _note(each) in in_use}

    assert [each["revision"] for each in superfluous(owner, past, hashes)] == expected


def _note(each: Plain) -> str:
    return str(template_of(each)["metadata"]["annotations"]["note"])
