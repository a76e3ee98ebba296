from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest
from benchmarks.duel import DuelError, curves
from benchmarks.duel.__main__ import main
from benchmarks.duel.contender import SETTINGS, settings_of
from benchmarks.duel.floor import bill, floor
from benchmarks.duel.karpenter_go import build_karpenter
from benchmarks.duel.loads import LOADS, Script, Want, Workload, cluster_objects, deployment, script
from benchmarks.duel.observation import (
    Decision,
    Observation,
    Sample,
    decisions,
    later_share,
    planned_share,
    quantile,
)
from benchmarks.duel.report import Figures, table

if TYPE_CHECKING:
    from pathlib import Path

FOUND = Figures(
    bill=1.0,
    floor=0.8,
    bought=10,
    replaced=4,
    p50=2.0,
    p99=8.0,
    processor=5.0,
    memory=100.0,
    planned=math.nan,
    later=0.25,
    waiting=0,
)
ON_DEMAND = ("m5.large", "a", "on-demand")


def replicas(found: Script) -> list[int]:
    """Return how many pods there are at each step."""
    return [sum(want.replicas for want in step) for step in found.steps]


@pytest.mark.parametrize("load", LOADS)
def test_a_load_is_the_same_for_a_seed(load: str) -> None:
    """One seed gives the same pods at every step, and another seed others."""
    first, second, other = (script(load, pods=80, steps=10, seed=seed) for seed in (1, 1, 2))

    assert first == second
    assert first.workloads != other.workloads


@pytest.mark.parametrize("load", LOADS)
def test_a_load_has_as_many_pods_as_are_asked_for(load: str) -> None:
    """All Deployments together may have 80 pods, and never have more."""
    found = script(load, pods=80, steps=10, seed=3)

    assert sum(each.most for each in found.workloads) == 80
    assert max(replicas(found)) <= 80
    assert all(want.replicas >= 0 for step in found.steps for want in step)


def test_the_loads_have_their_shapes() -> None:
    """A burst falls to 70 %, a batch comes every five steps, an office sleeps, a rollout stays as large."""
    burst, batch, office, rollout = (
        replicas(script(load, pods=200, steps=24, seed=1)) for load in ("burst", "batch", "office", "rollout")
    )

    assert burst[:8] == [200] * 8
    assert all(130 <= pods <= 150 for pods in burst[8:])
    assert [step for step, pods in enumerate(batch) if pods == 200] == [0, 5, 10, 15, 20]
    assert office[12] == 200
    assert max(office[0], office[-1]) < 60
    assert rollout == [200] * 24


def test_a_rollout_replaces_a_quarter_of_the_deployments_at_each_step() -> None:
    """The template of every fourth Deployment changes; the others are not applied again."""
    found = script("rollout", pods=200, steps=4, seed=1)

    assert len(found.changes(0)) == len(found.workloads)
    changed = [each["metadata"]["name"] for each in found.changes(1)]
    assert changed == [each.name for each in found.workloads[1::4]]


def test_what_users_ask_for_is_counted() -> None:
    """Replicas that are added count, those that go do not, and a new template asks for all of them anew."""
    workloads = (Workload("web", 10, 100, 100, spread=False, phase=0.0),)
    steps = tuple((want,) for want in (Want(5), Want(3), Want(7), Want(7, 1), Want(4, 2)))

    assert Script(workloads, steps).asked() == 5 + 4 + 7 + 4


def test_deployments_without_pods_are_applied_and_not_planned() -> None:
    """A Deployment that falls to 0 replicas is a change, and is not part of what the floor is planned for."""
    workloads = (Workload("web", 10, 100, 100, spread=True, phase=0.0),)
    found = Script(workloads, ((Want(2),), (Want(0),)))

    assert [each["spec"]["replicas"] for each in found.changes(1)] == [0]
    assert found.state(1) == []


def test_the_bill_is_the_price_of_the_nodes_over_time() -> None:
    """A node for $2 an hour that exists for half an hour costs $1; one without a price costs nothing."""
    seen = Observation({ON_DEMAND: 2.0})
    seen.sample(0)
    seen.node("ADDED", "one", ON_DEMAND)
    seen.node("ADDED", "two", ("", "", ""))
    seen.sample(1800)
    seen.node("DELETED", "one", ON_DEMAND)
    seen.sample(3600)

    assert seen.bill == pytest.approx(1.0)
    assert seen.bought == 1
    assert seen.samples[1] == Sample(1800, nodes=1, hourly=2.0, waiting=0, pods=0)


def test_a_pod_counts_once() -> None:
    """A pod runs as long after its creation as was seen, also where a watch begins anew."""
    seen = Observation({})
    seen.pod("ADDED", "web", "Pending", 10.0)
    assert seen.sample(11.0).waiting == 1
    seen.pod("MODIFIED", "web", "Running", 14.0)
    seen.forget("pods")
    seen.pod("ADDED", "web", "Running", 20.0)

    assert seen.until_running == [4.0]
    assert seen.created == 1
    assert seen.sample(21.0).waiting == 0


def test_quantiles() -> None:
    """The median of five is the third; of no values there is none."""
    assert quantile([5, 1, 4, 2, 3], 0.5) == 3
    assert quantile([5, 1, 4, 2, 3], 0.99) == 5
    assert math.isnan(quantile([], 0.5))


def test_decisions_are_read_from_either_log() -> None:
    """Karpenter in Go says it as the message, our operator as the summary; other lines are left out."""
    said = "computed new nodeclaim(s) to fit pod(s)"
    log = [
        f'{{"time":"1970-01-01T00:00:01.5Z","message":"{said}","nodeclaims":3,"pods":9}}\n',
        f'{{"message":"pods.considered","time":"1970-01-01T00:00:02Z","summary":"{said}","nodeclaims":1}}\n',
        "a traceback\n",
    ]

    assert decisions(log) == [Decision(1.5, 3), Decision(2.0, 1)]


def test_nodeclaims_of_later_decisions_are_a_share_of_all() -> None:
    """The first decision after a step that creates NodeClaims is not late; those that follow are."""
    made = [Decision(5, 9), Decision(11, 0), Decision(12, 6), Decision(20, 1), Decision(31, 3)]

    assert later_share(made, [10, 30]) == pytest.approx(1 / 10)
    assert later_share([], [10]) == 0


def test_the_share_of_planned_pods_is_read_from_metrics() -> None:
    """Both reasons count together; where nothing was planned there is no share."""
    metrics = """# TYPE karpenter_pods_nominated_total counter
karpenter_pods_nominated_total{outcome="planned",reason="provisioned"} 6.0
karpenter_pods_nominated_total{outcome="planned",reason="disrupted"} 3.0
karpenter_pods_nominated_total{outcome="elsewhere",reason="provisioned"} 1.0
"""

    assert planned_share(metrics) == 0.9
    assert math.isnan(planned_share("karpenter_nodes_total 3"))


def test_the_table_holds_means_and_their_ratios_to_go() -> None:
    """Go is the base where it is a contender, wherever it stands; what is no number is a dash."""
    ours = [FOUND._replace(bill=0.6, planned=1.0), FOUND._replace(bill=1.0, planned=0.9)]
    lines = str(table("duel", {"default": ours, "go": [FOUND, FOUND]})).splitlines()
    rows = {line[:30].strip(): line[30:].split() for line in lines[3:]}

    assert lines[1].split() == ["go", "default", "default", "/", "go"]
    assert rows["bill"] == ["$1.000", "$0.800", "0.80"]
    assert rows["bill x floor"] == ["1.25", "1.00", "-"]
    assert rows["pods that run where planned"] == ["-", "95.0%", "-"]
    assert rows["created to running, p99"] == ["8.00", "s", "8.00", "s", "1.00"]


def test_the_first_contender_is_the_base_without_go() -> None:
    """Without Go, ratios are those to the contender that was named first."""
    assert "greedy / default" in str(table("duel", {"default": [FOUND], "greedy": [FOUND]}))


def test_the_floor_lasts_as_long_as_the_load() -> None:
    """Each step costs its price until the next begins, and the last one until the load ends."""
    assert bill([3.6, 7.2], pace=1000, seconds=1500) == pytest.approx(1.0 + 1.0)


def test_equal_steps_are_planned_once(tmp_path: Path) -> None:
    """`karpenter plan` is asked once for the same pods, and not at all for none."""
    plan = tmp_path / "karpenter"
    plan.write_text(f'#!/bin/sh\necho called >> {tmp_path}/calls\necho \'{{"cost": {{"hourly": 0.5}}}}\'\n')
    plan.chmod(0o755)
    workloads = (Workload("web", 10, 100, 100, spread=False, phase=0.0),)
    steps = tuple((want,) for want in (Want(2), Want(0), Want(2, 1), Want(2)))
    found = floor(Script(workloads, steps), provider="kwok", catalog="kwok", karpenter=str(plan))

    assert found == [0.5, 0.0, 0.5, 0.5]
    assert (tmp_path / "calls").read_text().count("called") == 1


def test_what_plan_refuses_ends_the_duel(tmp_path: Path) -> None:
    """The sentence says what was called, and what it said."""
    plan = tmp_path / "karpenter"
    plan.write_text("#!/bin/sh\necho 'Error: no catalogue' >&2\nexit 2\n")
    plan.chmod(0o755)
    workloads = (Workload("web", 10, 100, 100, spread=False, phase=0.0),)

    with pytest.raises(DuelError, match=r"plan -f - --catalog kwok -o json` failed: Error: no catalogue"):
        floor(Script(workloads, ((Want(2),),)), provider="kwok", catalog="kwok", karpenter=str(plan))


def test_karpenter_in_go_is_built_once(tmp_path: Path) -> None:
    """Go is not asked where the program is there, and what it says when it fails is passed on."""
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho 'no such module' >&2\nexit 1\n")
    go.chmod(0o755)

    with pytest.raises(DuelError, match=r"`go mod init duel` failed in .*: no such module"):
        build_karpenter("kwok", tmp_path / "build", str(go))

    go.write_text('#!/bin/sh\ncase "$1" in build) touch "$3";; esac\n')
    built = build_karpenter("kwok", tmp_path / "build", str(go))
    go.unlink()
    assert build_karpenter("kwok", tmp_path / "build", str(go)) == built


def test_the_curves_are_a_picture() -> None:
    """Each contender has a line in each of three panels, and the floor one in the first; text is escaped."""
    curve = [Sample(0, 0, 0.0, 5, 5), Sample(60, 2, 1.5, 0, 5), Sample(120, 1, 0.5, 0, 3)]
    picture = curves.svg("a < b", {"go": curve, "default": curve}, [0.5, 0.25], pace=60)
    root = ET.fromstring(picture)  # noqa: S314  our own text
    lines = root.findall(".//{*}polyline")

    assert len(lines) == 7
    assert next(each.text for each in root.findall(".//{*}text")) == "a < b"
    assert len(lines[2].attrib["points"].split()) == 4


def test_a_long_curve_has_few_points() -> None:
    """A picture of hours stays small."""
    curve = [Sample(float(at), 1, 1.0, 0, 1) for at in range(5000)]

    assert len(curves.svg("long", {"go": curve})) < 40_000


@pytest.mark.parametrize("provider", ["kwok", "aws"])
def test_the_cluster_has_what_every_contender_needs(provider: str) -> None:
    """A node class, a NodePool that refers to it, and a DaemonSet."""
    node_class, pool, daemon = cluster_objects(provider)
    reference = pool["spec"]["template"]["spec"]["nodeClassRef"]

    assert node_class["apiVersion"].partition("/")[0] == reference["group"]
    assert node_class["kind"] == reference["kind"]
    assert daemon["kind"] == "DaemonSet"


def test_a_spread_deployment_has_a_constraint() -> None:
    """Its pods are spread over zones by the label that they have."""
    spec = deployment(Workload("web", 10, 100, 100, spread=True, phase=0.0), Want(3, 2))["spec"]["template"]

    (constraint,) = spec["spec"]["topologySpreadConstraints"]
    assert constraint["labelSelector"]["matchLabels"] == spec["metadata"]["labels"]


def test_contenders_are_names_or_settings() -> None:
    """A name stands for settings, and settings may be named themselves."""
    assert settings_of("greedy") == ("packing-policy=greedy",)
    assert settings_of("packing-policy=greedy+nominate-pods=false") == (
        "packing-policy=greedy",
        "nominate-pods=false",
    )
    with pytest.raises(ValueError, match=f"no contender 'gredy'; allowed are {', '.join(SETTINGS)}"):
        settings_of("gredy")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("--load", "spot"), "add --provider aws", id="spot instances without AWS"),
        pytest.param(("--contenders", "go,rust"), "no contender 'rust'", id="a contender that is not known"),
        pytest.param(("--pods", "0"), "must be more than 0", id="no pods"),
    ],
)
def test_what_cannot_be_played_is_refused(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sentence says why, and what to do."""
    with pytest.raises(SystemExit):
        main(arguments)

    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        pytest.param("kubectl", "there is no kubectl", id="no kubectl"),
        pytest.param("go", "there is no Go on this machine", id="no Go"),
    ],
)
def test_a_machine_without_the_programs_skips_the_duel(
    missing: str,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """That is no error: one sentence says what is missing."""
    monkeypatch.setattr("benchmarks.duel.__main__.BUILD", tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: None if name == missing else f"/bin/{name}")

    assert main([]) == 0
    assert said in capsys.readouterr().out
