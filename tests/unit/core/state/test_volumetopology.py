"""From which nodes the volumes of a pod can be reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api import labels
from karpenter.api.meta import Resource, convert
from karpenter.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import Requirements
from karpenter.core.state.cluster import view_of
from karpenter.core.state.volumetopology import volume_requirements
from karpenter.core.state.volumeusage import VolumeProblem
from karpenter_local.testing.builders import manifest_pod

if TYPE_CHECKING:
    from karpenter.api.pod import Pod

BOUND = {labels.BIND_COMPLETED: "yes"}
GONE: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def db_pod(*claims: str, **volumes: object) -> Pod:
    """Return a pod that mounts claims by name, and other volumes as written."""
    mounted = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    others = [{"name": name, **source} for name, source in volumes.items() if isinstance(source, dict)]
    return manifest_pod("db", namespace="shop", volumes=mounted + others)


def claim(
    name: str = "data", volume: str = "", cls: str | None = "fast", *, phase: str = "", **meta: object
) -> PersistentVolumeClaim:
    annotations = BOUND if volume else {}
    plain = {
        "metadata": {"name": name, "namespace": "shop", "annotations": annotations, **meta},
        "spec": {"volumeName": volume, "storageClassName": cls},
        "status": {"phase": phase},
    }
    return convert(plain, PersistentVolumeClaim)


def volume(
    name: str, *terms: dict[str, list[str]], source: dict[str, Any] | None = None, **meta: object
) -> PersistentVolume:
    """Return a volume that can be reached from nodes with certain labels."""
    written = [
        {"matchExpressions": [{"key": k, "operator": "In", "values": v} for k, v in term.items()]}
        for term in terms
    ]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": written}}} if terms else {}
    plain = {"metadata": {"name": name, **meta}, "spec": {**affinity, **(source or {})}}
    return convert(plain, PersistentVolume)


def storage(
    name: str = "fast",
    *terms: dict[str, list[str]],
    mode: str = "WaitForFirstConsumer",
    provisioner: str = "csi.example.com",
    default: bool = False,
    created: str | None = None,
) -> StorageClass:
    """Return a storage class whose volumes may be made in certain places."""
    written = [
        {"matchLabelExpressions": [{"key": k, "values": v} for k, v in term.items()]} for term in terms
    ]
    note = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    plain = {
        "metadata": {"name": name, "annotations": note, "creationTimestamp": created},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        "allowedTopologies": written,
    }
    return convert(plain, StorageClass)


def zones(*names: str) -> dict[str, list[str]]:
    return {labels.ZONE: list(names)}


def within(*names: str) -> Requirements:
    """Return the requirement to be in one of some zones."""
    return Requirements.of([requirement(labels.ZONE, "In", names)])


EPHEMERAL = {"ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}}


@pytest.mark.parametrize(
    ("found", "objects", "expected"),
    [
        pytest.param(db_pod(), [], (), id="no volumes: anywhere"),
        pytest.param(db_pod(tmp={}), [], (), id="a volume without a claim: anywhere"),
        pytest.param(
            db_pod("data"),
            [claim(volume="v"), volume("v", zones("a"))],
            (within("a"),),
            id="a bound claim is where its volume is",
        ),
        pytest.param(
            db_pod("data"),
            [claim(volume="v"), volume("v")],
            (),
            id="a volume that says nothing is everywhere",
        ),
        pytest.param(
            db_pod("data"),
            [claim(volume="v"), volume("v", source={"nodeAffinity": {}})],
            (),
            id="a volume that requires nothing is everywhere",
        ),
        pytest.param(
            db_pod("data"),
            [claim(volume="v"), volume("v", zones("a"), zones("b"))],
            (within("a"), within("b")),
            id="each term of a volume is an alternative",
        ),
        pytest.param(
            db_pod("data"),
            [claim(volume="v", cls="fast"), storage("fast", zones("b")), volume("v", zones("a"))],
            (within("a"),),
            id="a bound claim does not ask its class",
        ),
        pytest.param(
            db_pod("data"),
            [claim(volume="v", cls=None), volume("v", zones("a"))],
            (within("a"),),
            id="a bound claim needs no class",
        ),
        pytest.param(
            db_pod("data"),
            [claim(volume="v", phase="Bound", annotations={}), volume("v", zones("a"))],
            (within("a"),),
            id="a claim that says it is bound is believed",
        ),
        pytest.param(
            db_pod("data"),
            [claim(volume="v"), volume("v", {labels.HOSTNAME: ["n"]}, source={"local": {"path": "/x"}})],
            (),
            id="a local volume is forgotten with its node",
        ),
        pytest.param(
            db_pod("data"),
            [
                claim(volume="v"),
                volume("v", {labels.HOSTNAME: ["n"], **zones("a")}, source={"hostPath": {"path": "/x"}}),
            ],
            (within("a"),),
            id="a local volume stays in its zone",
        ),
        pytest.param(
            db_pod("data"),
            [
                claim(volume="v"),
                volume("v", {labels.HOSTNAME: ["n"]}, zones("a"), source={"local": {"path": "/x"}}),
            ],
            (),
            id="one alternative that is anywhere is anywhere",
        ),
        pytest.param(
            db_pod("data"),
            [claim(volume="v"), volume("v", {labels.HOSTNAME: ["n"]})],
            (Requirements.of([requirement(labels.HOSTNAME, "In", ["n"])]),),
            id="other volumes keep their host",
        ),
        pytest.param(
            db_pod("data"),
            [claim(), storage("fast", zones("a", "b"))],
            (within("a", "b"),),
            id="an unbound claim goes where its class allows",
        ),
        pytest.param(
            db_pod("data"),
            [claim(), storage("fast", zones("a"), zones("b"))],
            (within("a"), within("b")),
            id="each topology of a class is an alternative",
        ),
        pytest.param(
            db_pod("data"), [claim(), storage()], (), id="a class that says nothing allows everywhere"
        ),
        pytest.param(
            db_pod("data"),
            [claim(), storage("fast", {}, zones("a"))],
            (),
            id="a topology without labels allows everywhere",
        ),
        pytest.param(
            db_pod("data"),
            [claim(cls=None), storage("slow"), storage("main", zones("a"), default=True)],
            (within("a"),),
            id="a claim without a class gets the default one",
        ),
        pytest.param(
            db_pod("data"),
            [
                claim(cls=None),
                storage("new", zones("b"), default=True, created="2026-01-02T00:00:00Z"),
                storage("old", zones("a"), default=True, created="2026-01-01T00:00:00Z"),
            ],
            (within("b"),),
            id="of two default classes the newer counts",
        ),
        pytest.param(
            db_pod(tmp=EPHEMERAL),
            [storage("fast", zones("a"))],
            (within("a"),),
            id="a claim made for the pod alone",
        ),
        pytest.param(
            db_pod(tmp=EPHEMERAL),
            [claim("db-tmp", volume="v"), volume("v", zones("b"))],
            (within("b"),),
            id="a claim that was made for the pod already",
        ),
        pytest.param(
            db_pod("one", "two"),
            [
                claim("one", volume="v"),
                volume("v", zones("a", "b")),
                claim("two", volume="w"),
                volume("w", zones("b", "c")),
            ],
            (within("b"),),
            id="two volumes must be reached at once",
        ),
        pytest.param(
            db_pod("one", "two"),
            [
                claim("one", volume="v"),
                volume("v", zones("a"), zones("b")),
                claim("two", volume="w"),
                volume("w", zones("b"), zones("a")),
            ],
            (within("a"), within("b")),
            id="alternatives that do not go together are dropped",
        ),
        pytest.param(
            db_pod("one", "two"),
            [claim("one", volume="v"), volume("v"), claim("two", volume="w"), volume("w", zones("a"))],
            (within("a"),),
            id="a volume that is everywhere leaves the other as it is",
        ),
    ],
)
def test_volume_requirements(found: Pod, objects: list[Resource], expected: tuple[Requirements, ...]) -> None:
    """A pod goes where all of its volumes can be reached; nothing means anywhere."""
    assert volume_requirements(found, view_of(objects)) == expected


def test_many_volumes_in_many_zones() -> None:
    """Alternatives stay few however many volumes share them, and none is lost."""
    names = [f"data-{number}" for number in range(12)]
    objects = [claim(name) for name in names]

    found = volume_requirements(
        db_pod(*names), view_of([*objects, storage("fast", zones("a"), zones("b"), zones("c"))])
    )

    assert found == (within("a"), within("b"), within("c"))


@pytest.mark.parametrize(
    ("objects", "sentence"),
    [
        pytest.param([], "PersistentVolumeClaim shop/data does not exist", id="no claim"),
        pytest.param(
            [claim(namespace="other"), storage()],
            "PersistentVolumeClaim shop/data does not exist",
            id="a claim of another namespace",
        ),
        pytest.param(
            [claim(**GONE), storage()],
            "PersistentVolumeClaim shop/data is being deleted",
            id="a claim that goes",
        ),
        pytest.param(
            [claim(phase="Lost"), storage()],
            "PersistentVolumeClaim shop/data has lost its volume",
            id="a lost claim",
        ),
        pytest.param(
            [claim(volume="v")],
            "PersistentVolume v of claim shop/data does not exist",
            id="a volume that is not there",
        ),
        pytest.param(
            [claim(volume="v"), volume("v", **GONE)],
            "PersistentVolume v of claim shop/data is being deleted",
            id="a volume that goes",
        ),
        pytest.param(
            [claim(volume="v", annotations={}), volume("v")],
            "PersistentVolumeClaim shop/data is not bound to v yet",
            id="a claim that is not bound yet",
        ),
        pytest.param(
            [claim(cls=None)],
            "PersistentVolumeClaim shop/data is not bound and has no storage class",
            id="no class and no default",
        ),
        pytest.param(
            [claim(cls=""), storage(default=True)],
            "PersistentVolumeClaim shop/data is not bound and has no storage class",
            id="the wish for no class",
        ),
        pytest.param(
            [claim(cls="slow")],
            "StorageClass slow of PersistentVolumeClaim shop/data does not exist",
            id="a class that is not there",
        ),
        pytest.param(
            [claim(), storage(mode="Immediate")],
            "PersistentVolumeClaim shop/data is not bound,"
            " and StorageClass fast binds claims before pods are placed",
            id="a class that binds at once",
        ),
        pytest.param(
            [claim(), storage(mode="")],
            "PersistentVolumeClaim shop/data is not bound,"
            " and StorageClass fast binds claims before pods are placed",
            id="a class that does not say binds at once",
        ),
        pytest.param(
            [
                claim(volume="v"),
                convert(
                    {
                        "metadata": {"name": "v"},
                        "spec": {
                            "nodeAffinity": {
                                "required": {
                                    "nodeSelectorTerms": [
                                        {"matchExpressions": [{"key": "k", "operator": "Is", "values": []}]}
                                    ]
                                }
                            }
                        },
                    },
                    PersistentVolume,
                ),
            ],
            "PersistentVolume v cannot be placed: label 'k': 'Is' is not one of the operators"
            " In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte",
            id="a volume whose place cannot be read",
        ),
    ],
)
def test_volumes_that_keep_a_pod_from_running(objects: list[Resource], sentence: str) -> None:
    """A pod that would wait in vain is told so in one sentence."""
    with pytest.raises(VolumeProblem) as caught:
        volume_requirements(db_pod("data"), view_of(objects))

    assert str(caught.value) == sentence


def test_an_ephemeral_volume_without_a_template_has_no_claim() -> None:
    """Nothing says what volume to make."""
    with pytest.raises(VolumeProblem, match=r"^PersistentVolumeClaim shop/db-tmp does not exist$"):
        volume_requirements(db_pod(tmp={"ephemeral": {}}), view_of([]))


def test_volumes_in_different_places() -> None:
    """When no node can reach all volumes, the one that does not go with the others is named."""
    objects = [
        claim("one", volume="v"),
        volume("v", zones("a")),
        claim("two", volume="w"),
        volume("w", zones("b")),
    ]

    with pytest.raises(VolumeProblem) as caught:
        volume_requirements(db_pod("one", "two"), view_of(objects))

    assert str(caught.value) == "no node that reaches PersistentVolumeClaim shop/two reaches the others too"
