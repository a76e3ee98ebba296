"""The commands that install, look and uninstall, as users type them, on the embedded AWS."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from botocore.loaders import Loader, create_loader
from click.testing import CliRunner, Result

from karpenter.cli.get import ALIASES
from karpenter.cli.group import main
from karpenter.install.account import AccountApi, read_facts
from karpenter.install.apply import make
from karpenter.install.observe import observe
from karpenter.install.options import InstallationOptions
from karpenter.install.plan import make_plan
from karpenter_local.aws.faults import RefuseCall
from karpenter_local.aws.room import ClusterEndpoint
from karpenter_local.aws.site import ClusterAccount
from tests.unit.cloud.aws.world import embedded
from tests.unit.install.test_faces import same_width, tutorial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


READS = ("Describe", "Get", "List")


@pytest.fixture(scope="module")
def site() -> Iterator[ClusterAccount]:
    """Return a bare account with a cluster that nothing answers for."""
    made = ClusterAccount(
        embedded(), cluster="blue", kubernetes="1.30", types=("m5.large",), bare=True, tagged=False
    )
    made.serve(ClusterEndpoint(cluster="blue", endpoint="https://blue.example", authority="Q0E="))
    yield made
    made.close()


@pytest.fixture
def run(site: ClusterAccount, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Callable[..., Result]:
    """Return how a command is typed by a user who has the keys of the account, and no kubeconfig."""
    # The SDK reads its descriptions of services, which takes a second, once instead of for every command.
    monkeypatch.setattr("botocore.session.create_loader", lambda _: loader())
    for name in ("AWS_PROFILE", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    site.account.forget_calls()

    def typed(*words: str) -> Result:
        return CliRunner().invoke(main, list(words))

    return typed


@cache
def loader() -> Loader:
    """Return the SDK's descriptions of services."""
    return create_loader()


def writes(site: ClusterAccount) -> list[str]:
    return [call.operation for call in site.account.calls() if not call.operation.startswith(READS)]


def test_a_dry_run_of_eksdemo(run: Callable[..., Result], site: ClusterAccount) -> None:
    """The text is that of the tutorial but for account and images, and nothing was changed."""
    result = run("install", "-c", "blue", "--naming", "eksdemo", "--dry-run")
    wanted = tutorial().replace("123456789012", site.account.number)
    images = [line.split()[-1] for line in result.stdout.splitlines() if line.startswith("    - id: ami-")]
    for old, new in zip(("ami-0d6c6ac554d62a745", "ami-0eb2ae1eda347f8cf"), images, strict=True):
        wanted = wanted.replace(old, new)

    assert result.exit_code == 0, result.output
    assert same_width(result.stdout).endswith(wanted)
    assert "taken for missing" in result.stderr
    assert writes(site) == []


def test_a_dry_run_as_data(run: Callable[..., Result], site: ClusterAccount) -> None:
    """As JSON it has every step with its resources, their state, and the actions that are needed."""
    result = run("install", "-c", "blue", "--dry-run", "-o", "json")
    data = json.loads(result.stdout)

    assert [step["name"] for step in data["steps"]][:2] == ["spot-service-linked-role", "node-role"]
    resources = [each for step in data["steps"] for each in step["resources"]]
    assert {each["state"] for each in resources if each["plan"]["kind"] == "IamPolicy"} == {"missing"}
    assert "iam:CreateRole" in data["actions"]
    assert writes(site) == []


def test_a_script(run: Callable[..., Result], site: ClusterAccount) -> None:
    """The script names the account's own subnets, and printing it changes nothing."""
    result = run("install", "-c", "blue", "-o", "aws-cli")

    assert result.exit_code == 0, result.output
    assert "--role-name KarpenterNodeRole-blue" in result.stdout
    assert all(subnet in result.stdout for subnet in site.estate.subnets)
    assert not any(subnet in result.stdout for subnet in site.estate.public_subnets)
    assert writes(site) == []


def test_templates(run: Callable[..., Result]) -> None:
    """With eksdemo's names there are three templates."""
    result = run("install", "-c", "blue", "--naming", "eksdemo", "-o", "cloudformation")

    assert len([each for each in yaml.safe_load_all(result.stdout) if each]) == 3


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        pytest.param(
            ["-c", "red"], "cluster red does not exist in us-west-2", id="a cluster that is not there"
        ),
        pytest.param(["-c", "red"], "hint: there are: blue", id="and those that are"),
        pytest.param(
            ["-c", "blue", "--use-previous", "--version", "1.0.0"],
            '"use-previous" flag cannot be used with "version" flag',
            id="two ways to say which version",
        ),
        pytest.param(
            ["-c", "blue", "--consolidate-after", "soon"], "--consolidate-after: ", id="no duration"
        ),
        pytest.param(
            ["-c", "blue", "--expire-after", "-5m"],
            'NodePool/default: spec.template.spec.expireAfter: Invalid value: "-5m"',
            id="a duration that the cluster refuses",
        ),
        pytest.param(
            ["-c", "blue", "--ami-alias", "x"],
            "--ami-alias: 'x' names no family of images",
            id="no alias",
        ),
        pytest.param(
            ["-c", "blue", "--subnet", "subnet-0"], "The subnet ID 'subnet-0' does not exist", id="no subnet"
        ),
        pytest.param(["-c", ""], "--cluster: '' cannot be the name of an EKS cluster", id="no name"),
        pytest.param(["-c", "blue", "--ami-family", "x"], "must be one of: AL2, AL2023", id="no family"),
        pytest.param(["-c", "blue", "--set", "nope=1"], "the chart has no value nope", id="no such value"),
        pytest.param(["-c", "blue", "--yes"], 'cluster "blue" not found in Kubeconfig', id="no kubeconfig"),
        pytest.param(
            ["-c", "blue", "--yes"], "hint: aws eks update-kubeconfig --name blue", id="and how to get one"
        ),
    ],
)
def test_what_is_refused(
    run: Callable[..., Result], site: ClusterAccount, words: list[str], problem: str
) -> None:
    """What cannot be done is refused in one sentence before anything is made."""
    result = run("install", *words)

    assert result.exit_code == 2
    assert problem in result.stderr
    assert writes(site) == []


def test_uninstall_needs_the_cluster(run: Callable[..., Result], site: ClusterAccount) -> None:
    """A cluster that exists but cannot be reached is not taken apart from one side only."""
    result = run("uninstall", "-c", "blue", "--yes")

    assert result.exit_code == 2
    assert 'cluster "blue" not found in Kubeconfig' in result.stderr
    assert writes(site) == []


def test_uninstall_after_the_cluster(run: Callable[..., Result], site: ClusterAccount) -> None:
    """What is left of a cluster that is gone is found in the account, its OIDC provider by its tag."""
    iam: Any = site.client("iam")
    url = "https://oidc.eks.us-west-2.amazonaws.com/id/GONE"
    tags = [{"Key": "karpenter.sh/installation", "Value": "gone"}]
    iam.create_open_id_connect_provider(Url=url, ClientIDList=["sts.amazonaws.com"], Tags=tags)
    result = run("uninstall", "-c", "gone", "--yes")

    assert result.exit_code == 0, result.output
    assert "EKS has no cluster gone" in result.stderr
    assert "removed  OIDC provider oidc.eks.us-west-2.amazonaws.com/id/GONE" in result.stdout
    assert result.stdout.endswith("\nnothing of ours is left\n")


@pytest.fixture(scope="module")
def installed(site: ClusterAccount) -> ClusterAccount:
    """Return the account with roles, queue and rules of eksdemo's names in it."""
    aws = AccountApi(site.client)
    options = InstallationOptions(cluster="blue", naming="eksdemo")
    plan = make_plan(options, read_facts(aws, options, region="us-west-2"))
    for step in plan.steps:
        if step.phase == "dependency" and step.name != "karpenter-node-iam-auth":
            for each in step.resources:
                make(aws, each, observe(aws, each), owner="blue")  # type: ignore[arg-type]
    return site


@pytest.mark.usefixtures("installed")
def test_get_queues(run: Callable[..., Result], site: ClusterAccount) -> None:
    """A queue has its counts in a table, and every attribute as YAML."""
    table = run("get", "sqs-queue").stdout.splitlines()
    [data] = yaml.safe_load(run("get", "queue", "karpenter-blue", "-o", "yaml").stdout)

    assert table[1].split("|")[1:-1] == [cell.center(len(cell)) for cell in table[1].split("|")[1:-1]]
    assert [cell.strip() for cell in table[3].split("|")][2:6] == ["karpenter-blue", "Standard", "0", "0"]
    assert data["Attributes"]["MessageRetentionPeriod"] == "300"
    assert data["Attributes"]["SqsManagedSseEnabled"] == "true"
    assert data["Attributes"]["Policy"].startswith('{"Version":"2008-10-17","Id":"EC2InterruptionPolicy",')
    assert data["Attributes"]["CreatedTimestamp"].isdigit()
    assert data["Url"].endswith(f"/{site.account.number}/karpenter-blue")


@pytest.mark.usefixtures("installed")
def test_get_rules(run: Callable[..., Result], site: ClusterAccount) -> None:
    """Rules are found by the beginning of their names; as YAML they have every field, nulls included."""
    table = run("get", "event-rule", "karpenter").stdout.splitlines()
    text = run("get", "event-rule", "karpenter-blue-InstanceStateChange", "-o", "yaml").stdout

    assert [line.split("|")[2].strip() for line in table[3:-1]] == [
        "karpenter-blue-InstanceStateChange",
        "karpenter-blue-Rebalance",
        "karpenter-blue-ScheduledChange",
        "karpenter-blue-SpotInterruption",
    ]
    assert text == (
        f"- Arn: arn:aws:events:us-west-2:{site.account.number}:rule/karpenter-blue-InstanceStateChange\n"
        "  Description: null\n"
        "  EventBusName: default\n"
        "  EventPattern: '"
        '{"detail-type":["EC2 Instance State-change Notification"],"source":["aws.ec2"]}'
        "'\n"
        "  ManagedBy: null\n"
        "  Name: karpenter-blue-InstanceStateChange\n"
        "  RoleArn: null\n"
        "  ScheduleExpression: null\n"
        "  State: ENABLED\n"
    )


@pytest.mark.usefixtures("installed")
def test_get_policies_of_a_role(run: Callable[..., Result]) -> None:
    """A role's own policy is told with its text, indented by four, from the first statement to the last."""
    name = "eksctl-blue-addon-iamserviceaccount-karpenter-karpenter-Policy1"
    table = run("get", "iam-policy", "--role", "eksdemo.blue.karpenter.karpenter").stdout
    text = run("get", "policy", "-r", "eksdemo.blue.karpenter.karpenter", "-o", "yaml").stdout
    squeezed = run("get", "policy", "-r", "eksdemo.blue.karpenter.karpenter", "-o", "json").stdout
    document = json.loads(yaml.safe_load(text)["InlinePolicies"][0]["PolicyDocument"])

    assert f"| {name} | Inline |             |" in table
    assert text.startswith(
        f'InlinePolicies:\n- Name: {name}\n  PolicyDocument: |-\n    {{\n        "Version": "2012-10-17",\n'
    )
    assert text.endswith("    }\nManagedPolicies: []\n")
    assert document["Statement"][0]["Sid"] == "AllowScopedEC2InstanceAccessActions"
    assert document["Statement"][-1]["Sid"] == "AllowAPIServerEndpointDiscovery"
    assert '\n            "Name": ' in squeezed
    assert "\n" not in json.loads(squeezed)["InlinePolicies"][0]["PolicyDocument"]


@pytest.mark.usefixtures("installed")
def test_get_roles(run: Callable[..., Result]) -> None:
    """Roles are searched for whatever the case, by cluster, or by name with their last use."""
    found = run("get", "iam-role", "--search", "KARPENTER").stdout
    trusting = run("get", "roles", "-c", "blue").stdout
    used = run("get", "role", "KarpenterNodeRole-blue", "-L").stdout

    assert "eksdemo.blue.karpenter.karpenter" in found
    assert "KarpenterNodeRole-blue" in found
    assert "eksdemo.blue.karpenter.karpenter" in trusting
    assert "KarpenterNodeRole-blue" not in trusting
    assert "Last Used" in used
    assert "|         - |" in used or "| - " in used


def test_get_instances(run: Callable[..., Result], site: ClusterAccount) -> None:
    """Spot instances have a star and a footer; those that ended are listed until they are hidden."""
    ec2: Any = site.client("ec2")
    common = {"ImageId": "ami-0d6c6ac554d62a745", "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 1}
    named = [
        {
            "ResourceType": "instance",
            "Tags": [{"Key": "Name", "Value": "ip-10-0-0-5.us-west-2.compute.internal"}],
        }
    ]
    market = {"MarketType": "spot"}
    subnet = site.estate.subnets[0]
    spot = ec2.run_instances(**common, SubnetId=subnet, TagSpecifications=named, InstanceMarketOptions=market)
    other = ec2.run_instances(**common, SubnetId=subnet)
    gone = other["Instances"][0]["InstanceId"]
    ec2.terminate_instances(InstanceIds=[gone])
    table = run("get", "ec2", "-c", "blue").stdout
    hidden = run("get", "ec2-instance", "--hide-terminated").stdout
    one = yaml.safe_load(run("get", "ec2", spot["Instances"][0]["InstanceId"], "-o", "yaml").stdout)

    assert [cell.strip() for cell in table.splitlines()[1].split("|")[1:-1]] == [
        "Age",
        "State",
        "Id",
        "Name",
        "Type",
        "Zone",
    ]
    assert "| ip-10-0-0-5.us-west-2.compu... | *m5.large | us-west-2a |" in table
    assert table.endswith("+\n* Indicates Spot Instance\n")
    assert f"| terminated | {gone} |" in table
    assert gone not in hidden
    assert one[0]["Instances"][0]["InstanceLifecycle"] == "spot"
    assert one[0]["Instances"][0]["KernelId"] is None


@pytest.mark.parametrize(
    ("words", "problem", "code"),
    [
        pytest.param(["iam-role", "none"], 'iam-role "none" not found', 1, id="a role"),
        pytest.param(
            ["iam-role", "--search", "nothing"], 'no iam-role found searching for "nothing"', 1, id="a search"
        ),
        pytest.param(["sqs-queue", "none"], 'sqs-queue "none" not found', 1, id="a queue"),
        pytest.param(
            ["ec2", "i-0123456789abcdef0"], 'ec2-instance "i-0123456789abcdef0" not found', 1, id="an id"
        ),
        pytest.param(
            ["ec2", "-c", "red"], 'cluster "red" not found\nhint: there are: blue', 2, id="a cluster"
        ),
        pytest.param(
            ["iam-role", "x", "--search", "y"],
            '"search" flag cannot be used with NAME argument',
            2,
            id="both",
        ),
        pytest.param(
            ["ec2", "i-1", "--hide-terminated"],
            '"hide-terminated" flag cannot be used with ID argument',
            2,
            id="an instance that is hidden",
        ),
    ],
)
def test_what_get_does_not_find(
    run: Callable[..., Result], words: list[str], problem: str, code: int
) -> None:
    """What is not there is told by its name, with exit code 1; what makes no sense, with 2."""
    result = run("get", *words)

    assert problem in result.stderr
    assert result.exit_code == code


@pytest.mark.parametrize(
    ("code", "said"),
    [
        pytest.param(
            "ExpiredToken",
            "error: AWS refused eks:DescribeCluster: your credentials have expired (ExpiredToken)\n"
            "hint: aws sso login, or new keys; aws sts get-caller-identity shows who you are\n",
            id="a token that has expired",
        ),
        pytest.param(
            "AccessDeniedException",
            "error: you may not call eks:DescribeCluster: your role lacks the permission"
            " (AccessDeniedException)\nhint: let your role call eks:DescribeCluster\n",
            id="a right that is missing",
        ),
    ],
)
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["install", "-c", "blue", "--yes"], id="install"),
        pytest.param(["uninstall", "-c", "blue", "--yes"], id="uninstall"),
        pytest.param(["get", "ec2-instance", "-c", "blue"], id="get"),
        pytest.param(["example", "inflate", "-c", "blue"], id="example"),
    ],
)
def test_what_aws_refuses(
    run: Callable[..., Result], site: ClusterAccount, words: list[str], code: str, said: str
) -> None:
    """It is said to the person who calls, with the action and what helps, and nothing is changed."""
    site.account.faults.next("DescribeCluster", RefuseCall(code=code, status=403))
    result = run(*words)

    assert result.exit_code == 2
    assert result.stderr == said
    assert writes(site) == []


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["install", "-c", "blue", "--dry-run"], id="install"),
        pytest.param(["uninstall", "-c", "blue", "--yes"], id="uninstall"),
        pytest.param(["get", "iam-role"], id="get, a list"),
        pytest.param(["example", "inflate", "-c", "blue"], id="example"),
    ],
)
def test_no_credentials(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """Those who have not logged in are told how."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    result = run(*words)

    assert result.exit_code == 2
    assert result.stderr.startswith(
        "error: no AWS credentials were found\nhint: aws configure, aws sso login"
    )


def test_what_takes_long_is_said(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, site: ClusterAccount
) -> None:
    """Also where standard error is no terminal, people read what is being done after a while."""
    monkeypatch.setattr("karpenter.cli.errors.PATIENCE", 0.0)

    assert "reading the account (" in run("get", "iam-role").stderr
    said = run("install", "-c", "blue", "--dry-run").stderr
    assert f"reading the account, {site.account.region}, cluster blue (" in said
    assert "comparing the account with the plan (" in said


def test_nothing_found(run: Callable[..., Result]) -> None:
    """A list without anything in it says so."""
    assert run("get", "event-rule", "no-such-prefix").stdout == "No resources found.\n"


GROUPS = ("get", "example", "definition")
COMMANDS = (
    *("install", "uninstall", "doctor", "example inflate", "convert", "definition render", "hash", "why"),
    *(f"get {name}" for name in ALIASES),
)


@pytest.mark.parametrize("command", [*GROUPS, *COMMANDS])
def test_help(run: Callable[..., Result], command: str) -> None:
    """Help has an example and fits 80 columns, and every command can print data."""
    text = run(*command.split(), "--help").stdout

    assert "Example" in text
    assert re.search(r"^ +karpenter ", text.partition("Example")[2], re.MULTILINE)
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert (command in GROUPS) or re.search(r"-o, --output \[\S*json", text)


def test_options_of_install_are_in_order(run: Callable[..., Result]) -> None:
    """There are so many that they are looked up by their letters."""
    text = run("install", "-h").stdout
    names = re.findall(r"^  (?:-\w, )?--([\w-]+)", text, re.MULTILINE)

    assert len(names) > 25
    assert names == sorted(names)


def test_the_region_of_the_environment(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, site: ClusterAccount
) -> None:
    """AWS_REGION is read before AWS_DEFAULT_REGION, as by the AWS CLI; one that is no region is refused."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", site.account.region)
    monkeypatch.setenv("AWS_REGION", "us-wst-2")
    result = run("get", "sqs-queue")

    assert result.exit_code == 2
    assert "there is no region 'us-wst-2'" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_the_application_may_be_named(run: Callable[..., Result], command: str) -> None:
    """It is karpenter; for the example there is a command of its own."""
    other = run(command, "example-inflate", "-c", "blue", "--yes")

    assert run(command, "karpenter", "--help").exit_code == 0
    assert other.exit_code == 2
    assert f"{command} knows no application 'example-inflate', only karpenter" in other.stderr
    assert "hint: karpenter example inflate" in other.stderr


@pytest.mark.parametrize(
    ("words", "problem", "hint"),
    [
        pytest.param(
            ("-n", "Bad_NS"), "--namespace: 'Bad_NS' cannot be a name", "lower-case", id="a namespace"
        ),
        pytest.param(
            ("--service-account", "a b"), "--service-account: 'a b' cannot", "lower-case", id="an account"
        ),
        pytest.param(("--subnet", "subnet-0"), "'subnet-0'", "describe-subnets", id="a subnet"),
        pytest.param(("--security-group", "sg-0"), "sg-0", "describe-security-groups", id="a group"),
        pytest.param(("--profile", "nope"), "(nope) could not be found", "list-profiles", id="a profile"),
    ],
)
def test_names_that_cannot_be(
    run: Callable[..., Result], site: ClusterAccount, words: tuple[str, str], problem: str, hint: str
) -> None:
    """They are refused with a hint before anything is made, and not when their step comes."""
    result = run("install", "-c", "blue", *words, "--yes")

    assert result.exit_code == 2
    assert problem in result.stderr
    assert hint in result.stderr.partition("hint: ")[2]
    assert not [each for each in site.account.calls() if not each.operation.startswith(READS)]


def test_a_folder_that_cannot_be_written(run: Callable[..., Result], tmp_path: Any) -> None:
    """The path is named, with what is wrong with it."""
    (tmp_path / "file").write_text("", "utf-8")
    result = run("render", "helm-values", "-c", "blue", "--write", str(tmp_path / "file" / "below"))

    assert result.exit_code == 2
    assert "cannot be written: Not a directory" in result.stderr
    assert "Traceback" not in result.stderr
