"""The plan as text, as a script, as templates, and as what Helm remembers."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shlex
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from karpenter import __version__
from karpenter.install.apply import ResourceDone, StackDone, StepBegun, StepWaits
from karpenter.install.cloudformation import render_cloudformation, stack_templates
from karpenter.install.observe import ABSENT, ResourceState
from karpenter.install.release import ReleaseRecord, latest, managed, read_release, release_secret, superseded
from karpenter.install.script import render_script
from karpenter.install.text import (
    BUILT_IN,
    EksdemoLog,
    InstallationLog,
    dry_run_text,
    eksdemo_dry_run,
    helm_command,
)
from tests.unit.install.test_plan import plan

SEEDS = Path(__file__).parents[2] / "data" / "seeds"
NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def seen(found: Any, observation: ResourceState = ABSENT) -> list[Any]:
    """Return that everything of a plan is in one state."""
    return [(step, each, observation) for step in found.steps for each in step.resources]


def tutorial() -> str:
    """Return what eksdemo's tutorial prints, with the chart and the version that are installed here."""
    text = (SEEDS / "eksdemo-dry-run.txt").read_text("utf-8").replace("1.0.0", __version__)
    return same_width(text.replace("oci://public.ecr.aws/karpenter/karpenter", BUILT_IN))


def same_width(text: str) -> str:
    """Return a text in which the columns of tables have no width."""
    return re.sub(r" +\|", " |", re.sub("--+", "--", text))


def test_the_dry_run_of_the_tutorial() -> None:
    """With eksdemo's names a dry run has the lines of eksdemo's tutorial, and says what is installed."""
    found = plan(naming="eksdemo")
    text = eksdemo_dry_run(found, seen(found))
    first, _, rest = text.partition("Helm Installer Dry Run:")

    assert same_width(f"Helm Installer Dry Run:{rest}\n") == tutorial()
    assert first.startswith(
        "Creating 5 dependencies for karpenter\nCreating dependency: ec2-spot-service-linked-role\n"
        'Service Linked Role Manager Dry Run:\nAWS API Call: "CreateServiceLinkedRole"\n'
        'AWSServiceName: "spot.amazonaws.com"\n'
    )
    assert 'Stack name "eksdemo-blue-karpenter-node-role" template:' in first


def test_a_dry_run_says_what_exists() -> None:
    """What is there is said to be there, in a dry run too."""
    found = plan(naming="eksdemo")
    text = eksdemo_dry_run(found, seen(found, ResourceState()))

    assert 'Service Linked Role "AWSServiceRoleForEC2Spot" already exists' in text
    assert 'CloudFormation stack "eksdemo-blue-karpenter-sqs-queue" already exists' in text


def test_set_values_are_printed_as_go_prints_lists() -> None:
    """What was set stands in brackets, with spaces between."""
    found = plan(naming="eksdemo", sets=("logLevel=debug", "replicas=2"))

    assert "Set Values: [logLevel=debug replicas=2]" in eksdemo_dry_run(found, seen(found))


def test_a_dry_run_in_our_words() -> None:
    """It lists every resource with its state and cost, the actions that are needed, and fits 80 columns."""
    found = plan()
    text = dry_run_text(found, seen(found))

    assert "[2/9] Role and instance profile of the nodes\n      cost: free\n" in text
    assert "      would make   role KarpenterNodeRole-blue\n" in text
    assert "IAM actions that you need:" in text
    assert text.endswith("resources would be made, 0 changed; 0 exist. Nothing was changed.")
    words = [line for line in text.splitlines() if not line.strip().startswith("--set")]
    assert [line for line in words if len(line) > 80 and " " in line.strip()[25:]] == []
    assert dry_run_text(found, seen(found, ResourceState())).endswith(
        "Nothing to do: all 28 resources are as planned. Nothing was changed."
    )


def test_a_dry_run_prints_the_command_of_helm() -> None:
    """What a shell makes of the command states every value of the release; helm's own tests read it."""
    stated = {
        "controller": {"env": [{"name": "A", "value": "b"}], "resources": {"limits": {"cpu": "1"}}},
        "podLabels": {"a.b": "{c"},
    }
    found = plan(sets=(r"podAnnotations.example\.com/a=b\,c", "replicas=3"), values=(stated,))
    lines = helm_command(found.release)
    role = "arn:aws:iam::123456789012:role/KarpenterControllerRole-blue"

    assert shlex.split("\n".join(lines).replace("\\\n", "")) == [
        *("helm", "upgrade", "--install", "karpenter", "charts/karpenter"),
        *("--namespace", "kube-system", "--create-namespace", "--version", "0.1.0"),
        *("--set", "serviceAccount.name=karpenter"),
        *("--set", rf"serviceAccount.annotations.eks\.amazonaws\.com/role-arn={role}"),
        *("--set", "settings.clusterName=blue"),
        *("--set", "settings.interruptionQueue=blue"),
        *("--set-json", 'controller.env=[{"name": "A", "value": "b"}]'),
        *("--set-string", "controller.resources.limits.cpu=1"),
        *("--set-json", r'podLabels.a\.b="{c"'),
        *("--set", r"podAnnotations.example\.com/a=b\,c"),
        *("--set", "replicas=3"),
    ]
    assert "\n".join(lines) in dry_run_text(found, seen(found))


def test_what_eksdemo_prints_while_it_installs() -> None:
    """Dependencies, chart and post-install resources are announced as its tutorial shows."""
    found = plan(naming="eksdemo")
    log = EksdemoLog(found, lambda: NOW)
    lines: list[str] = []
    for number, step in enumerate(found.steps, start=1):
        lines += log.lines(StepBegun(step=step, number=number, of=len(found.steps)))
        if step.stack:
            lines += log.lines(StackDone(step=step, outcome="made"))
        elif step.phase != "dependency":
            for each in step.resources:
                lines += log.lines(ResourceDone(step=step, resource=each, before=ABSENT, outcome="made"))

    assert lines[0] == "Creating 5 dependencies for karpenter"
    assert (
        'Creating CloudFormation stack "eksdemo-blue-karpenter-node-role" (can take 1+ min)...done' in lines
    )
    chart = lines.index(f"Using built-in Chart: karpenter:{__version__}")
    assert lines[chart + 1 : chart + 3] == [
        "Helm installing...",
        "2026/06/01 12:00:00 creating 1 resource(s)",
    ]
    assert lines[-5:] == [
        (
            f'Using chart version "{__version__}", installed "karpenter" version "{__version__}"'
            ' in namespace "karpenter"'
        ),
        "Creating 1 post-install resources for karpenter",
        "Creating post-install resource: karpenter-default-nodepool",
        'Creating NodePool "default"',
        'Creating EC2NodeClass "default"',
    ]


def test_eksdemo_waits_for_as_long_as_it_says() -> None:
    """The line stands once, and only where something is waited for."""
    found = plan(naming="eksdemo")
    log = EksdemoLog(found, lambda: NOW, within=60.0)
    waits = StepWaits(step=found.steps[-1], said="0 of 1 replicas are ready")
    first, again = log.lines(waits), log.lines(waits)

    count = len(found.release.objects)
    assert first == [f"2026/06/01 12:00:00 beginning wait for {count} resources with timeout of 60s"]
    assert again == []


def test_what_we_print_while_we_install() -> None:
    """Every step says what it costs; the last line says how much was done."""
    found = plan()
    log = InstallationLog(found)
    step = found.steps[1]
    differs = ResourceState(differences=("policy X is not attached",))
    lines = log.lines(StepBegun(step=step, number=2, of=9))
    lines += log.lines(ResourceDone(step=step, resource=step.resources[0], before=differs, outcome="changed"))

    assert lines == [
        "[2/9] Role and instance profile of the nodes",
        "      cost: free",
        "      changed      role KarpenterNodeRole-blue",
        "                   - policy X is not attached",
    ]
    assert log.summary() == "Installed: 0 resources made, 1 changed, 0 existed."
    assert InstallationLog(found).summary() == "Nothing to do: all 0 resources are as planned."


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="with IRSA"),
        pytest.param({"identity": "pod-identity", "auth": "aws-auth"}, id="with pod identity"),
        pytest.param({"naming": "eksdemo"}, id="with eksdemo's names"),
    ],
)
def test_the_script_is_one(options: Any) -> None:
    """A shell can read the script, and every document in it is the plan's."""
    found = plan(**options)
    text = render_script(found)
    bash = shutil.which("bash")
    assert bash is not None
    subprocess.run([bash, "-n"], input=text, text=True, check=True)  # noqa: S603  reads only
    documents = [json.loads(each) for each in re.findall(r"-policy-document '([^']+)'", text)]

    assert found.resources[0].title.removeprefix("service-linked role ") in text
    for document in documents:
        assert document["Version"] == "2012-10-17"
    assert len(documents) == len(
        [each for each in found.resources if type(each).__name__ in {"IamPolicy", "IamRole"}]
    ) + (1 if options.get("naming") else 0)


def test_the_template_of_an_installation() -> None:
    """One stack holds what CloudFormation can make, and says what it cannot."""
    (name, template), *others = stack_templates(plan()).items()
    kinds = sorted({each["Type"] for each in template["Resources"].values()})

    assert (name, others) == ("Karpenter-blue", [])
    assert kinds == [
        "AWS::EKS::AccessEntry",
        "AWS::Events::Rule",
        "AWS::IAM::InstanceProfile",
        "AWS::IAM::ManagedPolicy",
        "AWS::IAM::OIDCProvider",
        "AWS::IAM::Role",
        "AWS::IAM::ServiceLinkedRole",
        "AWS::SQS::Queue",
        "AWS::SQS::QueuePolicy",
    ]
    role = template["Resources"]["KarpenterControllerRole"]["Properties"]
    assert {"Ref": "KarpenterControllerInterruptionPolicy"} in role["ManagedPolicyArns"]
    printed = render_cloudformation(plan())
    assert "#   service-linked role" not in printed
    assert "--parameter-overrides CreateSpotServiceLinkedRole=true" in printed
    linked = template["Resources"]["SpotServiceLinkedRole"]
    assert (linked["Condition"], linked["DeletionPolicy"]) == ("CreateSpotServiceLinkedRole", "Retain")
    assert list(yaml.safe_load_all(printed))[-1] == template


def test_the_templates_of_eksdemo() -> None:
    """The stack of nodes has one role, and that of the queue the queue, its policy and four rules."""
    stacks = stack_templates(plan(naming="eksdemo"))

    assert list(stacks["eksdemo-blue-karpenter-node-role"]["Resources"]) == ["KarpenterNodeRole"]
    assert list(stacks["eksdemo-blue-karpenter-sqs-queue"]["Resources"]) == [
        "KarpenterInterruptionQueue",
        "KarpenterInterruptionQueuePolicy",
        "ScheduledChangeRule",
        "SpotInterruptionRule",
        "RebalanceRule",
        "InstanceStateChangeRule",
    ]


def record(revision: int = 1) -> ReleaseRecord:
    return ReleaseRecord(
        name="karpenter",
        namespace="kube-system",
        revision=revision,
        status="deployed",
        chart="karpenter",
        chart_version="1.0.0",
        app_version="1.0.0",
        updated=NOW.isoformat(),
        config={"replicas": 1},
    )


def test_helm_can_read_the_release() -> None:
    """The Secret has the name, the type, the labels and the content that Helm looks for."""
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "karpenter"}}
    files = {"templates/a.yaml": "a: 1", "Chart.yaml": "-", "values.yaml": "replicas: 2"}
    secret = release_secret(record(), now=NOW, files=files, objects=[body])
    told = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["release"]))))

    assert secret["metadata"]["name"] == "sh.helm.release.v1.karpenter.v1"
    assert secret["type"] == "helm.sh/release.v1"
    assert secret["metadata"]["labels"]["owner"] == "helm"
    assert told["info"]["status"] == "deployed"
    assert told["chart"]["values"] == {"replicas": 2}
    assert told["chart"]["templates"] == [
        {"name": "templates/a.yaml", "data": base64.b64encode(b"a: 1").decode()}
    ]
    assert yaml.safe_load(told["manifest"]) == body
    assert read_release(secret) == msgspec.structs.replace(record(), manifest=told["manifest"])


def test_a_revision_that_is_replaced_says_so() -> None:
    """The revision before is superseded, in its label and in its content."""
    secret = release_secret(record(), now=NOW, files={}, objects=[])
    change = superseded(secret)
    after = read_release({**secret, "data": change["data"]})

    assert change["metadata"] == {"labels": {"status": "superseded"}}
    assert after is not None
    assert after.status == "superseded"


def test_what_is_no_release_is_passed_over() -> None:
    """A Secret of another sort, or a broken one, is no release; of several revisions the last counts."""
    assert read_release({"data": {}}) is None
    assert read_release({"data": {"release": "!"}}) is None
    assert [each.revision for each in latest([record(1), None, record(3), record(2)])] == [3]


def test_objects_say_to_which_release_they_belong() -> None:
    """Helm takes over only what says that it is its own."""
    body = managed({"kind": "X", "metadata": {"name": "x", "labels": {"a": "b"}}}, name="r", namespace="n")

    assert body["metadata"]["labels"] == {"a": "b", "app.kubernetes.io/managed-by": "Helm"}
    assert body["metadata"]["annotations"] == {
        "meta.helm.sh/release-name": "r",
        "meta.helm.sh/release-namespace": "n",
    }
