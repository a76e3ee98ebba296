"""``karpenter local aws``: what users type, and what the embedded AWS does."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from karpenter.cli import main
from karpenter_local.aws import commands
from karpenter_local.aws.account import Account, RecordedCall
from karpenter_local.aws.control import Control, InstanceView
from karpenter_local.aws.requirements import NotInstalled
from karpenter_local.aws.server import EmbeddedAws

MACHINE = InstanceView(
    id="i-1",
    instance_type="m5.large",
    zone="us-west-2a",
    capacity_type="spot",
    state="running",
    node="ip-10-0-0-4",
    image="ami-1",
    launched="2026-01-01T00:00:00Z",
)


class Heard(Control):
    """A hand that only notes what it is told."""

    def __init__(self) -> None:
        self.told: list[commands.Command] = []
        self.machines: tuple[InstanceView, ...] = (MACHINE,)

    def perform(self, command: commands.Command) -> str:
        self.told.append(command)
        return "done"

    def instances(self) -> tuple[InstanceView, ...]:
        return self.machines

    def console(self, name: str) -> str:
        return f"console of {name}"


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedAws]:
    """Return an AWS of which only the control interface is used."""
    with EmbeddedAws() as running:
        yield running


@pytest.fixture
def hand(server: EmbeddedAws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Heard:
    """Return a hand that can be reached from the command line."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    made = Heard()
    server.obey(made)
    return made


def run(*arguments: str) -> Result:
    """Run ``karpenter local aws`` with these arguments."""
    return CliRunner().invoke(main, ["local", "aws", *arguments])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("sell-out", commands.SellOutOfferings(), id="everything is sold out"),
        pytest.param(
            "sell-out --type m5.large --zone us-west-2a --capacity-type spot",
            commands.SellOutOfferings(instance_type="m5.large", zone="us-west-2a", capacity_type="spot"),
            id="an offering is sold out",
        ),
        pytest.param("limit 2 --type m5.large", commands.Limit(count=2, instance_type="m5.large"), id="few"),
        pytest.param(
            "sell-out --code VcpuLimitExceeded",
            commands.SellOutOfferings(code="VcpuLimitExceeded"),
            id="a quota",
        ),
        pytest.param("restock --zone a", commands.Restock(zone="a"), id="in stock again"),
        pytest.param("interrupt i-1", commands.Interrupt(instance="i-1", notice=120), id="an interruption"),
        pytest.param("interrupt i-1 --notice 5", commands.Interrupt(instance="i-1", notice=5), id="soon"),
        pytest.param("rebalance i-1", commands.Rebalance(instance="i-1"), id="a recommendation"),
        pytest.param("retire i-1", commands.Retire(instance="i-1"), id="a retirement"),
        pytest.param("kill i-1", commands.Kill(instance="i-1"), id="an end"),
        pytest.param("impair i-1", commands.Impair(instance="i-1"), id="a check that fails"),
        pytest.param(
            "impair i-1 --what instance-stop",
            commands.Impair(instance="i-1", what="instance-stop"),
            id="an event that is scheduled",
        ),
        pytest.param("heal i-1", commands.Heal(instance="i-1"), id="a recovery"),
        pytest.param("lag 10", commands.Lag(seconds=10), id="a late EC2"),
        pytest.param("shift-zone z --for 6", commands.ShiftZone(zone_id="z", seconds=6), id="a shift"),
        pytest.param("release-ami", commands.ReleaseAmi(), id="a release"),
        pytest.param(
            "publish-ami mine --arch arm64 --id ami-1",
            commands.PublishAmi(name="mine", arch="arm64", id="ami-1"),
            id="an image",
        ),
        pytest.param(
            "set-price m5.large 0.5 --zone a",
            commands.SetPrice(instance_type="m5.large", price=0.5, zone="a"),
            id="a price",
        ),
        pytest.param("move-prices --spread 0.5", commands.MovePrices(spread=0.5), id="prices that move"),
        pytest.param(
            "refuse CreateFleet --code Nope --count 3",
            commands.RefuseCalls(operation="CreateFleet", code="Nope", count=3),
            id="a refusal",
        ),
        pytest.param("allow CreateFleet", commands.Allow(operation="CreateFleet"), id="a change of mind"),
    ],
)
def test_every_command_is_told_as_it_is_typed(hand: Heard, line: str, expected: commands.Command) -> None:
    """What is typed arrives, and what was done is printed."""
    result = run(*line.split())

    assert (result.exit_code, result.stdout) == (0, "done\n")
    assert hand.told == [expected]


def test_instances_are_listed(hand: Heard) -> None:
    """A table for people, data for programs, and a sentence where there is none."""
    assert run("instances").stdout.splitlines()[1].split() == [
        "i-1", "m5.large", "us-west-2a", "spot", "running", "ip-10-0-0-4", "ami-1",
    ]  # fmt: skip
    assert '"capacityType": "spot"' in run("instances", "-o", "json").stdout
    hand.machines = ()
    assert run("instances").stdout == "No instance runs.\n"


def test_calls_are_listed(hand: Heard) -> None:
    """The log of calls is a table that fits a terminal, or data; changes can be picked out of it."""
    hand.account = Account("000000000009", types=())
    who, now = hand.account.administrator, datetime(2026, 1, 1, 12, tzinfo=UTC)
    role = "a-role-with-a-name-that-is-very-long"
    hand.account.record(RecordedCall("iam", "ListRoles", {}, who, now))
    hand.account.record(RecordedCall("iam", "CreateRole", {"RoleName": role}, who, now))
    hand.account.record(RecordedCall("iam", "DeleteRole", {"RoleName": "one"}, who, now, "AccessDenied"))

    lines = run("calls").stdout.splitlines()
    assert [each.split() for each in lines[1:]] == [
        ["12:00:00", "iam:ListRoles", "well"],
        ["12:00:00", "iam:CreateRole", "a-role-with-a-name-that…", "well"],
        ["12:00:00", "iam:DeleteRole", "one", "AccessDenied"],
    ]
    assert max(map(len, lines)) <= 80
    (changed,) = json.loads(run("calls", "--changes", "-o", "json").stdout)
    assert (changed["eventName"], changed["resources"]) == ("CreateRole", [role])
    hand.account.forget_calls()
    assert run("calls").stdout == "No calls were made.\n"


def test_consoles_are_shown(hand: Heard) -> None:
    """By whatever name the instance goes."""
    assert hand.told == []
    assert run("console", "i-1").stdout == "console of i-1\n"


def test_where_no_aws_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A sentence says so, and real endpoints are never asked."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://ec2.us-west-2.amazonaws.com")

    result = run("instances")

    assert result.exit_code == 2
    assert result.stderr.splitlines()[0] == "error: no embedded AWS runs here"


def test_where_an_aws_has_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An address at which nothing listens any longer is a sentence, too."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

    assert run("release-ami").stderr.startswith("error: the embedded AWS does not answer: ")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(("--region", "us-west-9"), "error: there is no region 'us-west-9'", id="a region"),
        pytest.param(
            ("--instance-types", "m5.large,m5.lorge"),
            "error: there is no instance type 'm5.lorge'",
            id="an instance type",
        ),
    ],
)
def test_names_that_nobody_knows(
    arguments: tuple[str, ...], expected: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What does not exist is refused before anything starts, with a name that is close."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    result = CliRunner().invoke(main, ["local", "up", "--provider", "aws", *arguments])

    assert result.exit_code == 2
    assert result.stderr.splitlines()[0] == expected
    assert result.stderr.splitlines()[1].startswith("hint: did you mean ")


def test_without_the_libraries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the libraries of the embedded AWS, the command that installs them is named."""

    def refuse() -> None:
        raise NotInstalled(("moto",))

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("karpenter_local.aws.requirements.check_needs", refuse)

    result = CliRunner().invoke(main, ["local", "up", "--provider", "aws"])

    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "error: the embedded AWS needs what is not installed here: moto",
        f"hint: {NotInstalled.hint}",
    ]
