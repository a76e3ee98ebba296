"""What add-ons refuse, in the words of the blueprints; none of it needs CDK."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import karpenter.cdk
from karpenter.cdk.props import KarpenterProps, KarpenterV1Props, read_props
from karpenter.cdk.rules import (
    COMPATIBLE,
    AddOnError,
    ListedAddOn,
    chart_version,
    check_add_ons,
    check_imported,
    check_props,
    check_v1_props,
    fargate_values,
    version_of,
)

OCI = "oci://public.ecr.aws/karpenter/karpenter"
OLD = "https://charts.karpenter.sh"
CNI, KARPENTER, V1 = "VpcCniAddOn", "KarpenterAddOn", "KarpenterV1AddOn"
HANDLER = "AwsNodeTerminationHandlerAddOn"
NATIVE = "Karpenter supports native interruption handling, so Node Termination Handler will not be necessary."
MISSING = "Assertion failed: Missing a dependency for VpcCniAddOn"
CONFLICT = "Deploying my-stack-name failed due to conflicting add-on: ClusterAutoscalerAddOn."
EC2 = {"amiFamily": "AL2", "subnetSelectorTerms": [{"id": "subnet-1"}]}
GROUPS = {"securityGroupSelectorTerms": [{"id": "sg-1"}]}
TAGS = {"subnetTags": {"Name": "a"}, "securityGroupTags": {"Name": "b"}}


def legacy(**props: Any) -> KarpenterProps:
    return read_props(KarpenterProps, props, {}, identifier=KARPENTER)


def stable(**props: Any) -> KarpenterV1Props:
    """Return props of the add-on for version 1."""
    return read_props(KarpenterV1Props, props, {}, identifier=V1)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        pytest.param([CNI, KARPENTER], "", id="VPC CNI before it"),
        pytest.param([KARPENTER], MISSING, id="no VPC CNI"),
        pytest.param([KARPENTER, CNI], MISSING, id="VPC CNI after it"),
        pytest.param([V1], "", id="version 1 needs no VPC CNI in the list"),
        pytest.param([CNI, KARPENTER, "ClusterAutoScalerAddOn"], CONFLICT, id="Cluster Autoscaler after it"),
        pytest.param([CNI, "ClusterAutoscalerAddOn", KARPENTER], CONFLICT, id="Cluster Autoscaler before it"),
        pytest.param(["ClusterAutoScalerAddOn", V1], CONFLICT, id="Cluster Autoscaler before version 1"),
        pytest.param(["ClusterAutoScalerAddOn"], "", id="Cluster Autoscaler alone"),
        pytest.param(
            [CNI, KARPENTER, V1],
            "Deploying my-stack-name failed due to conflicting add-on: KarpenterV1AddOn.",
            id="both generations",
        ),
        pytest.param([CNI, HANDLER, KARPENTER], NATIVE, id="Node Termination Handler before it"),
        pytest.param([CNI, KARPENTER, HANDLER], "", id="Node Termination Handler after it"),
    ],
)
def test_the_order_of_add_ons(names: list[str], message: str) -> None:
    """A list that cannot work is refused before anything is made, in either order."""
    listed = [ListedAddOn(id=each, version=(0, 25, 0)) for each in names]
    if not message:
        check_add_ons(listed, stack="my-stack-name")
        return
    with pytest.raises(AddOnError) as caught:
        check_add_ons(listed, stack="my-stack-name")

    assert str(caught.value) == message
    assert caught.value.__notes__ == [f"hint: {caught.value.hint}"]


@pytest.mark.parametrize(
    ("version", "interruption", "names", "message"),
    [
        pytest.param((0, 18, 0), False, [CNI, KARPENTER, HANDLER], "", id="before 0.19, after Karpenter"),
        pytest.param(
            (0, 18, 0),
            False,
            [CNI, HANDLER, KARPENTER],
            "AwsNodeTerminationHandlerAddOn must be in the add-on array after KarpenterAddOn",
            id="before 0.19, before Karpenter",
        ),
        pytest.param((0, 19, 0), True, [CNI, KARPENTER, HANDLER], NATIVE, id="both read interruptions"),
    ],
)
def test_the_node_termination_handler(
    version: Any, interruption: bool, names: list[str], message: str
) -> None:
    """It is for versions before 0.19, and comes after Karpenter in the list."""
    listed = [ListedAddOn(id=each, version=version, interruption=interruption) for each in names]
    if not message:
        check_add_ons(listed, stack="s")
        return
    with pytest.raises(AddOnError) as caught:
        check_add_ons(listed, stack="s")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("props", "kubernetes", "message"),
    [
        pytest.param(
            {"version": "0.14.0", "repository": OLD, "consolidation": {"enabled": True}},
            "1.24",
            "The prop consolidation is only supported on versions v0.15.0 and later.",
            id="consolidation before 0.15",
        ),
        pytest.param(
            {"consolidation": {"enabled": True}, "ttlSecondsAfterEmpty": 30},
            "1.25",
            "Consolidation and ttlSecondsAfterEmpty must be mutually exclusive.",
            id="consolidation and emptiness",
        ),
        pytest.param(
            {"version": "0.15.0", "repository": OLD, "weight": 20},
            "1.24",
            "The prop weight is only supported on versions v0.16.0 and later.",
            id="weight before 0.16",
        ),
        pytest.param({"repository": OLD}, "1.25", "Please provide the OCI repository.", id="old repository"),
        pytest.param(
            {"repository": "public.ecr.aws/karpenter/karpenter"},
            "1.25",
            "Please provide the OCI repository.",
            id="without oci://",
        ),
        pytest.param(
            {"version": "0.16.3"},
            "1.24",
            "Please provide the older Karpenter repository url.",
            id="registry before 0.17",
        ),
        pytest.param(
            {"version": "v0.18.0", "interruptionHandling": True},
            "1.24",
            "Interruption handling is only supported on versions v0.19.0 and later.",
            id="interruption before 0.19",
        ),
        pytest.param(
            {"version": "v0.17.0", "release": "blueprints-addon-karpenter"},
            "1.24",
            "release is blueprints-addon-karpenter: from v0.17.0 on, charts unpack under karpenter only",
            id="a release of another name",
        ),
        pytest.param(
            {"version": "v0.22.0"},
            "1.20",
            "Karpenter v0.22.0 and later does not work on Kubernetes 1.20",
            id="0.22 before Kubernetes 1.21",
        ),
        pytest.param(
            {"amiFamily": "AL3"},
            "1.25",
            'amiFamily is "AL3"; it is one of AL2, Bottlerocket, Ubuntu',
            id="no such family",
        ),
        pytest.param(
            {"requirements": [{"key": "a", "op": "Near", "vals": ["b"]}]},
            "1.25",
            'requirements[0].op is "Near"; it is one of In, NotIn',
            id="no such operator",
        ),
        pytest.param(
            {"taints": [{"key": "a", "effect": "Never"}]},
            "1.25",
            'taints[0].effect is "Never"; it is one of NoSchedule, PreferNoSchedule, NoExecute',
            id="no such effect",
        ),
        pytest.param(
            {"nodePoolSpec": {}, "version": "v0.25.0"},
            "1.22",
            "Please upgrade your EKS Kubernetes version to start using Karpenter.",
            id="Kubernetes before the matrix",
        ),
        pytest.param(
            {"nodePoolSpec": {}, "version": "v0.20.0"},
            "1.24",
            "Please use Karpenter version 0.21.0 or above.",
            id="specs before 0.21",
        ),
        pytest.param(
            {"nodePoolSpec": {}, "ec2NodeClassSpec": {"detailedMonitoring": True}, "version": "v0.22.0"},
            "1.24",
            "Detailed Monitoring is not available in this version of Karpenter. Please upgrade to at least "
            "0.23.0.",
            id="monitoring before 0.23",
        ),
        pytest.param(
            {"nodePoolSpec": {"disruption": {"budgets": [{"nodes": "1"}]}}, "version": "v0.33.0"},
            "1.28",
            "You cannot set disruption budgets for this version of Karpenter. Please upgrade to 0.34.0 or "
            "higher.",
            id="budgets before 0.34",
        ),
        pytest.param(
            {"nodePoolSpec": {"ttlSecondsUntilExpired": 60}, "version": "v0.32.0"},
            "1.28",
            "Consolidation features are only available for previous versions of Karpenter.",
            id="a time to live from 0.32 on",
        ),
        pytest.param(
            {
                "nodePoolSpec": {"consolidation": {"enabled": True}, "ttlSecondsAfterEmpty": 3},
                "version": "v0.30.0",
            },
            "1.27",
            "Consolidation and ttlSecondsAfterEmpty must be mutually exclusive.",
            id="both in a spec",
        ),
        pytest.param(
            {
                "nodePoolSpec": {
                    "disruption": {"consolidationPolicy": "WhenUnderutilized", "consolidateAfter": "30s"}
                },
                "version": "v0.33.0",
            },
            "1.28",
            "You cannot set consolidateAfter value if the consolidation policy is set to Underutilized.",
            id="a delay for underutilized nodes",
        ),
        pytest.param(
            {"nodePoolSpec": {}, "ec2NodeClassSpec": {"tags": {"a": "b"}}},
            "1.31",
            "Please provide the AMI Family for your EC2NodeClass.",
            id="no family",
        ),
        pytest.param(
            {"nodePoolSpec": {}, "ec2NodeClassSpec": EC2},
            "1.31",
            "Please provide SecurityGroupTerm for your EC2NodeClass.",
            id="no security groups",
        ),
        pytest.param(
            {"nodePoolSpec": {}, "ec2NodeClassSpec": {"amiFamily": "AL2", **GROUPS}},
            "1.31",
            "Please provide subnetGroupTerm for your EC2NodeClass.",
            id="no subnets",
        ),
        pytest.param(
            {"nodePoolSpec": {"disruption": {"consolidateAfter": "1m"}}, "version": "v0.31.0"},
            "1.28",
            "Disruption configuration is only supported on versions v0.32.0 and later.",
            id="disruption before 0.32",
        ),
        pytest.param(
            {"nodePoolSpec": {}, "ec2NodeClassSpec": {"subnetSelector": {"a": "b"}}, "version": "v0.31.0"},
            "1.28",
            "Please provide SecurityGroupTerm for your AWSNodeTemplate.",
            id="a template without security groups",
        ),
        pytest.param(
            {
                "nodePoolSpec": {},
                "ec2NodeClassSpec": {"securityGroupSelector": {"a": "b"}},
                "version": "v0.31.0",
            },
            "1.28",
            "Please provide subnetGroupTerm for your AWSNodeTemplate.",
            id="a template without subnets",
        ),
        pytest.param(
            {**TAGS, "version": "v0.33.0"},
            "1.28",
            "Karpenter 0.33.0 reads NodePools and EC2NodeClasses of v1beta1, which requirements, subnetTags "
            "and the like do not become",
            id="a Provisioner for v1beta1",
        ),
        pytest.param(
            {"nodePoolSpec": {}, "podIdentity": True, "version": "v0.34.0"},
            "1.29",
            "podIdentity needs Karpenter 0.35.0 and Kubernetes 1.24, or later",
            id="pod identity before 0.35",
        ),
        pytest.param(
            {"version": "new"},
            "1.25",
            'version is "new"; it is one such as v0.25.0 or 1.3.0',
            id="no version",
        ),
        pytest.param(
            {"name": ""},
            "1.25",
            "name (KarpenterAddOn: ) must be no less than 1 characters long.",
            id="no name",
        ),
        pytest.param(
            {"release": "r" * 54},
            "1.25",
            f"release (KarpenterAddOn: {'r' * 54}) must be no more than 53 characters long.",
            id="a long release",
        ),
    ],
)
def test_props_that_are_refused(props: dict[str, Any], kubernetes: str, message: str) -> None:
    """Each rule says what is wrong in the words of the blueprints."""
    with pytest.raises(AddOnError) as caught:
        check_props(legacy(**props), kubernetes=kubernetes)

    assert str(caught.value) == message


@pytest.mark.parametrize(
    "props",
    [
        pytest.param({}, id="nothing at all"),
        pytest.param({"requirements": []}, id="no requirements"),
        pytest.param({"version": "0.15.0", "repository": OLD, "consolidation": {"enabled": True}}, id="0.15"),
        pytest.param({"version": "0.16.0", "repository": OLD, "weight": 1}, id="0.16"),
        pytest.param({"version": "v0.17.0", "repository": OCI}, id="0.17"),
        pytest.param({"version": "v0.19.0", "interruptionHandling": True}, id="0.19"),
        pytest.param({"consolidation": {"enabled": False}, "ttlSecondsAfterEmpty": 30}, id="emptiness alone"),
        pytest.param({"nodePoolSpec": {}, "ec2NodeClassSpec": {**EC2, **GROUPS}}, id="two specs"),
    ],
)
def test_props_that_are_taken(props: dict[str, Any]) -> None:
    """At the first version that knows a prop it is taken."""
    assert check_props(legacy(**props), kubernetes="") == ()


def test_a_version_below_the_matrix_is_a_warning() -> None:
    """An operator that is too old for its cluster gets a warning that names the least version."""
    [warning] = check_props(legacy(), kubernetes="1.31")

    assert warning == (
        "Please use minimum Karpenter version for this Kubernetes Version: 1.0.5, otherwise you will run "
        "into compatibility issues."
    )
    assert check_props(legacy(skipVersionValidation=True), kubernetes="1.31") == ()


@pytest.mark.parametrize(
    ("props", "kubernetes", "message"),
    [
        pytest.param(
            {"version": "0.31.0"},
            "1.31",
            "Karpenter interruption handling requires version >= 0.32.0. Current version: 0.31.0",
            id="before 0.32",
        ),
        pytest.param(
            {},
            "1.28",
            "Cluster version must be >= 1.29 for Karpenter interruption handling. Current version: 1.28",
            id="Kubernetes before 1.29",
        ),
        pytest.param(
            {"version": "0.37.0"},
            "1.31",
            "version is 0.37.0, which does not read objects of version 1",
            id="before 1.0",
        ),
        pytest.param(
            {"values": {"settings": {"clusterName": "a"}}},
            "1.31",
            "values: settings.clusterName is set by KarpenterV1AddOn, from the cluster and the roles that it"
            " makes",
            id="a value of the add-on",
        ),
    ],
)
def test_props_of_version_1_that_are_refused(props: dict[str, Any], kubernetes: str, message: str) -> None:
    """Versions before 1 and values that the add-on sets are refused."""
    with pytest.raises(AddOnError) as caught:
        check_v1_props(stable(**props), kubernetes=kubernetes)

    assert str(caught.value) == message


def test_our_own_version_counts_as_that_of_karpenter() -> None:
    """The chart of this project, pushed to a registry, has a low version and passes the gates of 1.14."""
    check_v1_props(
        stable(version=karpenter.__version__, repository="oci://registry/karpenter"), kubernetes="1.33"
    )


@pytest.mark.parametrize(
    ("version", "values", "path"),
    [
        pytest.param(
            "v0.25.0",
            {"settings": {"aws": {"defaultInstanceProfile": "a"}}},
            "settings.aws.defaultInstanceProfile",
            id="profile",
        ),
        pytest.param(
            "v0.25.0",
            {"settings": {"aws": {"clusterEndpoint": "a"}}},
            "settings.aws.clusterEndpoint",
            id="endpoint",
        ),
        pytest.param(
            "v0.25.0", {"settings": {"aws": {"clusterName": "a"}}}, "settings.aws.clusterName", id="name"
        ),
        pytest.param(
            "v0.25.0",
            {"settings": {"aws": {"interruptionQueueName": "a"}}},
            "settings.aws.interruptionQueueName",
            id="queue",
        ),
        pytest.param("v0.25.0", {"serviceAccount": {"create": True}}, "serviceAccount.create", id="account"),
        pytest.param(
            "v0.25.0", {"serviceAccount": {"name": "a"}}, "serviceAccount.name", id="account's name"
        ),
        pytest.param(
            "v0.25.0",
            {"serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "a"}}},
            "serviceAccount.annotations.eks.amazonaws.com/role-arn",
            id="role",
        ),
        pytest.param(
            "1.0.6",
            {"settings": {"interruptionQueue": "a"}},
            "settings.interruptionQueue",
            id="queue from 0.32 on",
        ),
    ],
)
def test_values_that_the_add_on_sets(version: str, values: dict[str, Any], path: str) -> None:
    """The seven values of the documentation are refused, each by its path."""
    props = {"version": version, "values": values, "interruptionHandling": True}
    with pytest.raises(AddOnError, match=rf"values: {path} is set by KarpenterAddOn"):
        check_props(legacy(**props), kubernetes="1.25")


def test_a_queue_may_be_named_without_interruption_handling() -> None:
    """The add-on owns the queue's name only where it makes the queue."""
    values = {"settings": {"aws": {"interruptionQueueName": "mine"}}}

    assert check_props(legacy(values=values), kubernetes="1.25") == ()


@pytest.mark.parametrize(
    ("given", "written"),
    [
        pytest.param("0.17.0", "v0.17.0", id="the first with v"),
        pytest.param("v0.25.0", "v0.25.0", id="as it is"),
        pytest.param("0.34.5", "v0.34.5", id="the last with v"),
        pytest.param("v0.35.0", "0.35.0", id="the first without"),
        pytest.param("v1.3.0", "1.3.0", id="version 1"),
        pytest.param("v0.16.3", "0.16.3", id="the old repository"),
    ],
)
def test_chart_versions_are_spelled_as_in_their_repository(given: str, written: str) -> None:
    """A v is added or removed by the window in which charts have one."""
    assert chart_version(given) == written


@pytest.mark.parametrize(
    ("version", "told"),
    [
        pytest.param((0, 13, 2), True, id="before 0.14"),
        pytest.param((0, 14, 0), False, id="from 0.14 on"),
        pytest.param((0, 33, 5), False, id="until 0.33"),
        pytest.param((0, 34, 0), True, id="from 0.34 on"),
        pytest.param(COMPATIBLE, True, id="version 1"),
    ],
)
def test_names_are_resolved_outside_of_fargate_clusters(version: Any, told: bool) -> None:
    """On Fargate the chart is told dnsPolicy: Default where it does not do so itself."""
    assert fargate_values(version, fargate=True) == ({"dnsPolicy": "Default"} if told else {})
    assert fargate_values(version, fargate=False) == {}


def test_imported_clusters_are_refused() -> None:
    """A cluster of another stack is refused in the words of the blueprints."""
    check_imported(imported=False)
    with pytest.raises(AddOnError) as caught:
        check_imported(imported=True)

    assert str(caught.value) == (
        "KarpenterAddOn cannot be used with imported clusters as it requires changes to the cluster "
        "authentication."
    )


def test_props_may_be_spelled_either_way() -> None:
    """Names of Python and names of the blueprints mean the same; a wrong one is answered by the right one."""
    one = read_props(KarpenterProps, {"subnetTags": {"a": "b"}}, {"weight": 3}, identifier=KARPENTER)
    other = read_props(KarpenterProps, None, {"subnet_tags": {"a": "b"}, "weight": 3}, identifier=KARPENTER)
    with pytest.raises(AddOnError) as unknown:
        read_props(KarpenterProps, {"subnetTag": {}}, {}, identifier=KARPENTER)
    with pytest.raises(AddOnError) as wrong:
        read_props(KarpenterProps, {"weight": "much"}, {}, identifier=KARPENTER)

    assert one == other
    assert (str(unknown.value), unknown.value.hint) == (
        "KarpenterAddOn has no prop subnetTag",
        "did you mean subnetTags?",
    )
    assert str(wrong.value) == "KarpenterAddOn: weight: expected a whole number, got a text"


def test_props_are_copies() -> None:
    """What users pass can serve for another stack: it is neither kept nor changed."""
    values = {"settings": {"batchMaxDuration": "5s"}}
    props = legacy(values=values)
    values["settings"]["batchMaxDuration"] = "9s"

    assert props.values == {"settings": {"batchMaxDuration": "5s"}}


def test_versions_are_read_with_and_without_v() -> None:
    """A version is three numbers, whatever stands before them."""
    assert version_of("v0.25") == version_of("0.25.0") == (0, 25, 0)


def test_without_cdk_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing an add-on where aws-cdk-lib or node is missing names what is missing and what helps."""
    monkeypatch.setattr("karpenter.cdk.find_spec", lambda _: None)
    with pytest.raises(ImportError) as library:
        from karpenter.cdk import KarpenterAddOn  # noqa: F401, PLC0415
    monkeypatch.setattr("karpenter.cdk.find_spec", str)
    monkeypatch.setattr("karpenter.cdk.shutil.which", lambda _: None)
    with pytest.raises(ImportError) as node:
        from karpenter.cdk import NodePool  # noqa: F401, PLC0415

    assert str(library.value) == (
        "karpenter.cdk needs aws-cdk-lib 2.275 or later; hint: pip install aws-cdk-lib"
    )
    assert str(node.value) == "karpenter.cdk needs node, on which CDK runs; hint: install Node.js 22 or later"
    with pytest.raises(AttributeError):
        _ = karpenter.cdk.nothing


def test_rules_and_planning_need_no_cdk() -> None:
    """The pure modules load neither CDK nor jsii."""
    code = "import sys, karpenter.cdk.planning; print({'aws_cdk', 'jsii', 'boto3'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)  # noqa: S603  ours

    assert done.stdout == "set()\n"
