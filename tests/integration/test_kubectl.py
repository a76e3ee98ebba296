"""
Unmodified kubectl against the embedded API server: the commands that users type, as they type them.

Only the server runs here, so nothing is scheduled and nothing is rolled out; those commands are tested
where the whole cluster is.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from karpenter_local import kubeconfig
from tests.integration.serving import Running
from tests.integration.typed import ROOT, Kubectl, find_kubectl

SEEDS = Path(__file__).parents[1] / "data" / "seeds"

NODE = """
apiVersion: v1
kind: Node
metadata: {name: NAME, labels: {zone: a}}
spec: {providerID: "made://NAME"}
status:
  capacity: {cpu: 4, memory: 8Gi, pods: 110}
  addresses: [{type: InternalIP, address: 10.0.0.1}]
  nodeInfo: {kubeletVersion: v1.36.0, osImage: Imagined Linux}
  conditions: [{type: Ready, status: "True", reason: KubeletReady, message: ready}]
"""
POOL = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: NAME}
spec:
  template:
    spec:
      requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
  limits: {cpu: 1000}
"""
PODS = """
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: NAME}}
spec:
  containers: [{name: main, image: "app:1", resources: {requests: {cpu: 100m}}}]
"""


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """A kubectl on a fresh server that knows our definitions."""
    home: Path = tmp_path_factory.mktemp("home")
    running = Running()
    front = running.front
    assert front is not None
    config = home / "kubeconfig"
    text = kubeconfig.render(
        name="embedded", url=front.url, authority=front.certificates.authority, token=front.token
    )
    kubeconfig.write(config, text)
    typed = Kubectl(find_kubectl(), config, home)
    typed("apply", "-f", str(ROOT / "charts" / "karpenter" / "crds"))
    yield typed
    running.stop()


def make(kubectl: Kubectl, manifest: str, name: str) -> None:
    kubectl("create", "-f", "-", stdin=manifest.replace("NAME", name))


def test_get_shows_nodes(kubectl: Kubectl) -> None:
    """Nodes have a status, an age and a version; wide shows their addresses."""
    make(kubectl, NODE, "shown")

    [row] = [row for row in kubectl("get", "nodes").rows if row[0] == "shown"]
    [wide] = [line for line in kubectl("get", "no", "-o", "wide").lines if line.startswith("shown")]

    assert (row[1], row[2], row[4]) == ("Ready", "<none>", "v1.36.0")
    assert "10.0.0.1" in wide
    assert "Imagined Linux" in wide


@pytest.mark.parametrize("kind", ["pods", "deploy", "ds", "events", "nodepools", "nodeclaims"])
def test_get_knows_every_kind(kubectl: Kubectl, kind: str) -> None:
    """Kinds that users look at can be listed everywhere, by any of their names."""
    kubectl("get", kind, "-A")


def test_get_prints_what_a_program_can_read(kubectl: Kubectl) -> None:
    """JSON, YAML and JSONPath show the object as it is stored."""
    make(kubectl, PODS, "printed")

    as_json = json.loads(kubectl("get", "pod", "printed", "-o", "json").out)
    as_yaml = yaml.safe_load(kubectl("get", "pod", "printed", "-o", "yaml").out)
    image = kubectl("get", "pod", "printed", "-o", "jsonpath={.spec.containers[0].image}").out
    several = json.loads(kubectl("get", "pods", "-l", "app=printed", "-o", "json").out)

    assert as_json == as_yaml
    assert image == "app:1"
    assert [item["metadata"]["name"] for item in several["items"]] == ["printed"]


def test_get_sorts(kubectl: Kubectl) -> None:
    """Rows can be sorted by any field."""
    for name in ("sort-b", "sort-c", "sort-a"):
        make(kubectl, PODS, name)

    listed = [row[0] for row in kubectl("get", "pods", "-A", "--sort-by=.metadata.name").rows]
    named = kubectl("get", "pods", "--sort-by=.metadata.creationTimestamp", "-o", "name").lines

    assert [
        word
        for row in kubectl("get", "po", "--sort-by=.metadata.name").rows
        for word in row
        if word.startswith("sort-")
    ] == ["sort-a", "sort-b", "sort-c"]
    assert set(listed) == {"default"}
    assert {f"pod/sort-{letter}" for letter in "abc"} <= set(named)


def test_get_watches(kubectl: Kubectl) -> None:
    """-w goes on: what is created, changed and deleted is printed as it happens."""
    make(kubectl, PODS, "before")
    watching = kubectl.start("get", "pods", "-l", "seen=yes", "-w", "--no-headers")
    assert watching.stdout is not None
    try:
        time.sleep(1)  # the watch must be open before anything happens
        kubectl("label", "pod", "before", "seen=yes")
        first = watching.stdout.readline()
        kubectl("delete", "pod", "before")
        second = watching.stdout.readline()
    finally:
        watching.terminate()
        watching.communicate()

    assert [line.split()[0] for line in (first, second)] == ["before", "before"]


def test_apply_remembers_what_was_applied(kubectl: Kubectl) -> None:
    """Applying again removes what the manifest no longer says, and leaves what others set."""
    first = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "applied"},
        "data": {"a": "1", "b": "1"},
    }
    said = kubectl("apply", "-f", "-", stdin=json.dumps(first)).out
    kubectl("patch", "cm", "applied", "-p", '{"data":{"theirs":"1"}}')

    again = kubectl("apply", "-f", "-", stdin=json.dumps({**first, "data": {"a": "2"}})).out
    unchanged = kubectl("apply", "-f", "-", stdin=json.dumps({**first, "data": {"a": "2"}})).out

    assert [said.split()[1], again.split()[1], unchanged.split()[1]] == ["created", "configured", "unchanged"]
    assert json.loads(kubectl("get", "cm", "applied", "-o", "json").out)["data"] == {"a": "2", "theirs": "1"}


def test_apply_merges_lists_by_their_keys(kubectl: Kubectl) -> None:
    """A container that another client added stays when a Deployment is applied again."""
    manifest = (SEEDS / "inflate.yaml").read_text()
    kubectl("apply", "-f", "-", stdin=manifest)
    sidecar = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "side:1"}]}}}}
    kubectl("patch", "deploy", "inflate", "-p", json.dumps(sidecar))

    kubectl("apply", "-f", "-", stdin=manifest.replace("pause:3.2", "pause:3.9"))

    images = kubectl(
        "get", "deploy", "inflate", "-o", "jsonpath={.spec.template.spec.containers[*].image}"
    ).out
    assert sorted(images.split()) == ["public.ecr.aws/eks-distro/kubernetes/pause:3.9", "side:1"]


def test_server_side_apply_owns_fields(kubectl: Kubectl) -> None:
    """Another manager's field is a conflict, and force resolves it."""
    manifest = POOL.replace("NAME", "owned")
    kubectl("apply", "--server-side", "--field-manager=first", "-f", "-", stdin=manifest)
    change = manifest.replace("1000", "2000")

    refused = kubectl.type("apply", "--server-side", "--field-manager=second", "-f", "-", stdin=change)
    forced = kubectl(
        "apply", "--server-side", "--field-manager=second", "--force-conflicts", "-f", "-", stdin=change
    )

    assert refused.code == 1
    assert 'conflict with "first": .spec.limits.cpu' in refused.err
    assert forced.out == "nodepool.karpenter.sh/owned serverside-applied\n"


def test_apply_refuses_what_the_schema_does_not_know(kubectl: Kubectl) -> None:
    """A misspelt field is an error, and the message names it."""
    typed = kubectl.type("apply", "-f", "-", stdin=POOL.replace("NAME", "typo").replace("limits", "limts"))

    assert typed.code == 1
    assert 'unknown field "spec.limts"' in typed.err


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        pytest.param("policy/v1beta1", "PodSecurityPolicy", id="of a version that is gone"),
        pytest.param("example.com/v1", "Nonesuch", id="of a group that is not there"),
        pytest.param("apps/v1", "Nonesuch", id="of a group that is there"),
    ],
)
def test_apply_of_a_kind_that_does_not_exist(kubectl: Kubectl, version: str, kind: str) -> None:
    """kubectl says that there is no such kind, in its own words."""  # noqa: D403  a program's name
    manifest = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\n"

    typed = kubectl.type("apply", "-f", "-", stdin=manifest)

    assert typed.code == 1
    assert f'no matches for kind "{kind}" in version "{version}"' in typed.err


def test_autoscale(kubectl: Kubectl) -> None:
    """An autoscaler is stored and shown, though nothing scales."""
    kubectl("create", "deployment", "scaled", "--image=app:1", "--replicas=0")
    kubectl("autoscale", "deployment", "scaled", "--min=1", "--max=5", "--cpu-percent=50")

    [row] = [row for row in kubectl("get", "hpa").rows if row[0] == "scaled"]

    assert row[1:6] == ["Deployment/scaled", "cpu:", "<unknown>/50%", "1", "5"]
    assert "as a percentage of request" in kubectl("describe", "hpa", "scaled").out


def test_a_token_of_a_service_account(kubectl: Kubectl) -> None:
    """A client with the token is the account, and has its rights."""
    kubectl("create", "serviceaccount", "bot")
    token = kubectl("create", "token", "bot").out.strip()

    refused = kubectl.type("get", "pods", f"--token={token}")

    assert 'User "system:serviceaccount:default:bot" cannot list resource "pods"' in refused.err


def test_a_rule_of_ours_speaks_through_kubectl(kubectl: Kubectl) -> None:
    """What a NodePool may not say is refused with the rule's own words."""
    typed = kubectl.type("apply", "-f", "-", stdin=POOL.replace("NAME", "ruled").replace("In,", "Gt,"))

    assert typed.code == 1
    assert 'The NodePool "ruled" is invalid' in typed.err


@pytest.mark.parametrize("seed", sorted(path.name for path in SEEDS.glob("*.yaml")))
def test_every_seed_applies(kubectl: Kubectl, seed: str) -> None:
    """Manifests that users have copied apply as they are, given the kinds of their provider."""
    for group, version, plural, kind in (
        ("karpenter.k8s.aws", "v1", "ec2nodeclasses", "EC2NodeClass"),
        ("karpenter.k8s.aws", "v1alpha1", "awsnodetemplates", "AWSNodeTemplate"),
        ("karpenter.sh", "v1alpha5", "provisioners", "Provisioner"),
    ):
        kubectl("apply", "-f", "-", stdin=json.dumps(open_definition(group, version, plural, kind)))
    for space in {
        document.get("metadata", {}).get("namespace", "default")
        for document in yaml.safe_load_all((SEEDS / seed).read_text())
        if document
    } - {"default"}:
        kubectl.type("create", "namespace", space)

    kubectl("apply", "-f", str(SEEDS / seed))
    kubectl("apply", "--server-side", "--force-conflicts", "-f", str(SEEDS / seed))


def open_definition(group: str, version: str, plural: str, kind: str) -> dict[str, object]:
    """Return a definition that accepts anything, for kinds that belong to others."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    shown = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "kind": kind}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Cluster", "names": names, "versions": [shown]},
    }


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("namespace", "made"), id="a namespace"),
        pytest.param(("configmap", "made", "--from-literal=a=b"), id="a config map"),
        pytest.param(("secret", "generic", "made", "--from-literal=a=b"), id="a secret"),
        pytest.param(("deployment", "made", "--image=app:1", "--replicas=2"), id="a deployment"),
        pytest.param(("job", "made", "--image=app:1"), id="a job"),
        pytest.param(("cronjob", "made", "--image=app:1", "--schedule=0 0 * * *"), id="a cron job"),
        pytest.param(("priorityclass", "made", "--value=1000"), id="a priority"),
        pytest.param(("poddisruptionbudget", "made", "--selector=a=b", "--min-available=1"), id="a budget"),
        pytest.param(("serviceaccount", "made"), id="an account"),
        pytest.param(("role", "made", "--verb=get", "--resource=pods"), id="a role"),
        pytest.param(("clusterrolebinding", "made", "--clusterrole=x", "--user=u"), id="a binding"),
        pytest.param(("service", "clusterip", "made", "--tcp=80:8080"), id="a service"),
        # Where no other test has pods: a quota is enforced.
        pytest.param(("quota", "made", "--hard=cpu=1", "--namespace=kube-public"), id="a quota"),
        pytest.param(("ingress", "made", "--rule=a.example/=web:80"), id="an ingress"),
    ],
)
def test_create(kubectl: Kubectl, words: tuple[str, ...]) -> None:
    """Everything that kubectl can make by itself, in whichever encoding it sends it."""
    typed = kubectl("create", *words)

    assert typed.out.endswith("/made created\n")


def test_create_twice_is_an_error(kubectl: Kubectl) -> None:
    """The name is taken."""
    kubectl("create", "configmap", "twice")

    typed = kubectl.type("create", "configmap", "twice")

    assert (typed.code, 'configmaps "twice" already exists' in typed.err) == (1, True)


def test_delete_waits_for_the_end(kubectl: Kubectl) -> None:
    """With --wait, kubectl returns when the last finalizer is gone; without, at once."""
    make(kubectl, PODS, "held")
    kubectl("patch", "pod", "held", "-p", '{"metadata":{"finalizers":["x.io/wait"]}}')

    kubectl("delete", "pod", "held", "--wait=false")
    waiting = kubectl.start("delete", "pod", "held", "--wait=true")
    time.sleep(1)
    still = waiting.poll()
    kubectl("patch", "pod", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    out, _ = waiting.communicate(timeout=20)

    assert still is None
    assert 'pod "held" deleted' in out
    assert kubectl.type("get", "pod", "held").code == 1


def test_delete_by_label_and_all(kubectl: Kubectl) -> None:
    """Many objects go with one command."""
    for name in ("many-a", "many-b"):
        kubectl("create", "configmap", name)
        kubectl("label", "configmap", name, "many=yes")

    typed = kubectl("delete", "configmap", "-l", "many=yes")

    assert len(typed.lines) == 2
    assert kubectl("get", "cm", "-l", "many=yes").out == ""


def test_labels_and_annotations(kubectl: Kubectl) -> None:
    """Set, refused without --overwrite, overwritten, removed."""
    kubectl("create", "configmap", "noted")

    kubectl("label", "cm", "noted", "color=red")
    refused = kubectl.type("label", "cm", "noted", "color=blue")
    kubectl("label", "cm", "noted", "color=blue", "--overwrite")
    kubectl("annotate", "cm", "noted", "note=this")
    kubectl("annotate", "cm", "noted", "note-")

    meta = json.loads(kubectl("get", "cm", "noted", "-o", "json").out)["metadata"]
    assert refused.code == 1
    assert (meta["labels"], meta.get("annotations")) == ({"color": "blue"}, None)


def test_nodes_are_tainted_and_cordoned(kubectl: Kubectl) -> None:
    """A taint and a cordon show in the node, and go again."""
    make(kubectl, NODE, "tainted")

    kubectl("taint", "node", "tainted", "team=red:NoSchedule")
    kubectl("cordon", "tainted")
    held = json.loads(kubectl("get", "node", "tainted", "-o", "json").out)["spec"]
    shown = kubectl("get", "node", "tainted").rows[0][1]
    kubectl("taint", "node", "tainted", "team-")
    kubectl("uncordon", "tainted")
    free = json.loads(kubectl("get", "node", "tainted", "-o", "json").out)["spec"]

    assert {"key": "team", "value": "red", "effect": "NoSchedule"} in held["taints"]
    assert (held["unschedulable"], shown) == (True, "Ready,SchedulingDisabled")
    assert "team" not in [taint["key"] for taint in free.get("taints", [])]
    assert "unschedulable" not in free


@pytest.mark.parametrize(
    ("kind", "patch", "expected"),
    [
        pytest.param(
            "strategic",
            '{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"app:2"}]}}}}',
            "app:2",
            id="strategic merge",
        ),
        pytest.param(
            "merge",
            '{"spec":{"template":{"spec":{"containers":[{"name":"only","image":"app:3"}]}}}}',
            "app:3",
            id="merge",
        ),
        pytest.param(
            "json",
            '[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"app:4"}]',
            "app:4",
            id="JSON",
        ),
    ],
)
def test_patch(kubectl: Kubectl, kind: str, patch: str, expected: str) -> None:
    """Each of the three languages changes what it says."""
    name = f"patched-{kind}"
    kubectl("create", "deployment", name, "--image=app:1", "--dry-run=none")
    kubectl(
        "patch",
        "deploy",
        name,
        "--type=json",
        "-p",
        '[{"op":"replace","path":"/spec/template/spec/containers/0/name","value":"main"}]',
    )

    kubectl("patch", "deploy", name, f"--type={kind}", "-p", patch)

    assert (
        kubectl("get", "deploy", name, "-o", "jsonpath={.spec.template.spec.containers[*].image}").out
        == expected
    )


def test_edit_through_an_editor(kubectl: Kubectl, tmp_path: Path) -> None:
    """What the editor saves is stored; an editor that changes nothing cancels."""
    kubectl("create", "configmap", "edited", "--from-literal=color=red")
    editor = tmp_path / "editor.sh"
    editor.write_text("#!/bin/sh\nsed -i 's/color: red/color: blue/' \"$1\"\n")
    editor.chmod(0o755)

    changed = kubectl("edit", "configmap", "edited", EDITOR=str(editor))
    same = kubectl("edit", "configmap", "edited", EDITOR=str(editor))

    assert changed.out == "configmap/edited edited\n"
    assert "no changes made" in same.out + same.err
    assert kubectl("get", "cm", "edited", "-o", "jsonpath={.data.color}").out == "blue"


def test_describe(kubectl: Kubectl) -> None:
    """Nodes, pods and pools are told about, with their events."""
    make(kubectl, NODE, "told")
    make(kubectl, PODS, "told")
    make(kubectl, POOL, "told")
    uid = kubectl("get", "pod", "told", "-o", "jsonpath={.metadata.uid}").out
    event = {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": "told.1"},
        "involvedObject": {
            "kind": "Pod",
            "name": "told",
            "namespace": "default",
            "uid": uid,
            "apiVersion": "v1",
        },
        "reason": "Nominated",
        "message": "Pod should schedule on: told",
        "type": "Normal",
        "source": {"component": "karpenter"},
        "firstTimestamp": "2025-01-01T00:00:00Z",
        "lastTimestamp": "2025-01-01T00:00:00Z",
        "count": 1,
    }
    kubectl("create", "-f", "-", stdin=json.dumps(event))

    node, pod, pool = (kubectl("describe", kind, "told").out for kind in ("node", "pod", "nodepool"))

    assert "made://told" in node
    assert "Allocated resources" in node
    assert "Pod should schedule on: told" in pod
    assert "Consolidate After" in pool
    assert "Pod should schedule on: told" in kubectl("get", "events").out


def test_explain(kubectl: Kubectl) -> None:
    """Built-in and custom kinds can be looked up, field by field."""
    pool = kubectl("explain", "nodepool.spec").out
    container = kubectl("explain", "pod.spec.containers.resources").out
    whole = kubectl("explain", "deployment", "--recursive").out

    assert "disruption\t<Object>" in pool
    assert "requests\t<map[string]Quantity>" in container
    assert "maxUnavailable" in whole
    assert kubectl.type("explain", "pod.spec.nothing").code == 1


def test_api_resources(kubectl: Kubectl) -> None:
    """Our kinds stand beside the built-in ones."""
    names = kubectl("api-resources", "-o", "name").lines
    short = kubectl("api-resources", "--api-group=apps").rows

    assert {"nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "pods", "deployments.apps"} <= set(names)
    assert ["deployments", "deploy", "apps/v1", "true", "Deployment"] in short
    assert "karpenter.sh/v1" in kubectl("api-versions").lines


def test_wait_for_a_condition(kubectl: Kubectl) -> None:
    """Wait returns when it is true, and fails when it does not become so."""
    make(kubectl, NODE, "awaited")

    ready = kubectl("wait", "--for=condition=Ready", "node/awaited", "--timeout=10s")
    never = kubectl.type("wait", "--for=condition=Gone", "node/awaited", "--timeout=1s")
    kubectl("wait", "--for=condition=established", "crd/nodepools.karpenter.sh", "--timeout=10s")

    assert ready.out == "node/awaited condition met\n"
    assert (never.code, "timed out" in never.err) == (1, True)


def test_diff(kubectl: Kubectl) -> None:
    """Diff shows what an apply would change, and says by its code whether anything would."""
    manifest = POOL.replace("NAME", "differs")
    kubectl("apply", "-f", "-", stdin=manifest)

    same = kubectl.type("diff", "-f", "-", stdin=manifest)
    other = kubectl.type("diff", "-f", "-", stdin=manifest.replace("amd64", "arm64"))

    assert (same.code, same.out) == (0, "")
    assert other.code == 1
    assert "+        - arm64" in other.out
    assert "amd64" in kubectl("get", "nodepool", "differs", "-o", "yaml").out


def test_who_may_what(kubectl: Kubectl) -> None:
    """The administrator may everything; who is impersonated may what their roles say."""
    assert kubectl("auth", "can-i", "delete", "nodes").out == "yes\n"
    assert kubectl.type("auth", "can-i", "delete", "nodes", "--as=somebody").out == "no\n"
    assert "kubernetes-admin" in kubectl("auth", "whoami").out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        pytest.param(("top", "nodes"), "Metrics API not available", id="top"),
        pytest.param(("logs", "refused"), "pod refused has no logs: the embedded cluster", id="logs"),
        pytest.param(("exec", "refused", "--", "ls"), "pod refused cannot run a command", id="exec"),
        pytest.param(("attach", "refused"), "the embedded cluster simulates nodes", id="attach"),
        pytest.param(("port-forward", "refused", "8080:80"), "pod is not running", id="port-forward"),
    ],
)
def test_what_needs_containers_is_refused(kubectl: Kubectl, words: tuple[str, ...], why: str) -> None:
    """The refusal says why, and the exit code that it is one."""
    kubectl("apply", "-f", "-", stdin=PODS.replace("NAME", "refused"))

    typed = kubectl.type(*words)

    assert typed.code == 1
    assert why in typed.err


def test_version(kubectl: Kubectl) -> None:
    """The server says that it is not the real one."""
    assert "+embedded" in kubectl("version").out
