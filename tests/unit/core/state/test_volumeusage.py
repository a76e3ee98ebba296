"""Which claims a pod mounts through which CSI driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from karpenter.core.state.cluster import view_of
from karpenter.core.state.volumeusage import volumes_by_driver
from tests.unit.core.state.test_volumetopology import EPHEMERAL, claim, db_pod, storage, volume

if TYPE_CHECKING:
    from karpenter.api.meta import Resource
    from karpenter.api.pod import Pod


@pytest.mark.parametrize(
    ("found", "objects", "expected"),
    [
        pytest.param(db_pod(tmp={}), [], {}, id="a volume without a claim"),
        pytest.param(
            db_pod("data"),
            [claim(volume="v"), volume("v", source={"csi": {"driver": "csi.example.com"}})],
            {"csi.example.com": frozenset({"shop/data"})},
            id="the driver of a bound volume",
        ),
        pytest.param(
            db_pod("data"),
            [claim(volume="v"), volume("v", source={"awsElasticBlockStore": {"volumeID": "vol-1"}})],
            {"ebs.csi.aws.com": frozenset({"shop/data"})},
            id="an EBS volume from before CSI",
        ),
        pytest.param(
            db_pod("data"),
            [claim(volume="v"), volume("v", source={"local": {"path": "/x"}})],
            {},
            id="other volumes from before CSI are not counted",
        ),
        pytest.param(db_pod("data"), [claim(volume="v")], {}, id="a volume that is not there is not counted"),
        pytest.param(
            db_pod("data"),
            [claim(), storage()],
            {"csi.example.com": frozenset({"shop/data"})},
            id="the driver of the class of an unbound claim",
        ),
        pytest.param(
            db_pod("data"),
            [claim(cls=None), storage(default=True)],
            {"csi.example.com": frozenset({"shop/data"})},
            id="the driver of the default class",
        ),
        pytest.param(db_pod("data"), [claim(cls="slow")], {}, id="a class that is not there is not counted"),
        pytest.param(db_pod("data"), [claim(cls="")], {}, id="no class is not counted"),
        pytest.param(db_pod("data"), [], {}, id="a claim that is not there is not counted"),
        pytest.param(
            db_pod(tmp=EPHEMERAL),
            [storage()],
            {"csi.example.com": frozenset({"shop/db-tmp"})},
            id="a claim made for the pod alone",
        ),
        pytest.param(
            db_pod("one", "two"),
            [claim("one"), claim("two"), storage()],
            {"csi.example.com": frozenset({"shop/one", "shop/two"})},
            id="two claims of one driver",
        ),
        pytest.param(
            db_pod("gone", "two"),
            [claim("two"), storage()],
            {"csi.example.com": frozenset({"shop/two"})},
            id="a claim that is not there hides no other",
        ),
        pytest.param(
            db_pod("one", "one"),
            [claim("one"), storage()],
            {"csi.example.com": frozenset({"shop/one"})},
            id="one claim mounted twice",
        ),
    ],
)
def test_volumes_by_driver(found: Pod, objects: list[Resource], expected: dict[str, frozenset[str]]) -> None:
    """Claims are counted by the driver that attaches them, as far as it is known."""
    assert volumes_by_driver(found, view_of(objects)) == expected


@pytest.mark.parametrize(
    ("provisioner", "driver"),
    [
        pytest.param("kubernetes.io/aws-ebs", "ebs.csi.aws.com", id="EBS"),
        pytest.param("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", id="GCE disks"),
        pytest.param("kubernetes.io/cinder", "cinder.csi.openstack.org", id="Cinder"),
        pytest.param("kubernetes.io/azure-disk", "disk.csi.azure.com", id="Azure disks"),
        pytest.param("kubernetes.io/azure-file", "file.csi.azure.com", id="Azure files"),
        pytest.param("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", id="vSphere"),
        pytest.param("kubernetes.io/portworx-volume", "pxd.portworx.com", id="Portworx"),
        pytest.param("csi.example.com", "csi.example.com", id="any other is its own"),
    ],
)
def test_drivers_from_before_csi(provisioner: str, driver: str) -> None:
    """A provisioner from before CSI is known by the driver that took over from it."""
    assert list(volumes_by_driver(db_pod("data"), view_of([claim(), storage(provisioner=provisioner)]))) == [
        driver
    ]


@pytest.mark.parametrize("order", [1, -1], ids=["the newest last", "the newest first"])
def test_of_several_default_classes_the_newest_counts(order: int) -> None:
    """One that does not say when it was made is the oldest."""
    classes = [
        storage("none", default=True, provisioner="none.example.com"),
        storage("old", default=True, provisioner="old.example.com", created="2025-01-01T00:00:00Z"),
        storage("new", default=True, provisioner="new.example.com", created="2026-01-01T00:00:00Z"),
    ]

    found = volumes_by_driver(db_pod("data"), view_of([claim(cls=None), *classes[::order]]))

    assert list(found) == ["new.example.com"]
