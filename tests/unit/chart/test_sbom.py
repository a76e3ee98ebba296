"""The bill of materials of the image, and the lock that it is made of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.sbom import bill, licence_table, read_lock

ROOT = Path(__file__).parents[3]
LOCKS = ("image", "demo", "dev")
IMAGE = (ROOT / "requirements" / "image.txt").read_text()
LOCK = f"""\
one==1.0 \\
    --hash=sha256:{"a" * 64} \\
    --hash=sha256:{"b" * 64}
    # via karpenter (packages/karpenter/pyproject.toml)
two==2.0 ; python_full_version >= '3.12' \\
    --hash=sha256:{"c" * 64}
    # via
    #   -c requirements/dev.txt
    #   one
three==3.0 ; sys_platform == 'win32' \\
    --hash=sha256:{"d" * 64}
    # via one
"""


def test_the_bill_is_what_the_lock_installs_on_the_image() -> None:
    """Components, hashes and who needs them come from the lock; what is for other systems is left out."""
    found = bill(LOCK)
    components = {each["name"]: each for each in found["components"]}
    needs = {each["ref"]: each["dependsOn"] for each in found["dependencies"]}

    assert components.keys() == {"one", "two"}
    assert [each["content"] for each in components["one"]["hashes"]] == ["a" * 64, "b" * 64]
    assert needs["pkg:pypi/one@1.0"] == ["pkg:pypi/two@2.0"]
    assert needs[found["metadata"]["component"]["bom-ref"]] == ["pkg:pypi/one@1.0"]
    assert bill(LOCK) == found


def test_every_licence_of_the_image_is_known_and_none_binds_the_source() -> None:
    """All components state a licence, and none is a GPL, LGPL or AGPL."""
    table = licence_table(bill(IMAGE))

    assert "unknown" not in table
    assert not re.search(r"GPL|SSPL|BUSL", table)


def test_every_component_is_needed() -> None:
    """Every component can be reached from the application: the graph in the lock is whole."""
    found = bill(IMAGE)
    needs = {each["ref"]: each["dependsOn"] for each in found["dependencies"]}
    reached, waiting = set(), [found["metadata"]["component"]["bom-ref"]]
    while waiting:
        ref = waiting.pop()
        if ref not in reached:
            reached.add(ref)
            waiting += needs[ref]

    assert reached == needs.keys()


@pytest.mark.parametrize("name", LOCKS)
def test_locks_can_be_audited(name: str) -> None:
    """Every package of every lock has one version and hashes, as ``pip-audit --require-hashes`` wants it."""
    assert read_lock((ROOT / "requirements" / f"{name}.txt").read_text())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("one==1.0\n", id="without hashes"),
        pytest.param(f"one>=1.0 --hash=sha256:{'a' * 64}\n", id="without a version"),
        pytest.param("one @ https://example.com/one.whl\n", id="from an address"),
    ],
)
def test_what_is_not_locked_is_refused(text: str) -> None:
    """The sentence names the package."""
    with pytest.raises(ValueError, match=r"^one\S* is not locked to a version and hashes"):
        read_lock(text)
