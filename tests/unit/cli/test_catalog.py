from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner, Result

from karpenter.cli import main
from karpenter.cli.catalog import dollars
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.operator.options import parse_commitments
from tests.unit.cloud.catalogs.ec2.small_region import small_region
from tests.unit.cloud.catalogs.written import RESERVATION_ID, entry, offering, requirement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.unit.cloud.catalogs.ec2.endpoint import Aws


def run(*arguments: str) -> Result:
    """Run ``karpenter catalog`` with these arguments."""
    return CliRunner().invoke(main, ["catalog", *arguments])


def cells(text: str) -> list[list[str]]:
    """Return the cells of a table, row by row."""
    return [re.split(r" {3,}", line) for line in text.splitlines()]


@pytest.fixture
def own(tmp_path: Path) -> str:
    """Return the path of a catalogue with one reserved and one plain offering."""
    path = tmp_path / "types.json"
    kept = offering(
        "zone-1", "reserved", requirement(RESERVATION_ID, "r-1"), Price=2e-6, ReservationCapacity=3
    )
    sold = offering("zone-2", "on-demand", Price=0.25, Available=False)
    path.write_text(json.dumps([entry("mine", kept, sold)]))
    return str(path)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    """Lend a small AWS that the SDK takes for the real one."""
    with small_region(monkeypatch) as small:
        yield small


def test_list_without_a_name_lists_the_catalogues() -> None:
    """Every name that --catalog takes is there, with how much it holds."""
    rows = cells(run("list").stdout)

    assert rows[:3] == [
        ["NAME", "TYPES", "OFFERINGS", "ZONES", "ABOUT"],
        ["kwok", "144", "1,152", "4", "made-up types for trying things out; the default"],
        ["aws", "1,340", "12,570", "6", "EC2 in us-east-1"],
    ]
    assert len(rows) == 1 + 2 + 30


@pytest.mark.parametrize("name", ["kwok", "aws", "aws:ap-southeast-4"])
def test_the_list_of_catalogues_tells_the_truth(name: str) -> None:
    """The figures in the list are those of the catalogue itself."""
    listed = {each["name"]: each for each in json.loads(run("list", "-o", "json").stdout)}
    catalog = load_catalog(name)

    assert listed[name]["types"] == len(catalog.types)
    assert listed[name]["offerings"] == sum(len(kind.offerings) for kind in catalog.types)
    assert listed[name]["zones"] == len({sold.zone for kind in catalog.types for sold in kind.offerings})


def test_list_of_a_catalogue_has_a_row_for_each_type() -> None:
    """Size and lowest prices, without columns that are empty in every row."""
    rows = cells(run("list", "kwok").stdout)

    assert rows[0] == ["NAME", "ARCH", "CPU", "MEMORY", "PODS", "ON-DEMAND", "SPOT"]
    assert rows[1] == ["c-1x-amd64-linux", "amd64", "1", "2Gi", "16", "0.02715", "0.019"]
    assert len(rows) == 1 + 144


def test_list_shows_what_only_some_types_have(own: str) -> None:
    """Chips, and reservations, get a column where there are any; what is sold out has no price."""
    gpu = next(row for row in cells(run("list", "aws").stdout) if row[0] == "g4dn.xlarge")

    assert gpu[-1] == "nvidia.com/gpu 1"
    assert cells(run("list", own).stdout) == [
        ["NAME", "ARCH", "CPU", "MEMORY", "PODS", "RESERVED"],
        ["mine", "amd64", "4", "8Gi", "110", "2e-06"],
    ]


def test_list_as_data() -> None:
    """Programs get the resources, and the cheapest offering of each capacity type."""
    first = json.loads(run("list", "kwok", "-o", "json").stdout)[0]

    assert first["name"] == "c-1x-amd64-linux"
    assert first["architecture"] == ["amd64"]
    assert first["allocatable"]["cpu"] == "900m"
    assert {each["capacityType"]: each["price"] for each in first["cheapest"]} == {
        "spot": 0.0190032385536,
        "on-demand": 0.027147483648,
    }


def test_show_has_labels_resources_and_offerings() -> None:
    """One page about one type, found in whichever built-in catalogue has it."""
    sections = [cells(section) for section in run("show", "m5.metal").stdout.split("\n\n")]

    assert sections[0] == [["m5.metal"]]
    assert ["karpenter.k8s.aws/instance-hypervisor", '""'] in sections[1]
    assert ["karpenter.k8s.aws/instance-tenancy", "dedicated or default"] in sections[1]
    assert ["cpu", "96", "310m", "95690m"] in sections[2]
    assert ["us-east-1a", "on-demand", "4.608", "yes"] in sections[3]


def test_show_of_a_reservation(own: str) -> None:
    """A reservation is shown with its id and what is left of it."""
    assert cells(run("show", "mine", "--catalog", own).stdout)[-3:] == [
        ["ZONE", "CAPACITY TYPE", "PRICE/H", "AVAILABLE", "RESERVATION"],
        ["zone-1", "reserved", "2e-06", "yes", "r-1 (3 left)"],
        ["zone-2", "on-demand", "0.25", "no", "-"],
    ]


def test_show_as_data(own: str) -> None:
    """Programs get the same facts, labels that the type lacks included."""
    data: dict[str, Any] = yaml.safe_load(run("show", "mine", "--catalog", own, "-o", "yaml").stdout)

    assert data["labels"]["karpenter.kwok.sh/instance-cpu"] == ["4"]
    assert data["overhead"] == {"cpu": "100m", "memory": "10Mi"}
    assert data["offerings"][0]["reservation"] == {"id": "r-1", "left": 3}
    assert (
        "karpenter.k8s.aws/instance-gpu-count"
        in json.loads(run("show", "m5.large", "-o", "json").stdout)["absentLabels"]
    )


def test_show_of_a_misspelt_type() -> None:
    """A type that is not there is refused, with those that may have been meant."""
    result = run("show", "m7g.larg")

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        "error: there is no instance type 'm7g.larg' in kwok or aws",
        "hint: did you mean m7g.large, m7gd.large, m7g.xlarge?",
    ]


def test_show_of_a_type_like_none() -> None:
    """Where nothing comes near, the hint says how to see all types."""
    result = run("show", "?", "--catalog", "kwok")

    assert result.stderr.splitlines()[1] == "hint: karpenter catalog list CATALOG lists them all"


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_an_exported_catalogue_can_be_handed_back(form: str, tmp_path: Path) -> None:
    """What export prints, --catalog reads."""
    path = tmp_path / f"types.{form}"
    path.write_text(run("export", "kwok", "-o", form).stdout)

    assert load_catalog(str(path)) == load_catalog("kwok")


def test_an_unusable_file_is_refused_line_by_line(tmp_path: Path) -> None:
    """Exit code 2, nothing on standard output, and every problem on standard error."""
    path = tmp_path / "types.json"
    path.write_text(json.dumps([entry("a", offering(Price=-1)), entry("a", resources={"cpu": "x"})]))

    result = run("list", str(path))

    assert (result.exit_code, result.stdout) == (2, "")
    assert [line.split(": ")[:4] for line in result.stderr.splitlines()] == [
        ["error", str(path), "type a", "offerings[0].Price"],
        ["error", str(path), "type a", "resources.cpu"],
        ["error", str(path), "type a", "resources.memory"],
        ["error", str(path), "type a", "name"],
    ]


def test_refresh_writes_what_aws_says(aws: Aws, tmp_path: Path) -> None:
    """The catalogue goes to the file, how far it got to standard error, and plan can read it."""
    path = tmp_path / "types.json"

    result = run("refresh", "--region", "eu-west-1", "--out", str(path))

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines()[0] == "eu-west-1: 3 instance types"
    assert result.stderr.splitlines()[-1] == f"wrote {path}: 2 instance types; use it with --catalog {path}"
    assert list(load_catalog(str(path)).by_name) == ["brand9.new", "m5.large"]
    assert aws.questions("DescribeAvailabilityZones")


def test_refresh_writes_what_the_account_has_committed_to(aws: Aws, tmp_path: Path) -> None:
    """Reserved Instances and Savings Plans go to a file that the setting commitments reads."""
    path = tmp_path / "commitments.yaml"
    aws.pages["DescribeReservedInstances"] = [
        {"ReservedInstances": [{"ReservedInstancesId": "ri", "InstanceType": "m5.large", "InstanceCount": 2}]}
    ]
    plan = {"savingsPlanId": "sp", "savingsPlanType": "Compute", "commitment": "1.5"}
    aws.pages["DescribeSavingsPlans"] = [
        {"savingsPlans": [plan, {**plan, "savingsPlanId": "elsewhere", "region": "us-east-1"}]}
    ]
    aws.pages["DescribeSavingsPlanRates"] = [{"searchResults": []}]

    result = run("refresh", "--region", "eu-west-1", "--commitments", str(path))

    assert f"wrote {path}: 2 commitments; use it with --set commitments={path}" in result.stderr
    assert [each.name for each in parse_commitments(str(path))] == ["ri", "sp"]


@pytest.mark.parametrize(
    ("refused", "told", "read"),
    [
        pytest.param(
            {"DescribeReservedInstances", "DescribeSavingsPlans"},
            ["Reserved Instances", "Savings Plans"],
            None,
            id="nothing may be read",
        ),
        pytest.param({"DescribeSavingsPlans"}, ["Savings Plans"], ["ri"], id="no Savings Plans"),
        pytest.param({"DescribeReservedInstances"}, ["Reserved Instances"], ["sp"], id="no instances"),
    ],
)
def test_refresh_reads_the_commitments_that_the_account_tells(
    aws: Aws, tmp_path: Path, refused: set[str], told: list[str], read: list[str] | None
) -> None:
    """A refusal is a note: the catalogue is written all the same, and so are the other commitments."""
    path = tmp_path / "commitments.yaml"
    aws.pages["DescribeReservedInstances"] = [
        {"ReservedInstances": [{"ReservedInstancesId": "ri", "InstanceType": "m5.large", "InstanceCount": 2}]}
    ]
    plan = {"savingsPlanId": "sp", "savingsPlanType": "Compute", "commitment": "1.5"}
    aws.pages["DescribeSavingsPlans"] = [{"savingsPlans": [plan]}]
    aws.pages["DescribeSavingsPlanRates"] = [{"searchResults": []}]
    aws.refusals |= dict.fromkeys(refused, "UnauthorizedOperation")

    result = run("refresh", "--region", "eu-west-1", "--commitments", str(path))

    assert result.exit_code == 0
    assert re.findall(r"no (.*) were read: AWS refused", result.stderr) == told
    assert json.loads(result.stdout)
    found = [each.name for each in parse_commitments(str(path))] if path.exists() else None
    assert found == read


@pytest.mark.usefixtures("aws")
def test_refresh_prints_where_no_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --out the catalogue is on standard output; the region may come from the environment."""
    monkeypatch.setenv("AWS_REGION", "eu-west-1")

    result = run("refresh")

    assert [each["name"] for each in json.loads(result.stdout)] == ["brand9.new", "m5.large"]
    assert result.stderr.startswith("eu-west-1: ")


@pytest.mark.usefixtures("aws")
def test_refresh_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing credentials are named, with a hint."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    result = run("refresh")

    assert (result.exit_code, result.stdout) == (2, "")
    assert [line.partition(":")[0] for line in result.stderr.splitlines()] == ["error", "hint"]


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("region", ["", "evil.example/#", "a@evil.example", "../x", "eu-west-1.evil.example"])
def test_refresh_asks_no_other_host(region: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no name of a region is refused before anything is asked: it would be a part of an address."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: pytest.fail("an address was looked up"))
    result = run("refresh", "--region", region)

    assert result.exit_code == 2
    assert "region" in result.stderr


def test_refresh_into_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """A file that cannot be written is a sentence."""
    path = tmp_path / "nowhere" / "types.json"

    result = run("refresh", "--out", str(path))

    assert result.exit_code == 2
    assert (
        result.stderr.splitlines()[-1] == f"error: --out: {path} cannot be written: No such file or directory"
    )


@pytest.mark.parametrize(
    ("price", "expected"),
    [
        pytest.param(0.096, "0.096", id="no needless zeros"),
        pytest.param(21.5, "21.5", id="nor needless digits"),
        pytest.param(3.0, "3", id="nor a needless point"),
        pytest.param(0.019003238, "0.019", id="at most five digits"),
        pytest.param(0.0, "0", id="nothing is nothing"),
        pytest.param(2e-6, "2e-06", id="next to nothing is not nothing"),
    ],
)
def test_dollars(price: float, expected: str) -> None:
    """Prices are short, and never look free when they are not."""
    assert dollars(price) == expected
