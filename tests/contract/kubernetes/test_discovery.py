"""Discovery: how a client finds out what the server serves."""

import pytest

from tests.contract.kubernetes.api import Api, Object, done

AGGREGATED = {
    "Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
}
GROUPS = [
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "batch",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
]
EVERY_VERB = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
RESOURCES = [
    ("/api/v1", "configmaps", "ConfigMap", True, ["cm"]),
    ("/api/v1", "pods", "Pod", True, ["po"]),
    ("/api/v1", "nodes", "Node", False, ["no"]),
    ("/api/v1", "events", "Event", True, ["ev"]),
    ("/api/v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, ["pvc"]),
    ("/api/v1", "persistentvolumes", "PersistentVolume", False, ["pv"]),
    ("/api/v1", "secrets", "Secret", True, None),
    ("/api/v1", "services", "Service", True, ["svc"]),
    ("/api/v1", "serviceaccounts", "ServiceAccount", True, ["sa"]),
    ("/apis/apps/v1", "deployments", "Deployment", True, ["deploy"]),
    ("/apis/apps/v1", "replicasets", "ReplicaSet", True, ["rs"]),
    ("/apis/apps/v1", "statefulsets", "StatefulSet", True, ["sts"]),
    ("/apis/apps/v1", "daemonsets", "DaemonSet", True, ["ds"]),
    ("/apis/batch/v1", "jobs", "Job", True, None),
    ("/apis/batch/v1", "cronjobs", "CronJob", True, ["cj"]),
    ("/apis/policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", True, ["pdb"]),
    ("/apis/storage.k8s.io/v1", "storageclasses", "StorageClass", False, ["sc"]),
    ("/apis/storage.k8s.io/v1", "csinodes", "CSINode", False, None),
    ("/apis/scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", False, ["pc"]),
    ("/apis/coordination.k8s.io/v1", "leases", "Lease", True, None),
    (
        "/apis/apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        False,
        ["crd", "crds"],
    ),
    ("/apis/rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", False, None),
    ("/apis/resource.k8s.io/v1", "resourceclaims", "ResourceClaim", True, None),
    ("/apis/resource.k8s.io/v1", "resourceslices", "ResourceSlice", False, None),
]


def resource(api: Api, prefix: str, name: str) -> Object:
    """Return one entry of a version's resource list."""
    found = done(api.send("GET", prefix))["resources"]
    return next(each for each in found if each["name"] == name)


def test_the_core_group(api: Api) -> None:
    """/api names the versions of the core group."""
    found = done(api.send("GET", "/api"))

    assert (found["kind"], found["versions"]) == ("APIVersions", ["v1"])


@pytest.mark.parametrize("group", GROUPS)
def test_the_other_groups(api: Api, group: str) -> None:
    """/apis names the other groups with their versions and the preferred one."""
    found = {each["name"]: each for each in done(api.send("GET", "/apis"))["groups"]}

    versions = [each["version"] for each in found[group]["versions"]]
    assert "v1" in versions
    assert found[group]["preferredVersion"]["groupVersion"] == f"{group}/{versions[0]}"


def test_one_group(api: Api) -> None:
    """A group's address tells its versions."""
    assert done(api.send("GET", "/apis/apps")) == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "apps",
        "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
        "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"},
    }


@pytest.mark.parametrize(
    ("prefix", "name", "expected"), [pytest.param(*each[:2], each[2:], id=each[1]) for each in RESOURCES]
)
def test_resources(api: Api, prefix: str, name: str, expected: tuple[str, bool, list[str] | None]) -> None:
    """Each resource says its kind, scope, verbs and short names."""
    found = resource(api, prefix, name)

    assert (found["kind"], found["namespaced"], found.get("shortNames")) == expected
    assert found["verbs"] == EVERY_VERB
    assert found["singularName"] == expected[0].lower()


def test_namespaces_cannot_be_deleted_all_at_once(api: Api) -> None:
    """There is no deletecollection for namespaces."""
    assert "deletecollection" not in resource(api, "/api/v1", "namespaces")["verbs"]


@pytest.mark.parametrize(
    ("prefix", "name", "kind", "verbs"),
    [
        ("/api/v1", "pods/status", "Pod", ["get", "patch", "update"]),
        ("/api/v1", "pods/binding", "Binding", ["create"]),
        ("/api/v1", "pods/eviction", "Eviction", ["create"]),
        ("/api/v1", "nodes/status", "Node", ["get", "patch", "update"]),
        ("/apis/apps/v1", "deployments/scale", "Scale", ["get", "patch", "update"]),
        ("/apis/apps/v1", "deployments/status", "Deployment", ["get", "patch", "update"]),
    ],
)
def test_subresources(api: Api, prefix: str, name: str, kind: str, verbs: list[str]) -> None:
    """Subresources are listed beside their resource."""
    found = resource(api, prefix, name)

    assert (found["kind"], found["verbs"], found["singularName"]) == (kind, verbs, "")


@pytest.mark.parametrize(
    ("name", "group", "version", "kind"),
    [
        ("deployments/scale", "autoscaling", "v1", "Scale"),
        ("pods/eviction", "policy", "v1", "Eviction"),
    ],
)
def test_subresources_of_another_group(api: Api, name: str, group: str, version: str, kind: str) -> None:
    """A subresource whose objects are of another group says so."""
    prefix = "/api/v1" if name.startswith("pods") else "/apis/apps/v1"

    found = resource(api, prefix, name)

    assert (found["group"], found["version"], found["kind"]) == (group, version, kind)


def test_categories(api: Api) -> None:
    """``kubectl get all`` is a category that resources claim to be in."""
    assert resource(api, "/api/v1", "pods")["categories"] == ["all"]
    assert "categories" not in resource(api, "/api/v1", "configmaps")


def test_aggregated_discovery_of_the_core(api: Api) -> None:
    """One request tells all of the core group, subresources inside their resource."""
    answer = api.send("GET", "/api", headers=AGGREGATED)

    assert (
        answer.headers["content-type"]
        == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    )
    found = answer.json
    assert (found["kind"], found["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    [version] = found["items"][0]["versions"]
    pods = next(each for each in version["resources"] if each["resource"] == "pods")
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    assert pods["responseKind"]["kind"] == "Pod"
    assert (pods["scope"], pods["singularResource"], pods["shortNames"]) == ("Namespaced", "pod", ["po"])
    assert pods["verbs"] == EVERY_VERB
    assert {"status", "binding", "eviction"} <= {each["subresource"] for each in pods["subresources"]}


def test_aggregated_discovery_of_the_other_groups(api: Api) -> None:
    """One request tells all other groups."""
    found = done(api.send("GET", "/apis", headers=AGGREGATED))

    groups = {each["metadata"]["name"]: each["versions"] for each in found["items"]}
    assert set(GROUPS) <= set(groups)
    names = [each["resource"] for each in groups["apps"][0]["resources"]]
    assert names == ["controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"]


@pytest.mark.parametrize("path", ["/api/v2", "/apis/apps/v2"])
def test_a_version_that_is_not_served(api: Api, path: str) -> None:
    """An unknown version of a known group is a Status."""
    answer = api.send("GET", path)

    assert (answer.status, answer.reason) == (404, "NotFound")
    assert answer.message == "the server could not find the requested resource"


@pytest.mark.parametrize(
    "path", ["/nothing", "/apis/none.example.com/v1", "/apis/none.example.com/v1/things"]
)
def test_a_page_that_is_not_there(api: Api, path: str) -> None:
    """An address outside every known group is plain text."""
    answer = api.send("GET", path)

    assert (answer.status, answer.body) == (404, b"404 page not found\n")


def test_a_resource_that_is_not_there(api: Api) -> None:
    """An unknown resource of a known version is a Status."""
    answer = api.send("GET", "/api/v1/nothing")

    assert (answer.status, answer.message) == (404, "the server could not find the requested resource")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health(api: Api, path: str) -> None:
    """Health is the word ok."""
    answer = api.send("GET", path)

    assert (answer.status, answer.body) == (200, b"ok")


def test_the_version(api: Api) -> None:
    """The server says which Kubernetes it is."""
    found = done(api.send("GET", "/version"))

    assert found["major"] == "1"
    assert int(found["minor"]) >= 34
    assert found["gitVersion"].startswith(f"v1.{found['minor']}.")


def test_openapi_v3_is_an_index(api: Api) -> None:
    """OpenAPI v3 is one document per version, found by an index."""
    paths = done(api.send("GET", "/openapi/v3"))["paths"]

    assert {"api/v1", "apis/apps/v1"} <= set(paths)
    assert paths["api/v1"]["serverRelativeURL"].startswith("/openapi/v3/api/v1?hash=")


def test_openapi_v3_describes_kinds(api: Api) -> None:
    """A version's document has a schema per kind, marked with the kind it describes."""
    schemas = done(api.send("GET", "/openapi/v3/apis/apps/v1"))["components"]["schemas"]

    found = schemas["io.k8s.api.apps.v1.Deployment"]
    assert found["x-kubernetes-group-version-kind"] == [
        {"group": "apps", "kind": "Deployment", "version": "v1"}
    ]
    assert {"apiVersion", "kind", "metadata", "spec", "status"} == set(found["properties"])


def test_openapi_v2_describes_kinds(api: Api) -> None:
    """The old document is still there, for older clients."""
    found = done(api.send("GET", "/openapi/v2"))

    assert found["swagger"] == "2.0"
    pod = found["definitions"]["io.k8s.api.core.v1.Pod"]
    assert pod["x-kubernetes-group-version-kind"] == [{"group": "", "kind": "Pod", "version": "v1"}]


def test_who_am_i(api: Api) -> None:
    """A client may ask who the server takes it for."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}

    found = done(api.send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body))

    assert found["status"]["userInfo"]["username"] == "kubernetes-admin"
    assert "system:masters" in found["status"]["userInfo"]["groups"]


def test_can_i(api: Api) -> None:
    """A client may ask whether it may; the administrator may."""
    attributes = {"verb": "delete", "resource": "nodes"}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }

    answer = api.send("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)

    assert (answer.status, answer.json["status"]["allowed"]) == (201, True)
    assert answer.json["spec"] == {"resourceAttributes": attributes}
