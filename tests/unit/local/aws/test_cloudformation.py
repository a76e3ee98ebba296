"""CloudFormation: what templates say, and what becomes of their stacks."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from karpenter_local.aws.cloudformation.template import TemplateScope, given, holds, order, parse, resolve
from karpenter_local.aws.wire import AwsError
from tests.unit.local.aws.bare import code_of, shared_site

TEMPLATE = """
Description: What Karpenter needs.
Parameters:
  Cluster: {Type: String}
  Retention: {Type: Number, Default: 300}
Conditions:
  Ours: !Equals [!Ref Cluster, blue]
Resources:
  Role:
    Type: AWS::IAM::Role
    Properties:
      RoleName: !Sub "NodeRole-${Cluster}"
      AssumeRolePolicyDocument:
        Version: 2012-10-17
        Statement:
          - {Effect: Allow, Action: sts:AssumeRole, Principal: {Service: !Sub "ec2.${AWS::URLSuffix}"}}
      ManagedPolicyArns:
        - !Sub "arn:${AWS::Partition}:iam::aws:policy/AmazonEKSWorkerNodePolicy"
        - !Sub "arn:${AWS::Partition}:iam::aws:policy/AmazonEKS_CNI_Policy"
  Profile:
    Type: AWS::IAM::InstanceProfile
    Properties: {InstanceProfileName: !Sub "Profile-${Cluster}", Roles: [!Ref Role]}
  Policy:
    Type: AWS::IAM::ManagedPolicy
    Properties:
      ManagedPolicyName: !Sub "Policy-${Cluster}"
      Roles: [!Ref Role]
      PolicyDocument: !Sub |
        {"Version": "2012-10-17", "Statement": [
          {"Effect": "Allow", "Action": "sqs:ReceiveMessage", "Resource": "${Queue.Arn}"}]}
  Inline:
    Type: AWS::IAM::Policy
    Properties:
      PolicyName: inline
      Roles: [!Ref Role]
      PolicyDocument:
        Version: 2012-10-17
        Statement: [{Effect: Allow, Action: "ec2:Describe*", Resource: "*"}]
  Queue:
    Type: AWS::SQS::Queue
    Properties:
      QueueName: !Sub "queue-${Cluster}"
      MessageRetentionPeriod: !Ref Retention
      SqsManagedSseEnabled: true
  QueuePolicy:
    Type: AWS::SQS::QueuePolicy
    Properties:
      Queues: [!Ref Queue]
      PolicyDocument:
        Id: EC2InterruptionPolicy
        Statement:
          - Effect: Allow
            Principal: {Service: [events.amazonaws.com, sqs.amazonaws.com]}
            Action: sqs:SendMessage
            Resource: !GetAtt Queue.Arn
  Rule:
    Type: AWS::Events::Rule
    Properties:
      Name: !Sub "rule-${Cluster}"
      EventPattern: {source: [aws.health], detail-type: [AWS Health Event]}
      Targets: [{Id: queue, Arn: !GetAtt Queue.Arn}]
  Never:
    Type: AWS::SQS::Queue
    Condition: Ours
    Properties: {QueueName: never}
Outputs:
  RoleArn: {Value: !GetAtt Role.Arn}
"""
BOTH = ["CAPABILITY_NAMED_IAM"]


def cloudformation() -> Any:
    return shared_site().client("cloudformation")


def asked(cluster: str, text: str = TEMPLATE, **more: str) -> dict[str, Any]:
    """Return what creating or updating the stack of a cluster is given."""
    values = {"Cluster": cluster, **more}
    return {
        "StackName": cluster,
        "TemplateBody": text,
        "Capabilities": BOTH,
        "Parameters": [{"ParameterKey": key, "ParameterValue": value} for key, value in values.items()],
    }


def status(stack: str) -> str:
    return str(cloudformation().describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"])


def queue_attributes(cluster: str) -> dict[str, str]:
    sqs = shared_site().client("sqs")
    url = sqs.get_queue_url(QueueName=f"queue-{cluster}")["QueueUrl"]
    found: dict[str, str] = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return found


def attached(cluster: str) -> set[str]:
    """Return the managed policies of the role of a stack."""
    found = shared_site().client("iam").list_attached_role_policies(RoleName=f"NodeRole-{cluster}")
    return {each["PolicyName"] for each in found["AttachedPolicies"]}


def test_a_stack_makes_everything() -> None:
    """Roles get their policies, queues theirs, rules their targets; events and outputs tell of it."""
    stack = cloudformation()
    stack.create_stack(**asked("one"))
    stack.get_waiter("stack_create_complete").wait(StackName="one")

    assert attached("one") == {"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "Policy-one"}
    iam, events = shared_site().client("iam"), shared_site().client("events")
    assert iam.list_role_policies(RoleName="NodeRole-one")["PolicyNames"] == ["inline"]
    (role,) = iam.get_instance_profile(InstanceProfileName="Profile-one")["InstanceProfile"]["Roles"]
    assert role["RoleName"] == "NodeRole-one"
    found = queue_attributes("one")
    assert (found["MessageRetentionPeriod"], found["SqsManagedSseEnabled"]) == ("300", "true")
    assert json.loads(found["Policy"])["Id"] == "EC2InterruptionPolicy"
    (target,) = events.list_targets_by_rule(Rule="rule-one")["Targets"]
    assert target["Arn"] == found["QueueArn"]
    (told,) = stack.describe_stacks(StackName="one")["Stacks"]
    assert told["Outputs"] == [{"OutputKey": "RoleArn", "OutputValue": role["Arn"]}]
    names = [
        each["LogicalResourceId"] for each in stack.describe_stack_events(StackName="one")["StackEvents"]
    ]
    assert (names[0], names[-1]) == ("one", "one")
    kinds = {
        each["LogicalResourceId"]
        for each in stack.list_stack_resources(StackName="one")["StackResourceSummaries"]
    }
    assert kinds == {"Role", "Profile", "Policy", "Inline", "Queue", "QueuePolicy", "Rule"}


def test_a_stack_is_changed() -> None:
    """What a new template says is done to what exists; the same once more changes nothing."""
    stack = cloudformation()
    stack.create_stack(**asked("two"))
    changed = TEMPLATE.replace("sqs:ReceiveMessage", "sqs:*").replace(
        '        - !Sub "arn:${AWS::Partition}:iam::aws:policy/AmazonEKS_CNI_Policy"\n', ""
    )
    stack.update_stack(**asked("two", changed, Retention="600"))

    assert status("two") == "UPDATE_COMPLETE"
    assert attached("two") == {"AmazonEKSWorkerNodePolicy", "Policy-two"}
    assert queue_attributes("two")["MessageRetentionPeriod"] == "600"
    iam = shared_site().client("iam")
    arn = f"arn:aws:iam::{shared_site().account.number}:policy/Policy-two"
    assert iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"] == "v2"
    with pytest.raises(ClientError, match="No updates are to be performed"):
        stack.update_stack(**asked("two", changed, Retention="600"))


def test_a_change_that_fails_is_undone() -> None:
    """After a change that cannot be made, everything is as before."""
    stack = cloudformation()
    stack.create_stack(**asked("three"))
    stack.update_stack(**asked("three", TEMPLATE.replace("AmazonEKS_CNI_Policy", "Nothing"), Retention="600"))

    assert status("three") == "UPDATE_ROLLBACK_COMPLETE"
    assert attached("three") == {"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "Policy-three"}
    assert queue_attributes("three")["MessageRetentionPeriod"] == "300"


def test_a_stack_that_cannot_be_made_leaves_nothing() -> None:
    """What was made before the failure is deleted, and an event tells what failed."""
    stack = cloudformation()
    stack.create_stack(**asked("four", TEMPLATE.replace("AmazonEKS_CNI_Policy", "Nothing")))

    assert status("four") == "ROLLBACK_COMPLETE"
    events = stack.describe_stack_events(StackName="four")["StackEvents"]
    (failed,) = [each for each in events if each["ResourceStatus"] == "CREATE_FAILED"]
    assert (failed["LogicalResourceId"], "Nothing does not exist" in failed["ResourceStatusReason"]) == (
        "Role",
        True,
    )
    with pytest.raises(ClientError):
        shared_site().client("iam").get_role(RoleName="NodeRole-four")


def test_a_stack_is_deleted() -> None:
    """Everything goes, the stack is listed as deleted, and can no longer be called by its name."""
    stack = cloudformation()
    stack.create_stack(**asked("five"))
    stack.delete_stack(StackName="five")

    with pytest.raises(ClientError, match="Stack with id five does not exist"):
        stack.describe_stacks(StackName="five")
    listed = stack.list_stacks(StackStatusFilter=["DELETE_COMPLETE"])["StackSummaries"]
    assert "five" in {each["StackName"] for each in listed}
    with pytest.raises(ClientError):
        queue_attributes("five")
    policies = shared_site().client("iam").list_policies(Scope="Local")["Policies"]
    assert "Policy-five" not in {each["PolicyName"] for each in policies}
    stack.delete_stack(StackName="five")


def test_a_stack_with_something_that_cannot_go_stays() -> None:
    """A role that was given more elsewhere cannot be deleted, which the stack tells."""
    stack = cloudformation()
    stack.create_stack(**asked("six"))
    more = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
    shared_site().client("iam").attach_role_policy(RoleName="NodeRole-six", PolicyArn=more)
    stack.delete_stack(StackName="six")

    assert status("six") == "DELETE_FAILED"
    shared_site().client("iam").detach_role_policy(RoleName="NodeRole-six", PolicyArn=more)
    stack.delete_stack(StackName="six")
    with pytest.raises(ClientError, match="does not exist"):
        status("six")


def test_change_sets() -> None:
    """A change set tells what it would do, and does it; one without changes fails, as on AWS."""
    stack = cloudformation()
    made = stack.create_change_set(**asked("seven"), ChangeSetName="first", ChangeSetType="CREATE")
    told = stack.describe_change_set(ChangeSetName=made["Id"])
    actions = {each["ResourceChange"]["Action"] for each in told["Changes"]}
    assert (told["Status"], actions) == ("CREATE_COMPLETE", {"Add"})
    stack.execute_change_set(ChangeSetName="first", StackName="seven")
    assert status("seven") == "CREATE_COMPLETE"

    stack.create_change_set(**asked("seven"), ChangeSetName="second")
    told = stack.describe_change_set(ChangeSetName="second", StackName="seven")
    assert (told["Status"], "didn't contain changes" in told["StatusReason"]) == ("FAILED", True)
    stack.create_change_set(**asked("seven", Retention="900"), ChangeSetName="third")
    stack.execute_change_set(ChangeSetName="third", StackName="seven")
    assert queue_attributes("seven")["MessageRetentionPeriod"] == "900"


def _with(resource: str) -> str:
    return f"Resources:\n  Thing:\n{resource}"


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        pytest.param({"TemplateBody": "a: ["}, "ValidationError", "Template format error", id="no YAML"),
        pytest.param({"TemplateBody": "{}"}, "ValidationError", "At least one Resources", id="no resources"),
        pytest.param({"Parameters": []}, "ValidationError", r"\[Cluster\] must have values", id="no value"),
        pytest.param(
            {"Capabilities": []},
            "InsufficientCapabilitiesException",
            "CAPABILITY_NAMED_IAM",
            id="no capability",
        ),
        pytest.param(
            {"TemplateBody": TEMPLATE.replace("!Ref Role", "!Ref Rolle")},
            "ValidationError",
            r"Unresolved resource dependencies \[Rolle\]",
            id="no such resource",
        ),
    ],
)
def test_requests_that_are_refused(request_: dict[str, Any], code: str, message: str) -> None:
    """A template that cannot be used is refused before anything is made."""
    with pytest.raises(ClientError, match=message) as caught:
        cloudformation().create_stack(**{**asked("refused"), **request_})
    assert code_of(caught.value) == code
    with pytest.raises(ClientError):
        status("refused")


def test_types_that_are_not_known_fail() -> None:
    """A resource of a type that nothing here makes fails, and is not passed over in silence."""
    cloudformation().create_stack(
        StackName="eight", TemplateBody=_with("    Type: AWS::S3::Bucket"), Capabilities=BOTH
    )

    assert status("eight") == "ROLLBACK_COMPLETE"


SCOPE = TemplateScope(
    template=parse(
        "Resources: {A: {Type: T}}\nMappings: {M: {us: {size: 3}}}\n"
        "Conditions: {Same: !Equals [a, a], Other: !Not [!Condition Same]}"
    ),
    values={"Name": "blue", "List": ["a", "b"], "AWS::Region": "us-west-2"},
    physical=lambda name: f"id-of-{name}",
    attribute=lambda name, attribute: f"{attribute}-of-{name}",
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("!Ref Name", "blue", id="a parameter"),
        pytest.param("!Ref A", "id-of-A", id="a resource"),
        pytest.param("!GetAtt A.Arn", "Arn-of-A", id="an attribute"),
        pytest.param("!GetAtt [A, B.C]", "B.C-of-A", id="a deep attribute"),
        pytest.param('!Sub "${Name}/${A}/${A.Arn}/${!Kept}"', "blue/id-of-A/Arn-of-A/${Kept}", id="a text"),
        pytest.param('!Sub ["${x}-${Name}", {x: !Ref A}]', "id-of-A-blue", id="a text with own names"),
        pytest.param("!Join ['-', [a, !Ref Name]]", "a-blue", id="join"),
        pytest.param("!Select [1, !Ref List]", "b", id="select"),
        pytest.param("!Split [':', 'a:b']", ["a", "b"], id="split"),
        pytest.param("!FindInMap [M, us, size]", 3, id="a mapping"),
        pytest.param("!If [Same, 1, 2]", 1, id="a condition"),
        pytest.param("{a: !If [Other, 1, !Ref AWS::NoValue], b: 2}", {"b": 2}, id="nothing"),
        pytest.param("!GetAZs ''", ["us-west-2a", "us-west-2b", "us-west-2c"], id="zones"),
        pytest.param("Version: 2012-10-17", {"Version": "2012-10-17"}, id="a date is a text"),
        pytest.param('{"Fn::Base64": "abc"}', "YWJj", id="the long form"),
    ],
)
def test_functions_of_templates(text: str, expected: object) -> None:
    """Intrinsic functions are worked out, in the short form and in the long one."""
    written = parse(f"Resources: {{A: {{Type: T}}}}\nOutputs:\n  V:\n    Value:\n      {text}")

    assert resolve(SCOPE, written.outputs["V"]["Value"]) == expected


def test_conditions_and_parameters() -> None:
    """Conditions hold or not; parameters have defaults, allowed values and lists."""
    template = parse(
        "Resources: {A: {Type: T}}\nParameters:\n  P: {Type: String, Default: x, AllowedValues: [x, y]}\n"
        "  L: {Type: CommaDelimitedList, Default: 'a, b'}"
    )

    assert (holds(SCOPE, "Same"), holds(SCOPE, "Other")) == (True, False)
    assert given(template, {}) == {"P": "x", "L": ["a", "b"]}
    with pytest.raises(AwsError, match="AllowedValues"):
        given(template, {"P": "z"})
    with pytest.raises(AwsError, match="do not exist in the template"):
        given(template, {"Q": "z"})


def test_resources_come_in_the_order_of_their_needs() -> None:
    """Each comes after what it refers to; a circle is refused."""
    text = "Resources:\n  A: {Type: T, Properties: {x: !Ref B}}\n  B: {Type: T, DependsOn: C}\n  C: {Type: T}"
    template = parse(text)

    assert order(template, TemplateScope(template=template, values={})) == ["C", "B", "A"]
    circle = parse(text.replace("C: {Type: T}", "C: {Type: T, DependsOn: [A]}"))
    with pytest.raises(AwsError, match="Circular dependency"):
        order(circle, TemplateScope(template=circle, values={}))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Resources: &r\n  A: {Type: B}\nMore: *r", id="an alias"),
        pytest.param("Resources: !!bool x", id="a tag that does not fit"),
        pytest.param("Resources: !!timestamp x", id="a time that is none"),
        pytest.param("[" * 9000, id="brackets"),
        pytest.param('{"a":' * 9000, id="braces"),
    ],
)
def test_a_text_that_is_no_template_is_refused(text: str) -> None:
    """It is an error of validation, as at AWS, which knows no aliases either."""
    with pytest.raises(AwsError, match="Template format error"):
        parse(text)
