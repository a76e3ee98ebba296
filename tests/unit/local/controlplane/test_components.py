from pathlib import Path

import pytest

from karpenter_local.certificates import KeyPair
from karpenter_local.controlplane import components
from karpenter_local.controlplane.binaries import Binaries
from karpenter_local.controlplane.components import Command, ComponentFiles, Ports

BINARIES = Binaries(etcd=Path("etcd"), apiserver=Path("kube-apiserver"))
PORTS = Ports(etcd=1, peer=2, api=3, controller_manager=4, scheduler=5)
PAIR = KeyPair(certificate=Path("crt"), key=Path("key"))
PAPERS = ComponentFiles(
    authority=Path("ca.crt"), serving=PAIR, signing=PAIR, tokens=Path("tokens"), kubeconfig=Path("kubeconfig")
)
COMMANDS = {
    "etcd": components.etcd(BINARIES, PORTS, PAPERS, data=Path("data"), durable=True),
    "kube-apiserver": components.apiserver(BINARIES, PORTS, PAPERS),
    "kube-controller-manager": components.controller_manager(Path("kcm"), PORTS, PAPERS),
    "kube-scheduler": components.scheduler(Path("ks"), PORTS, PAPERS),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_nothing_listens_elsewhere(command: Command) -> None:
    """Every address in a command line is loopback."""
    addresses = [
        str(flag).split("=", 1)[1] for flag in command if "-address=" in str(flag) or "-urls=" in str(flag)
    ]

    assert addresses
    assert all("127.0.0.1" in address for address in addresses)


@pytest.mark.parametrize(("durable", "careless"), [(True, False), (False, True)])
def test_only_a_durable_etcd_waits_for_the_disk(durable: bool, careless: bool) -> None:
    """Tests do not need to survive a power cut."""
    command = components.etcd(BINARIES, PORTS, PAPERS, data=Path("data"), durable=durable)

    assert ("--unsafe-no-fsync" in command) is careless
