"""``karpenter plan``: what it prints, in which form, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml
from click.testing import CliRunner, Result

from karpenter.api.manifests import render_documents
from karpenter.cli import main
from karpenter.cli.planning.input import read_input
from karpenter.cli.planning.page import gap_sentence
from karpenter.core.scheduling.problem import Cost
from karpenter.kube.errors import Unreachable
from karpenter.kube.transport import Request
from tests.unit.why.clusters import pod

NOW = "2026-03-01T12:00:00Z"
POOL: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
            }
        }
    },
}
CATALOGUE: dict[str, Any] = {
    "name": "four",
    "architecture": "amd64",
    "operatingSystems": ["linux"],
    "resources": {"cpu": "4", "memory": "8Gi", "pods": "110"},
    "offerings": [
        {
            "Price": 0.1,
            "Available": True,
            "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]},
            ],
        }
    ],
}


def run(*arguments: str, objects: list[dict[str, Any]] | None = None, width: int | None = None) -> Result:
    """Run ``karpenter plan`` on objects."""
    text = render_documents(objects if objects is not None else [POOL, pod("a"), pod("huge", "999")])
    environment = {"COLUMNS": None if width is None else str(width)}
    return CliRunner().invoke(
        main, ["plan", "-f", "-", "--now", NOW, *arguments], input=text, env=environment
    )


@pytest.fixture
def catalogue(tmp_path: Path) -> Any:
    """A function that writes a catalogue of one type, changed, and returns its path."""

    def write(**changes: Any) -> str:
        path = tmp_path / "catalogue.json"
        path.write_text(json.dumps([CATALOGUE | changes]), "utf-8")
        return str(path)

    return write


def test_the_page_shows_machines_refusals_and_the_bill(catalogue: Any) -> None:
    """People see what would be bought, for whom, what is left without a place and why, and the bill."""
    result = run("--catalog", catalogue())

    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines() if "zone-a" in line]
    assert rows[0][:6] == ["1", "four", "zone-a", "on-demand", "██······", "26%"]
    assert rows[0][8:] == ["1", "$0.1000", "$73.00", "a"]
    assert "Without a place" in result.stdout
    assert "wants cpu 999, the most is 3.9 of 4 on four" in " ".join(result.stdout.split())
    assert "1 pod on 1 new machine, 0 on existing nodes, 1 without a place." in result.stdout
    assert "$0.1000 an hour, $73.00 a month; no cheaper plan exists." in result.stdout


@pytest.mark.parametrize("width", [80, 104, 109, 140])
def test_names_are_whole_at_any_width(width: int) -> None:
    """However narrow the terminal, names and prices are not cut, and names are not broken over lines."""
    name = "payments-settlement-reconciliation-worker-with-a-long-name"
    result = run("--catalog", "aws", "--why", objects=[POOL, pod(name), pod(f"{name}-b", "999")], width=width)
    whole = run("--catalog", "aws", "-o", "json", objects=[POOL, pod(name)])
    bought = json.loads(whole.stdout)["newNodes"][0]["offering"]

    assert f"{bought['instanceType']} " in result.stdout
    assert f"{bought['zone']} " in result.stdout
    assert f"${bought['price']:.4f}" in result.stdout
    assert result.stdout.count(name) == 3
    assert max(len(line) for line in result.stdout.splitlines()) <= width


@pytest.mark.parametrize(
    ("group", "zone", "told"),
    [
        pytest.param("karpenter.k8s.aws", "eu-west-1a", "", id="EC2 in the region of a zone"),
        pytest.param("karpenter.k8s.aws", "", "note: no zone says in which region", id="EC2 in us-east-1"),
        pytest.param("karpenter.kwok.sh", "", "", id="the cloud in memory"),
    ],
)
def test_the_catalogue_suits_the_nodepools(group: str, zone: str, told: str) -> None:
    """Without --catalog the types are those that the NodePools can buy."""
    ours = json.loads(json.dumps(POOL))
    ours["spec"]["template"]["spec"]["nodeClassRef"]["group"] = group
    if zone:
        wanted = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
        ours["spec"]["template"]["spec"]["requirements"].append(wanted)
    result = run("-o", "json", objects=[ours, pod("a")])
    (node,) = json.loads(result.stdout)["newNodes"]

    expected = (zone or "us-east-1") if group == "karpenter.k8s.aws" else "test-zone"
    assert node["offering"]["zone"].startswith(expected)
    assert result.stderr.startswith(told) if told else result.stderr == ""


def test_types_that_a_nodepool_cannot_buy_are_refused() -> None:
    """A plan for EC2 with instance types that EC2 does not have would be wrong in every line."""
    ours = json.loads(json.dumps(POOL))
    ours["spec"]["template"]["spec"]["nodeClassRef"]["group"] = "karpenter.k8s.aws"
    result = run("--catalog", "kwok", objects=[ours])

    assert (result.exit_code, result.stdout) == (2, "")
    assert "error: catalogue kwok sells nothing to NodePool default" in result.stderr
    assert "hint: leave --catalog out" in result.stderr


def test_what_is_in_brackets_is_shown(catalogue: Any) -> None:
    """Values that a pool or a pod asks for are part of the sentence that says why nothing has them."""
    pinned = json.loads(json.dumps(POOL))
    pinned["spec"]["template"]["spec"]["requirements"] = [
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["mars", "moon"]}
    ]
    result = run("--catalog", catalogue(), objects=[pinned, pod("a")])

    assert "topology.kubernetes.io/zone In [mars moon]" in " ".join(result.stdout.split())


def test_why_tells_of_every_placed_pod(catalogue: Any) -> None:
    """With --why every placed pod has one sentence, in text and as data."""
    file = catalogue()
    data = json.loads(run("--catalog", file, "--why", "-o", "json").stdout)
    page = " ".join(run("--catalog", file, "--why").stdout.split())

    sentence = "four in zone-a (on-demand, $0.1000 an hour) is the only type that holds it"
    assert data["why"] == {"default/a": f"no existing node takes it; {sentence}"}
    assert "Why there" in page
    assert "is the only type that holds it" in page
    assert "why" not in json.loads(run("--catalog", file, "-o", "json").stdout)


def test_json_and_yaml_say_the_same(catalogue: Any) -> None:
    """Both forms carry the same data, and nothing else is on standard output."""
    file = catalogue()
    as_json = json.loads(run("--catalog", file, "-o", "json").stdout)
    as_yaml = yaml.safe_load(run("--catalog", file, "-o", "yaml").stdout)

    assert as_json == as_yaml
    assert list(as_json) == ["kind", "newNodes", "existingNodes", "unscheduled", "skipped", "cost", "notes"]
    assert as_json["newNodes"][0]["pods"] == ["default/a"]
    assert [each["pod"] for each in as_json["unscheduled"]] == ["default/huge"]


def test_pods_that_no_pool_may_serve_are_skipped(catalogue: Any) -> None:
    """The operator leaves them alone, so they are neither placed nor without a place; the page says why."""
    expressions = [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    objects = [POOL, pod("own", affinity=affinity), pod("a")]
    file = catalogue()
    data = json.loads(run("--catalog", file, "-o", "json", objects=objects).stdout)
    page = run("--catalog", file, "--strict", objects=objects)

    message = "the pod requires a node without karpenter.sh/nodepool, so no NodePool may serve it"
    assert data["skipped"] == [{"pod": "default/own", "message": message}]
    assert data["unscheduled"] == []
    assert page.exit_code == 0
    assert "Skipped" in page.stdout
    assert message in " ".join(page.stdout.split())


@pytest.mark.parametrize(
    ("status", "used"),
    [
        pytest.param(None, True, id="the class has no status"),
        pytest.param("True", True, id="the class is ready"),
        pytest.param("Unknown", True, id="it is not known whether the class is ready"),
        pytest.param("False", False, id="the class is not ready"),
    ],
)
def test_a_node_class_is_read_as_the_operator_reads_it(
    catalogue: Any, status: str | None, used: bool
) -> None:
    """A pool is left out only because of a class that says that it is not ready."""
    conditions = [{"type": "Ready", "status": status, "reason": "Why", "message": "no subnets"}]
    own = {
        "apiVersion": "example.com/v1",
        "kind": "OtherNodeClass",
        "metadata": {"name": "default"},
        "status": {"conditions": conditions if status else []},
    }
    ours = json.loads(json.dumps(POOL))
    reference = {"group": "example.com", "kind": "OtherNodeClass", "name": "default"}
    ours["spec"]["template"]["spec"]["nodeClassRef"] = reference
    result = run("--catalog", catalogue(), objects=[ours, own, pod("a")])

    assert ("1 pod on 1 new machine" in result.stdout) == used
    assert ("its OtherNodeClass default is not ready: no subnets" in result.stdout) == (not used)


def test_strict_is_for_scripts() -> None:
    """With --strict a pod without a place makes the exit code 1; the plan is printed all the same."""
    assert run("--strict", objects=[POOL, pod("a")]).exit_code == 0
    refused = run("--strict")
    assert (refused.exit_code, "Without a place" in refused.stdout) == (1, True)


def test_nothing_to_do() -> None:
    """A cluster in which no pod waits gets a sentence, not an empty table."""
    assert run(objects=[POOL]).stdout == "Nothing to do: no pod waits for a place.\n"


def test_kinds_that_decide_nothing_are_named() -> None:
    """What is left out is said on standard error."""
    map_ = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    result = run(objects=[POOL, map_])

    assert result.exit_code == 0
    assert result.stderr == "stdin#2: v1 ConfigMap decides nothing here and is left out\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--now", "noon"], "--now: 'noon' is not a time such as 2026-01-31T09:00:00Z"),
        (["--set", "batch"], "--set: 'batch' is not NAME=VALUE"),
        (["--set", "no-such-setting=1"], "--set: "),
        (["--catalog", "mars"], "mars"),
    ],
    ids=["a time", "no equals sign", "a setting", "a catalogue"],
)
def test_options_that_cannot_be_used(arguments: list[str], sentence: str) -> None:
    """A bad option is refused with one sentence on standard error, and nothing is printed."""
    result = run(*arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"resources": {"cpu": "many"}}, ["four", "resources", "cpu", "many"]),
        ({"resources": {"cpu": "-1"}}, ["four", "resources", "cpu", "-1"]),
        ({"resources": {"cpu": "4", "memory": "9Ei"}}, ["four", "resources", "memory", "9Ei"]),
        ({"offerings": [CATALOGUE["offerings"][0] | {"Price": -1}]}, ["four", "Price", "-1"]),
        ({"name": ""}, ["name"]),
    ],
    ids=["no number", "negative", "beyond counting", "a negative price", "no name"],
)
def test_catalogues_that_cannot_be_used(catalogue: Any, changes: dict[str, Any], parts: list[str]) -> None:
    """A bad catalogue is refused with file, type and field."""
    file = catalogue(**changes)
    result = run("--catalog", file)

    assert (result.exit_code, result.stdout) == (2, "")
    assert all(part in result.stderr for part in [file, *parts]), result.stderr


@pytest.mark.parametrize(
    ("objects", "parts"),
    [
        ([POOL | {"spec": {}}], ["stdin", "NodePool/default", "spec", "template"]),
        ([POOL, POOL], ["stdin", "NodePool/default", "is there already"]),
        (
            [pod("a", "one")],
            [
                "stdin",
                "Pod/default/a",
                "spec.containers[0].resources.requests.cpu",
                "'one' is not a quantity",
            ],
        ),
        (
            [pod("a", "-1")],
            ["stdin", "Pod/default/a", "spec.containers[0].resources.requests.cpu", "must be 0 or more"],
        ),
        (
            [{"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": "p"}}],
            ["stdin", "Provisioner/p", "karpenter convert"],
        ),
        ([{"kind": "Pod"}], ["stdin", "apiVersion"]),
    ],
    ids=["a pool", "twice the same", "a quantity", "less than nothing", "an old kind", "no version"],
)
def test_manifests_that_cannot_be_used(objects: list[dict[str, Any]], parts: list[str]) -> None:
    """A bad manifest is refused with file, object and field, and nothing is printed."""
    result = run(objects=objects)

    assert (result.exit_code, result.stdout) == (2, "")
    assert all(part in result.stderr for part in parts), result.stderr


def test_a_pod_beyond_counting_is_refused_not_an_error() -> None:
    """A pod that asks for more than can be counted has no place; the others are not held up."""
    data = json.loads(run("-o", "json", objects=[POOL, pod("a"), pod("b", "9E")]).stdout)

    assert [each["pod"] for each in data["unscheduled"]] == ["default/b"]
    assert "9E" in data["unscheduled"][0]["message"]


def test_a_cluster_that_does_not_answer_leaves_standard_output_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that does not answer is one sentence on standard error."""

    async def connect(kubeconfig: str, context: str) -> None:
        structlog.stdlib.get_logger().warning("request.repeated", kubeconfig=kubeconfig, context=context)
        raise Unreachable("connection refused", request=Request(method="GET", path="/"))

    monkeypatch.setattr("karpenter.session.live.connect", connect)
    result = CliRunner().invoke(main, ["plan", "--context", "far-away", "-o", "json"])

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: GET /: connection refused\nhint: ")


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, {"karpenter.sh/nodepool-hash-version": "v3"}, id="not applied yet"),
        pytest.param(
            {"karpenter.sh/nodepool-hash": "1"}, {"karpenter.sh/nodepool-hash": "1"}, id="from a cluster"
        ),
    ],
)
def test_every_pool_has_a_hash(tmp_path: Path, annotations: dict[str, str], expected: dict[str, str]) -> None:
    """Drift is found by comparing hashes, so a pool without one gets the one the operator would write."""
    path = tmp_path / "pool.yaml"
    path.write_text(render_documents([POOL | {"metadata": {"name": "default", "annotations": annotations}}]))
    found = read_input([str(path)]).view.pools["default"].metadata.annotations

    assert found["karpenter.sh/nodepool-hash"].isdigit()
    assert found.items() >= expected.items()


def test_the_page_names_the_pool_where_there_are_several(catalogue: Any) -> None:
    """With two NodePools each row of new machines says for which one it is bought."""
    other = {**POOL, "metadata": {"name": "other"}}
    assert "pool" in run("--catalog", catalogue(), objects=[POOL, other, pod("a")]).stdout.split()
    assert "pool" not in run("--catalog", catalogue(), objects=[POOL, pod("a")]).stdout.split()


def test_the_page_says_that_a_pool_is_at_its_limit(catalogue: Any) -> None:
    """A NodePool whose limit is used up is named with the limit."""
    full = {**POOL, "spec": {**POOL["spec"], "limits": {"cpu": "0"}}}
    page = run("--catalog", catalogue(), objects=[full, pod("a")]).stdout
    assert "pool default is at its limit of 0 cpu." in page


def test_the_example_of_the_readme_is_proved_optimal() -> None:
    """Ten pods that are spread over three zones: the plan says that no cheaper one exists."""
    example = Path(__file__).parents[3] / "examples" / "inflate"

    found = CliRunner().invoke(main, ["plan", "-f", str(example), "--catalog", "aws"])

    assert found.exit_code == 0
    assert "no cheaper plan exists" in found.output


EC2_CLASS = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"id": "subnet-0123456789abcdef0"}],
        "securityGroupSelectorTerms": [{"id": "sg-0123456789abcdef0"}],
        "associatePublicIPAddress": True,
    },
}


def test_the_parts_of_the_bill() -> None:
    """With a node class its volumes and addresses are part of the price, in the data and on the page."""
    ref = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {"spec": {**POOL["spec"]["template"]["spec"], "nodeClassRef": ref}}
    own = {**POOL, "spec": {**POOL["spec"], "template": template}}
    objects = [own, EC2_CLASS, pod("a")]
    found = json.loads(run("--catalog", "aws", "-o", "json", objects=objects).stdout)
    bought, cost = found["newNodes"][0]["offering"], found["cost"]
    page = run("--catalog", "aws", "--set", "node-price=0.01", objects=objects).stdout

    assert bought["parts"]["volumes"] == pytest.approx(1.6 / 730)
    assert bought["parts"]["publicIPv4"] == 0.005
    assert sum(bought["parts"].values()) == pytest.approx(bought["price"])
    assert sum(cost["parts"].values()) == pytest.approx(cost["hourly"])
    assert "volumes, $0.0050 public addresses, $0.0100 per node." in " ".join(page.split())


def test_what_a_floor_adds() -> None:
    """A plan that keeps a machine on demand says what that adds, on the page and in the data."""
    own = {**POOL, "metadata": {"name": "default", "annotations": {"karpenter.sh/on-demand-floor": "1"}}}
    found = json.loads(run("--catalog", "aws", "-o", "json", objects=[own, pod("a")]).stdout)
    page = run("--catalog", "aws", objects=[own, pod("a")]).stdout

    assert found["newNodes"][0]["offering"]["capacityType"] == "on-demand"
    assert found["cost"]["added"] > 0
    assert "On-demand floors and the spread of spot machines add $" in page


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        pytest.param(
            "commitments={commitments: [{kind: ReservedInstance, instanceType: m7gg.large, count: 1}]}",
            "commitment ReservedInstance pays for nothing: the catalogue sells no m7gg.large",
            id="a commitment for a type that is not sold",
        ),
        pytest.param(
            "commitments={commitments: [{kind: ReservedInstance, instanceType: m7g.7xlarge, count: 1}]}",
            "commitment ReservedInstance is used by other sizes: the catalogue sells m7g, but no m7g.7xlarge",
            id="a commitment for a size that is not sold",
        ),
        pytest.param(
            "commitments={commitments: [{name: far, kind: SavingsPlan, region: eu-west-1, hourly: 1}]}",
            "commitment far pays for nothing: the catalogue sells no instance type in eu-west-1",
            id="a commitment for another region",
        ),
        pytest.param(
            "price-factors=m7gg=0.8,spot=0.9",
            "price-factors: m7gg changes no price: expected a family of the catalogue, spot, on-demand,"
            " reserved or *",
            id="a factor of no family",
        ),
    ],
)
def test_prices_that_change_nothing_are_noted(setting: str, sentence: str) -> None:
    """What has no effect is mostly a typing error, so it is said once, and the plan is made."""
    result = run("--catalog", "aws", "--set", setting, objects=[POOL, pod("a")])

    assert (result.exit_code, result.stderr) == (0, f"{sentence}\n")


@pytest.mark.parametrize(
    ("ways", "sentence"),
    [
        pytest.param(
            ["spot"],
            "NodePool default keeps nothing on demand: its requirements allow no on-demand nodes\n",
            id="spot only",
        ),
        pytest.param(["spot", "on-demand"], "", id="both"),
    ],
)
def test_a_floor_without_on_demand_is_noted(ways: list[str], sentence: str) -> None:
    """A NodePool cannot keep what it may not buy."""
    floor = {"name": "default", "annotations": {"karpenter.sh/on-demand-floor": "2"}}
    wanted = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ways}
    template = {"spec": {**POOL["spec"]["template"]["spec"], "requirements": [wanted]}}
    own = {**POOL, "metadata": floor, "spec": {**POOL["spec"], "template": template}}

    assert run("--catalog", "aws", objects=[own, pod("a")]).stderr == sentence


def test_replicas_of_a_floor_without_a_place_are_told() -> None:
    """The pods ask for no capacity type themselves, so the page says what does."""
    notes = {"karpenter.sh/on-demand-floor": "50%"}
    labels = {"matchLabels": {"app": "web"}}
    spec = {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}
    template = {"metadata": {"labels": {"app": "web"}, "annotations": notes}, "spec": spec}
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 4, "selector": labels, "template": template},
    }
    wanted = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}
    inner = {"spec": {**POOL["spec"]["template"]["spec"], "requirements": [wanted]}}
    own = {**POOL, "spec": {**POOL["spec"], "template": inner}}
    told = "2 without a place must be on demand: so many replicas karpenter.sh/on-demand-floor asks for."

    assert told in run("--catalog", "aws", objects=[own, web], width=200).stdout
    assert "must be on demand" not in run("--catalog", "aws", objects=[POOL, web], width=200).stdout


def test_an_overlay_behind_its_gate_is_noted() -> None:
    """A fee that is an overlay is part of no price until the gate is enabled."""
    overlay = {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "fee"},
        "spec": {"requirements": [], "priceAdjustment": "+12%"},
    }
    told = [
        run("-o", "json", *arguments, objects=[POOL, overlay, pod("a")])
        for arguments in ((), ("--set", "feature-gates=NodeOverlay=true"))
    ]
    costs = [json.loads(each.stdout)["cost"] for each in told]
    page = run("--set", "feature-gates=NodeOverlay=true", objects=[POOL, overlay, pod("a")]).stdout

    assert [each.stderr for each in told] == [
        "NodeOverlay fee is not applied: --set feature-gates=NodeOverlay=true enables it\n",
        "",
    ]
    assert costs[1]["parts"]["list"] == pytest.approx(costs[0]["hourly"])
    assert costs[1]["parts"]["overlays"] == pytest.approx(0.12 * costs[0]["hourly"])
    assert costs[1]["hourly"] == pytest.approx(1.12 * costs[0]["hourly"])
    assert " list prices, $" in page
    assert " NodeOverlays." in page


def test_what_makes_the_gap() -> None:
    """A plan that is not proved cheapest says which constraints make the gap, on the page and in the data."""
    mine = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [mine]}}
    pods = [pod(name, cpu, affinity=apart) for name, cpu in (("a", "1"), ("b", "2"))]
    for each in pods:
        each["metadata"]["labels"] = {"app": "web"}
    cost = json.loads(run("-o", "json", objects=[POOL, *pods]).stdout)["cost"]
    page = run(objects=[POOL, *pods]).stdout

    assert 0.001 <= cost["gapParts"]["pod anti-affinity"] <= cost["gap"] + 1e-9
    assert f"Of {100 * cost['gap']:.1f} %, " in page
    assert "pod anti-affinity" in page


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        pytest.param((), "", id="nothing is known"),
        pytest.param(
            (("topology spread", 0.04), ("limits", 0.01)),
            "\nOf 10.0 %, 4.0 are topology spread, 1.0 limits.",
            id="parts of it",
        ),
        pytest.param(
            (("topology spread", 0.08), ("pod anti-affinity", 0.05)),
            "\nOf 10.0 %, 8.0 are topology spread, 5.0 pod anti-affinity, some of it the same.",
            id="two that make the same part",
        ),
    ],
)
def test_parts_of_the_gap_that_are_more_than_all_of_it(
    parts: tuple[tuple[str, float], ...], said: str
) -> None:
    """Each part is what the gap falls by without its kind alone, so they may overlap, which is said."""
    assert gap_sentence(Cost(hourly=1.1, lower_bound=1.0, gap_parts=parts)) == said
