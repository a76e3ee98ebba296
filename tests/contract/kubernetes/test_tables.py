"""Tables: what ``kubectl get`` prints is decided by the server."""

import json
from typing import Any

import pytest

from tests.contract.kubernetes.api import Api, Object, done, eventually
from tests.contract.kubernetes.objects import budget, configmap, deployment, job, lease, pod, secret, workload
from tests.contract.kubernetes.tables import IMAGE, TABLE, cells, columns, table

ONLY_TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}

METADATA = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}

METADATA_LIST = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}


CRON = {
    "metadata": {"name": "x"},
    "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": job("x")["spec"]["template"]}}},
}

CLAIM = {
    "metadata": {"name": "x"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}

WIDE = "[Containers], [Images], [Selector]"

VOLUME = "StorageClass, VolumeAttributesClass"

MACHINE = "[Internal-IP], [External-IP], [OS-Image], [Kernel-Version], [Container-Runtime]"

KINDS: list[tuple[str, Object, str, list[Any]]] = [
    (
        "pods",
        pod("x"),
        "Name, Ready, Status, Restarts, Age, [IP], [Node], [Nominated Node], [Readiness Gates]",
        ["x", "0/1", "Pending", "0", "<none>", "<none>", "<none>", "<none>"],
    ),
    ("configmaps", configmap("x", {"a": "1"}), "Name, Data, Age", ["x", 1]),
    ("secrets", secret("x"), "Name, Type, Data, Age", ["x", "Opaque", 1]),
    (
        "deployments",
        deployment("x", 0),
        f"Name, Ready, Up-to-date, Available, Age, {WIDE}",
        ["x", "0/0", 0, 0, "main", IMAGE, "app=x"],
    ),
    (
        "replicasets",
        workload("ReplicaSet", "x", replicas=0),
        f"Name, Desired, Current, Ready, Age, {WIDE}",
        ["x", 0, 0, 0, "main", IMAGE, "app=x"],
    ),
    (
        "statefulsets",
        workload("StatefulSet", "x", replicas=0, spec={"serviceName": "x"}),
        "Name, Ready, Age, [Containers], [Images]",
        ["x", "0/0", "main", IMAGE],
    ),
    (
        "daemonsets",
        workload("DaemonSet", "x", nodeSelector={"no": "where"}),
        f"Name, Desired, Current, Ready, Up-to-date, Available, Node Selector, Age, {WIDE}",
        ["x", 0, 0, 0, 0, 0, "no=where", "main", IMAGE, "app=x"],
    ),
    (
        "cronjobs",
        CRON,
        f"Name, Schedule, Timezone, Suspend, Active, Last Schedule, Age, {WIDE}",
        ["x", "0 0 1 1 *", "<none>", "False", 0, "<none>", "main", IMAGE, "<none>"],
    ),
    (
        "poddisruptionbudgets",
        budget("x", {"a": "b"}, minAvailable="50%"),
        "Name, Min Available, Max Unavailable, Allowed Disruptions, Age",
        ["x", "50%", "N/A", 0],
    ),
    ("leases", lease("x"), "Name, Holder, Age", ["x", "somebody"]),
    (
        "persistentvolumeclaims",
        CLAIM,
        f"Name, Status, Volume, Capacity, Access Modes, {VOLUME}, Age, [VolumeMode]",
        ["x", "Pending", "", "", "", "", "<unset>", "Filesystem"],
    ),
    ("roles", {"metadata": {"name": "x"}, "rules": []}, "Name, Created At", ["x"]),
    ("serviceaccounts", {"metadata": {"name": "x"}}, "Name, Age", ["x"]),
]


@pytest.mark.parametrize(
    ("resource", "body", "names", "expected"), [pytest.param(*kind, id=kind[0]) for kind in KINDS]
)
def test_tables(api: Api, resource: str, body: Object, names: str, expected: list[Any]) -> None:
    """Each kind has its columns; numbers are numbers, and what is missing has a word."""
    api.make(resource, body)

    found = table(api, resource, "x")

    assert columns(found) == names
    assert cells(found) == expected


CLUSTER_KINDS: list[tuple[str, Object, str, list[Any]]] = [
    (
        "nodes",
        {},
        f"Name, Status, Roles, Age, Version, {MACHINE}",
        ["Unknown", "<none>", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"],
    ),
    (
        "storageclasses",
        {"provisioner": "x.io/y"},
        "Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age",
        ["x.io/y", "Delete", "Immediate", False],
    ),
    (
        "priorityclasses",
        {"value": 7},
        "Name, Value, Global-Default, Age, PreemptionPolicy",
        [7, False, "PreemptLowerPriority"],
    ),
    ("csinodes", {"spec": {"drivers": []}}, "Name, Drivers, Age", [0]),
]


@pytest.mark.parametrize(
    ("resource", "body", "names", "expected"), [pytest.param(*kind, id=kind[0]) for kind in CLUSTER_KINDS]
)
def test_tables_of_the_cluster(
    api: Api, resource: str, body: Object, names: str, expected: list[Any]
) -> None:
    """Kinds outside namespaces have their columns too."""
    api.make(resource, {"metadata": {"name": api.unique}, **body})

    found = table(api, resource, api.unique)

    assert columns(found) == names
    assert cells(found) == [api.unique, *expected]


def test_the_table_of_a_volume(api: Api) -> None:
    """A PersistentVolume shows what it offers and who has it."""
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    api.make("persistentvolumes", {"metadata": {"name": api.unique}, "spec": spec})

    found = eventually(lambda: _with(table(api, "persistentvolumes", api.unique), "Available"))

    assert columns(found) == (
        f"Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, {VOLUME}, Reason, Age, [VolumeMode]"
    )
    expected = ["1Gi", "RWO", "Retain", "Available", "", "", "<unset>", "", "Filesystem"]
    assert cells(found) == [api.unique, *expected]


def test_the_table_of_a_namespace(api: Api) -> None:
    """A namespace shows its phase."""
    found = table(api, "namespaces", api.namespace)

    assert (columns(found), cells(found)) == ("Name, Status, Age", [api.namespace, "Active"])


def test_the_table_of_a_suspended_job(api: Api) -> None:
    """A Job shows how far it is."""
    api.make("jobs", job("x", spec={"suspend": True, "completions": 3}))

    found = eventually(lambda: _with(table(api, "jobs", "x"), "Suspended"))

    assert columns(found) == "Name, Status, Completions, Duration, Age, [Containers], [Images], [Selector]"
    assert cells(found)[1:4] == ["Suspended", "0/3", ""]


def _with(found: Object, word: str) -> Object | None:
    return found if word in found["rows"][0]["cells"] else None


def test_the_table_of_a_service(api: Api) -> None:
    """A Service shows its type and ports."""
    api.make("services", {"metadata": {"name": "x"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}})

    found = table(api, "services", "x")

    assert columns(found) == "Name, Type, Cluster-IP, External-IP, Port(s), Age, [Selector]"
    assert cells(found) == ["x", "ClusterIP", "None", "<none>", "80/TCP", "<none>"]


def test_the_table_of_an_event(api: Api) -> None:
    """Events are told by when, what and about whom."""
    about = {"kind": "Pod", "name": "a", "namespace": api.namespace}
    then = "2020-01-01T00:00:00Z"
    body = {
        "metadata": {"name": "x"},
        "involvedObject": about,
        "reason": "Why",
        "message": "What",
        "type": "Normal",
    }
    api.make(
        "events",
        {**body, "count": 3, "firstTimestamp": then, "lastTimestamp": then, "source": {"component": "me"}},
    )

    found = table(api, "events", "x")

    assert columns(found) == (
        "Last Seen, Type, Reason, Object, [Subobject], [Source], Message, [First Seen], [Count], [Name]"
    )
    [row] = found["rows"]
    assert row["cells"][1:7] == ["Normal", "Why", "pod/a", "", "me", "What"]
    assert row["cells"][8:] == [3, "x"]
    assert "y" in row["cells"][0]


def test_a_table_of_a_list(api: Api) -> None:
    """A list becomes one table, in the list's order, with the list's version."""
    for name in "ba":
        api.make("secrets", secret(name))

    found = table(api, "secrets")

    assert (found["kind"], found["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert int(found["metadata"]["resourceVersion"]) > 0
    assert [row["cells"][0] for row in found["rows"]] == ["a", "b"]


def test_a_table_goes_in_pages(api: Api) -> None:
    """Tables have limit and continue too."""
    for name in "abc":
        api.make("secrets", secret(name))

    first = table(api, "secrets", limit=2)
    rest = table(api, "secrets", **{"continue": first["metadata"]["continue"]})

    assert [row["cells"][0] for row in (*first["rows"], *rest["rows"])] == ["a", "b", "c"]
    assert first["metadata"]["remainingItemCount"] == 1


@pytest.mark.parametrize(
    ("include", "kind"),
    [(None, "PartialObjectMetadata"), ("Metadata", "PartialObjectMetadata"), ("Object", "Secret")],
)
def test_rows_carry_objects(api: Api, include: str | None, kind: str) -> None:
    """A row carries the metadata of its object, or all of it on request."""
    api.make("secrets", secret("a"))

    found = table(api, "secrets", **({"includeObject": include} if include else {}))

    assert found["rows"][0]["object"]["kind"] == kind
    assert found["rows"][0]["object"]["metadata"]["name"] == "a"


def test_rows_without_objects(api: Api) -> None:
    """The object is left out with includeObject=None."""
    api.make("secrets", secret("a"))

    assert table(api, "secrets", includeObject="None")["rows"][0].get("object") is None


def test_an_unknown_way_to_include(api: Api) -> None:
    """IncludeObject takes three words."""
    answer = api.send("GET", api.path("secrets"), headers=TABLE, includeObject="x")

    assert (answer.status, answer.reason) == (400, "BadRequest")


def test_a_refusal_is_no_table(api: Api) -> None:
    """Whoever asks for a table of what is not there gets a Status."""
    answer = api.send("GET", api.path("pods", "nope"), headers=TABLE)

    assert (answer.status, answer.json["kind"]) == (404, "Status")


def test_a_version_of_tables_that_is_not_served(api: Api) -> None:
    """Tables of a version that is not there are not acceptable."""
    answer = api.send(
        "GET", api.path("pods"), headers={"Accept": "application/json;as=Table;v=v2;g=meta.k8s.io"}
    )

    assert (answer.status, answer.reason) == (406, "NotAcceptable")


def test_a_watch_of_tables(api: Api) -> None:
    """A watch may tell its events as tables of one row; only the first has the columns."""
    api.make("secrets", secret("a"))
    api.make("secrets", secret("b"))
    query = {"watch": "true", "timeoutSeconds": "1"}
    with api.wire.stream(api.path("secrets"), query=query, headers=ONLY_TABLE) as response:
        events = [json.loads(line) for line in response.read().splitlines()]

    assert [event["object"]["kind"] for event in events] == ["Table", "Table"]
    assert sorted(event["object"]["rows"][0]["cells"][0] for event in events) == ["a", "b"]
    assert [bool(event["object"]["columnDefinitions"]) for event in events] == [True, False]


def test_only_metadata(api: Api) -> None:
    """A client may ask for metadata and nothing else."""
    made = api.make("configmaps", configmap("a", {"x": "1"}))

    found = done(api.send("GET", api.path("configmaps", "a"), headers=METADATA))

    assert found == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": made["metadata"],
    }


def test_only_metadata_of_a_list(api: Api) -> None:
    """A list of metadata has items of metadata."""
    api.make("secrets", secret("a"))

    found = done(api.send("GET", api.path("secrets"), headers=METADATA_LIST))

    assert found["kind"] == "PartialObjectMetadataList"
    assert [item["kind"] for item in found["items"]] == ["PartialObjectMetadata"]
