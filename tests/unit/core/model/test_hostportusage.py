"""Host ports and their clashes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karpenter.api.pod import Container, ContainerPort, Pod, PodSpec
from karpenter.core.model.hostportusage import (
    ANY_ADDRESS,
    HostPort,
    HostPortUsage,
    first_conflict,
    host_ports,
)


def pod(*ports: ContainerPort, init: tuple[ContainerPort, ...] = (), host_network: bool = False) -> Pod:
    """Return a pod with a container, and an init container, that open these ports."""
    return Pod(
        spec=PodSpec(
            containers=(Container(ports=ports),),
            init_containers=(Container(ports=init),),
            host_network=host_network,
        )
    )


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        pytest.param(pod(ContainerPort(container_port=80)), (), id="a container port is not a host port"),
        pytest.param(pod(ContainerPort(host_port=80)), (HostPort(80),), id="every address, TCP"),
        pytest.param(pod(ContainerPort(host_port=80, protocol="")), (HostPort(80),), id="protocol left out"),
        pytest.param(
            pod(ContainerPort(host_port=53, protocol="UDP", host_ip="10.0.0.1")),
            (HostPort(53, "UDP", "10.0.0.1"),),
            id="one address, another protocol",
        ),
        pytest.param(pod(ContainerPort(host_port=80, host_ip="::")), (HostPort(80),), id="unspecified IPv6"),
        pytest.param(
            pod(
                ContainerPort(host_port=80, host_ip="0:0:0:0:0:0:0:1"),
                ContainerPort(host_port=80, host_ip="::1"),
            ),
            (HostPort(80, "TCP", "::1"),),
            id="one address in two spellings",
        ),
        pytest.param(
            pod(ContainerPort(host_port=80, host_ip="::ffff:10.0.0.1")),
            (HostPort(80, "TCP", "10.0.0.1"),),
            id="IPv4 written as IPv6",
        ),
        pytest.param(
            pod(ContainerPort(host_port=80, host_ip="nowhere")),
            (HostPort(80, "TCP", "nowhere"),),
            id="no address",
        ),
        pytest.param(pod(init=(ContainerPort(host_port=80),)), (), id="init containers do not count"),
        pytest.param(
            pod(ContainerPort(container_port=80), host_network=True),
            (HostPort(80),),
            id="on the host's network",
        ),
        pytest.param(
            pod(ContainerPort(host_port=90), ContainerPort(host_port=80), ContainerPort(host_port=90)),
            (HostPort(80), HostPort(90)),
            id="sorted, each once",
        ),
    ],
)
def test_host_ports(subject: Pod, expected: tuple[HostPort, ...]) -> None:
    """A pod occupies the host ports of its ordinary containers."""
    assert host_ports(subject) == expected


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        pytest.param(HostPort(80), HostPort(80), True, id="the same"),
        pytest.param(HostPort(80), HostPort(81), False, id="another port"),
        pytest.param(HostPort(80), HostPort(80, "UDP"), False, id="another protocol"),
        pytest.param(HostPort(80), HostPort(80, "TCP", "10.0.0.1"), True, id="every address and one"),
        pytest.param(HostPort(80, "TCP", "::1"), HostPort(80), True, id="one address and every"),
        pytest.param(
            HostPort(80, "TCP", "10.0.0.1"), HostPort(80, "TCP", "10.0.0.2"), False, id="two addresses"
        ),
    ],
)
def test_clash(left: HostPort, right: HostPort, expected: bool) -> None:
    """Two ports clash on the same protocol and number, unless they are on different addresses."""
    assert (left.conflicts_with(right), right.conflicts_with(left)) == (expected, expected)


def test_first_clash_names_both_sides() -> None:
    """A refusal can say which port is wanted and which one is in the way."""
    taken = HostPort(80, "TCP", "10.0.0.1")

    assert first_conflict([HostPort(79), HostPort(80)], iter([HostPort(81), taken])) == (HostPort(80), taken)


def test_no_clash() -> None:
    """Ports that share nothing do not clash."""
    assert first_conflict([HostPort(79)], [HostPort(80)]) is None


PORTS = st.lists(
    st.builds(
        HostPort,
        st.sampled_from([79, 80]),
        st.sampled_from(["TCP", "UDP"]),
        st.sampled_from([ANY_ADDRESS, "10.0.0.1", "10.0.0.2"]),
    ),
    max_size=4,
)


@given(wanted=PORTS, before=PORTS, later=PORTS)
def test_usage_finds_the_same_clashes(
    wanted: list[HostPort], before: list[HostPort], later: list[HostPort]
) -> None:
    """The index of taken ports refuses exactly what a look at every pair refuses."""
    usage = HostPortUsage(before)
    usage.add(later)

    assert usage.conflicts_with(wanted) == (first_conflict(wanted, before + later) is not None)


@pytest.mark.parametrize(
    ("port", "text"),
    [
        pytest.param(HostPort(80), "0.0.0.0:80/TCP", id="every address"),
        pytest.param(HostPort(53, "UDP", "::1"), "[::1]:53/UDP", id="IPv6 in brackets"),
    ],
)
def test_ports_as_text(port: HostPort, text: str) -> None:
    """A port prints as an operator would write it."""
    assert str(port) == text
