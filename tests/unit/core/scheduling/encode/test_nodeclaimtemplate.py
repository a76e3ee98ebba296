"""Pools as templates: daemons, domains, and what a claim starts from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from karpenter.api.labels import (
    ARCH,
    INITIALIZED,
    INSTANCE_TYPE,
    NODEPOOL,
    PREFER_NO_SCHEDULE,
    REGISTERED,
    ZONE,
)
from karpenter.core.scheduling.encode.nodeclaimtemplate import Template, daemon_pod
from karpenter_local.testing.builders import (
    RULES,
    instance_type,
    need,
    offering,
    offerings,
    only,
    pod,
    pool,
    taint,
    tolerate,
)

if TYPE_CHECKING:
    from karpenter.api.pod import Pod
    from karpenter.core.scheduling.problem import Pool

GPU = "example.com/gpu"
RACK = "example.com/rack"
AXIS = ("cpu", "memory", "pods")
PLAIN = instance_type("plain", cpu=4)
ARM = instance_type("arm", cpu=4, arch="arm64")


def template(ours: Pool, *daemons: Pod) -> Template:
    """Return the template of a pool with some daemons."""
    return Template(0, ours, [daemon_pod(each) for each in daemons], AXIS, RULES.well_known)


def hosts(ours: Pool, daemon: Pod) -> list[str]:
    """Return the types of a pool on which a daemon will run."""
    found = template(ours, daemon)
    return [kind.name for kind, load in zip(ours.types, found.overhead, strict=True) if load]


TAINTED = pool("p", PLAIN, taints=(taint("gpu"),))
AVOIDED = pool("p", PLAIN, taints=(taint("gpu", PREFER_NO_SCHEDULE),))


@pytest.mark.parametrize(
    ("ours", "daemon", "expected"),
    [
        pytest.param(pool("p", PLAIN, ARM), pod("d"), ["plain", "arm"], id="a plain daemon runs everywhere"),
        pytest.param(
            pool("p", PLAIN, ARM),
            pod("d", on={ARCH: "arm64"}),
            ["arm"],
            id="a selector picks the types it fits",
        ),
        pytest.param(
            pool("p", PLAIN, ARM),
            pod("d", terms=[[only(ARCH, "riscv")], [only(INSTANCE_TYPE, "plain")]]),
            ["plain"],
            id="every alternative of a node affinity counts",
        ),
        pytest.param(TAINTED, pod("d"), [], id="a taint keeps daemons off that do not tolerate it"),
        pytest.param(TAINTED, pod("d", tolerations=[tolerate()]), ["plain"], id="a tolerated taint does not"),
        pytest.param(AVOIDED, pod("d"), ["plain"], id="a taint that only discourages does not"),
        pytest.param(
            pool("p", PLAIN),
            pod("d", on={REGISTERED: "true", INITIALIZED: "true"}),
            ["plain"],
            id="nodes are taken for registered and initialized",
        ),
        pytest.param(
            pool("p", PLAIN), pod("d", on={"team": "red"}), [], id="a label that nodes lack keeps it off"
        ),
        pytest.param(
            pool("p", PLAIN, node_labels={"team": "red"}),
            pod("d", on={"team": "red"}),
            ["plain"],
            id="a label of the pool's own nodes does not",
        ),
    ],
)
def test_daemons_run_where_they_fit(ours: Pool, daemon: Pod, expected: list[str]) -> None:
    """A daemon takes its share of exactly the types on which it will run."""
    assert hosts(ours, daemon) == expected


def test_daemons_add_up_per_type() -> None:
    """Every daemon of a type takes its requests, one pod, and its host ports."""
    everywhere, on_arm = pod("d", cpu="100m", ports=[80]), pod("e", cpu="50m", ports=[90], on={ARCH: "arm64"})

    found = template(pool("p", PLAIN, ARM), everywhere, on_arm)

    assert [load["cpu"] for load in found.overhead] == [100, 150]
    assert [load["pods"] for load in found.overhead] == [1, 2]
    assert [[port.port for port in ports] for ports in found.ports] == [[80], [80, 90]]
    assert found.table.room[:, 0].tolist() == [3900, 3850]
    assert found.has_daemon_ports


def test_a_template_knows_what_makes_its_pool_special() -> None:
    """Minimum values and reserved capacity are noticed once."""
    plain = template(pool("p", PLAIN))
    special = template(
        pool(
            "p",
            instance_type("r", sold=[offering("zone-1", "reserved", 0.1, reservation="r1", left=1)]),
            min_values={INSTANCE_TYPE: 2},
        )
    )

    assert (plain.min_values, plain.reserves, plain.has_daemon_ports) == ({}, False, False)
    assert (special.min_values, special.reserves) == ({INSTANCE_TYPE: 2}, True)


def test_the_pool_narrows_its_offerings() -> None:
    """A claim starts from the offerings that the pool's requirements leave."""
    found = template(pool("p", PLAIN, ARM, requires=[only(ARCH, "arm64"), only(ZONE, "zone-1")]))

    assert [found.table.types[k].name for k in found.table.types_of(found.bits)] == ["arm"]
    assert found.table.values(ZONE, found.bits) == {"zone-1"}


@pytest.mark.parametrize(
    ("ours", "key", "expected"),
    [
        pytest.param(pool("p", PLAIN), ZONE, {"zone-1", "zone-2", "zone-3"}, id="zones come from offerings"),
        pytest.param(
            pool("p", PLAIN, requires=[need(ZONE, "NotIn", "zone-1")]),
            ZONE,
            {"zone-2", "zone-3"},
            id="a zone that the pool excludes is none",
        ),
        pytest.param(
            pool(
                "p",
                instance_type("t", sold=offerings(1, zones=["zone-1"])),
                requires=[only(ZONE, "zone-1", "x")],
            ),
            ZONE,
            {"zone-1"},
            id="a zone where nothing is sold is none",
        ),
        pytest.param(
            pool("p", PLAIN, requires=[only(RACK, "a", "b")]),
            RACK,
            {"a", "b"},
            id="custom labels come from the pool",
        ),
        pytest.param(pool("p", PLAIN), NODEPOOL, {"p"}, id="the pool's own labels count"),
        pytest.param(pool("p", PLAIN), RACK, set(), id="an unknown label has no domains"),
        pytest.param(
            pool("p", PLAIN, requires=[need(RACK, "Exists")]),
            RACK,
            set(),
            id="a label of any value has none either",
        ),
    ],
)
def test_domains(ours: Pool, key: str, expected: set[str]) -> None:
    """The domains of a key are the values that nodes of the pool can have."""
    found = template(ours)

    assert found.domains(key) == found.domains(key) == expected
