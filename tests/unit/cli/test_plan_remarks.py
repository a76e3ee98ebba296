"""What ``karpenter plan`` remarks about a plan, in text and as data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

from karpenter.cli import main
from tests.unit.cli.test_plan import POOL, run
from tests.unit.why.clusters import pod

if TYPE_CHECKING:
    from pathlib import Path

MODELLED = "Spot prices are modelled: "
SENTENCE = (
    "1 new machine is burstable: CPU credits, which are in no price, add up to {} an hour if pods use all the"
    " cpu that they request. A NodePool whose requirements have karpenter.k8s.aws/instance-category NotIn [t]"
    " buys others, and a node-price fewer and larger ones."
)
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
        ]
    }
}


def buying(kind: str, *, way: str = "on-demand", system: str = "linux") -> dict[str, Any]:
    """Return a NodePool that buys one instance type one way."""
    wanted = {
        "node.kubernetes.io/instance-type": kind,
        "karpenter.sh/capacity-type": way,
        "kubernetes.io/os": system,
    }
    requirements = [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()]
    template = {"spec": {**POOL["spec"]["template"]["spec"], "requirements": requirements}}
    return {**POOL, "spec": {**POOL["spec"], "template": template}}


def noted(*objects: dict[str, Any], catalog: str = "aws") -> list[str]:
    result = run("--catalog", catalog, "-o", "json", objects=list(objects))
    assert result.exit_code == 0, result.output
    found: list[str] = json.loads(result.stdout)["notes"]
    return found


def test_every_form_has_the_same_remarks() -> None:
    """Modelled spot prices, and many spot machines in one place, are told in each form of the plan."""
    objects = [POOL, *(pod(name, affinity=APART) for name in "abc")]
    forms = {
        form: run("--catalog", "aws", "-o", form, objects=objects, width=200).stdout
        for form in ("text", "json", "yaml", "html")
    }
    remarks = json.loads(forms["json"])["notes"]

    assert remarks[0].startswith(MODELLED)
    assert remarks[1].startswith("3 of 3 new spot machines are ")
    assert yaml.safe_load(forms["yaml"])["notes"] == remarks
    assert " ".join(remarks) in " ".join(forms["text"].split())
    assert json.dumps(remarks, separators=(",", ":")).strip("[]") in forms["html"]


def test_a_plan_without_remarks_has_an_empty_list() -> None:
    """On-demand prices are those of AWS, and machines that are not burstable have no credits."""
    assert noted(buying("m5.large"), pod("a")) == []


def exported(kind: str) -> list[dict[str, Any]]:
    """Return what ``karpenter catalog export aws`` writes of one type."""
    whole = json.loads(CliRunner().invoke(main, ["catalog", "export", "aws"]).stdout)
    return [each for each in whole if each["name"] == kind]


def test_modelled_prices_are_known_in_an_exported_catalogue(tmp_path: Path) -> None:
    """A file that is written from the built-in catalogue has its model; with other prices it has not."""
    file, types = tmp_path / "aws.json", exported("m5.large")
    objects = (buying("m5.large", way="spot"), pod("a"))
    file.write_text(json.dumps(types), "utf-8")
    assert noted(*objects, catalog=str(file))[0].startswith(MODELLED)

    for offering in types[0]["offerings"]:
        ways = [each["values"] for each in offering["Requirements"] if each["key"].endswith("capacity-type")]
        offering["Price"] *= 0.9 if ways == [["spot"]] else 1
    file.write_text(json.dumps(types), "utf-8")
    assert noted(*objects, catalog=str(file)) == []


@pytest.mark.parametrize(
    ("kind", "cpu", "expected"),
    [
        pytest.param("t4g.small", "1", "$0.0240", id="(1 - 2 x 20 %) x $0.04"),
        pytest.param("t3.medium", "1500m", "$0.0550", id="(1.5 - 2 x 20 %) x $0.05"),
        pytest.param("t3a.large", "1600m", "$0.0500", id="(1.6 - 2 x 30 %) x $0.05"),
        pytest.param("t3.xlarge", "3", "$0.0700", id="(3 - 4 x 40 %) x $0.05"),
        pytest.param("t3.2xlarge", "6", "$0.1400", id="(6 - 8 x 40 %) x $0.05"),
        pytest.param("t3.micro", "700m", "$0.0250", id="(0.7 - 2 x 10 %) x $0.05"),
        pytest.param("t3.large", "500m", "$0.0000", id="less than the baseline"),
    ],
)
def test_what_cpu_credits_may_add(kind: str, cpu: str, expected: str) -> None:
    """Above its baseline a burstable machine pays for every vCPU-hour."""
    found = noted(buying(kind), pod("a", cpu, memory="64Mi"))

    assert found == [SENTENCE.format(expected)]


def test_credits_with_windows(tmp_path: Path) -> None:
    """A vCPU-hour costs 9.6 cents with Windows: (1.5 - 2 x 20 %) x $0.096."""
    file = tmp_path / "windows.json"
    file.write_text(json.dumps([{**each, "operatingSystems": ["windows"]} for each in exported("t3.medium")]))

    found = noted(buying("t3.medium", system="windows"), pod("a", "1500m"), catalog=str(file))
    assert found == [SENTENCE.format("$0.1056")]


def test_credits_of_several_machines_add_up() -> None:
    """Three machines may cost three times 2.4 cents more; T2 is in standard mode, which costs no more."""
    pods = [pod(name, "1", affinity=APART) for name in "abc"]

    assert noted(buying("t4g.small"), *pods)[0].startswith(
        "3 new machines are burstable: CPU credits, which are in no price, add up to $0.0720 an hour "
    )
    assert noted(buying("t2.small"), pod("a", "500m")) == []


def test_a_node_class_that_was_not_read_is_remarked() -> None:
    """Prices of EC2 machines lack their volumes where the EC2NodeClass is not among the manifests."""
    pool = buying("m5.large")
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    pool["spec"]["template"]["spec"]["nodeClassRef"] = reference

    told = noted(pool, pod("a"))

    assert "EC2NodeClass default was not read, so prices lack the volumes of its machines." in told


def test_what_doctor_finds_in_a_node_pool_is_said() -> None:
    """A category in capital letters leaves no instance type, and plan says so."""
    pool = buying("m5.large")
    template = pool["spec"]["template"]["spec"]
    template["nodeClassRef"] = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    category = {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["M"]}
    template["requirements"] = [category]

    result = run("--catalog", "aws", objects=[pool, pod("a")])

    assert "karpenter.k8s.aws/instance-category is never 'M', so that nothing matches" in result.stderr
    assert "did you mean 'm'?" in result.stderr
