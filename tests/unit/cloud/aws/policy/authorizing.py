"""
What IAM is asked when a call is made: one question for everything that the call uses, makes, changes or ends.

Follows the service authorization reference of each service. Calls are those that the embedded AWS has heard,
in order, so that what a resource is tagged with is known from the call that made it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from karpenter_local.aws.account import RecordedCall
from tests.unit.cloud.aws.policy.evaluator import Request

REGION: Final = "us-west-2"
_TAG_SPEC: Final = re.compile(r"TagSpecifications?\.(\d+)\.(ResourceType|Tags?\.(\d+)\.(Key|Value))")
_LT_TAG_SPEC: Final = re.compile(
    r"LaunchTemplateData\.TagSpecifications?\.(\d+)\.(ResourceType|Tags?\.(\d+)\.(Key|Value))"
)
_TAG: Final = re.compile(r"(?:Tags\.member|Tags?)\.(\d+)\.(Key|Value)")
_LAUNCHED: Final = ("instance", "volume", "fleet", "network-interface", "spot-instances-request")


class Authorized(msgspec.Struct, frozen=True):
    """A call, and everything that IAM is asked for it."""

    call: RecordedCall
    requests: tuple[Request, ...]


class Gate:
    """Turns calls into questions."""

    def __init__(self, *, account: str, cluster: str, role: str) -> None:
        self._account = account
        self._cluster_arn = f"arn:aws:eks:{REGION}:{account}:cluster/{cluster}"
        self._role = f"arn:aws:iam::{account}:role/{role}"
        self._templates: dict[str, dict[str, str]] = {}
        self._template_specs: dict[str, dict[str, dict[str, str]]] = {}
        self._profiles: dict[str, dict[str, str]] = {}
        self._instances: dict[str, str] = {}

    def questions(self, calls: Iterable[RecordedCall]) -> list[Authorized]:
        """Return what IAM is asked for each call."""
        return [Authorized(call, tuple(self._of(call))) for call in calls]

    def _of(self, call: RecordedCall) -> Iterator[Request]:
        action, said = f"{call.service}:{call.operation}", call.parameters
        special: dict[str, Callable[[str, Mapping[str, Any]], Iterator[Request]]] = {
            "ec2:CreateFleet": self._launch,
            "ec2:RunInstances": self._launch,
            "ec2:CreateLaunchTemplate": self._create_template,
            "ec2:DeleteLaunchTemplate": self._delete_template,
            "ec2:TerminateInstances": self._change_instance,
            "ec2:CreateTags": self._change_instance,
        }
        if action in special:
            yield from special[action](action, said)
        elif call.service == "ec2":
            yield Request(action=action, context={"aws:RequestedRegion": REGION})
        elif call.service == "iam":
            yield from self._iam(action, said)
        else:
            yield self._other(action, said)

    def _launch(self, action: str, said: Mapping[str, Any]) -> Iterator[Request]:
        name = next(value for key, value in said.items() if key.endswith("LaunchTemplateName"))
        yield self._ec2(action, "launch-template", _resource(self._templates[name]))
        for kind in ("security-group", "subnet", "capacity-reservation", "placement-group"):
            yield self._ec2(action, kind)
        for kind in ("image", "snapshot"):
            yield Request(action=action, resource=f"arn:aws:ec2:{REGION}::{kind}/1")
        specs = {**self._template_specs[name], **_specs(said, _TAG_SPEC)}
        for kind in _LAUNCHED:
            if kind in specs:
                self._instances.update(specs[kind] if kind == "instance" else {})
                yield from self._tagged(action, kind, specs[kind])
        yield self._pass_role()

    def _create_template(self, action: str, said: Mapping[str, Any]) -> Iterator[Request]:
        name = said["LaunchTemplateName"]
        self._templates[name] = _specs(said, _TAG_SPEC)["launch-template"]
        self._template_specs[name] = _specs(said, _LT_TAG_SPEC)
        yield from self._tagged(action, "launch-template", self._templates[name])

    def _delete_template(self, action: str, said: Mapping[str, Any]) -> Iterator[Request]:
        yield self._ec2(action, "launch-template", _resource(self._templates[said["LaunchTemplateName"]]))

    def _change_instance(self, action: str, said: Mapping[str, Any]) -> Iterator[Request]:
        context = {**_resource(self._instances), **_request(_tags(said, _TAG))}
        yield self._ec2(action, "instance", context)

    def _tagged(self, action: str, kind: str, tags: Mapping[str, str]) -> Iterator[Request]:
        """Yield the question whether something may be made, and whether it may be tagged on the way."""
        yield self._ec2(action, kind, _request(tags))
        made_by = {"ec2:CreateAction": action.partition(":")[2]}
        yield self._ec2("ec2:CreateTags", kind, {**_request(tags), **made_by})

    def _iam(self, action: str, said: Mapping[str, Any]) -> Iterator[Request]:
        name = said.get("InstanceProfileName", "")
        resource = f"arn:aws:iam::{self._account}:instance-profile/{name}"
        if action in {"iam:GetInstanceProfile", "iam:ListInstanceProfiles"}:
            yield Request(action=action, resource=resource if name else "*")
            return
        if action == "iam:CreateInstanceProfile":
            tags = self._profiles[name] = _tags(said, _TAG)
            yield Request(action=action, resource=resource, context=_request(tags))
            yield Request(
                action="iam:TagInstanceProfile",
                resource=resource,
                context={**_request(tags), **_resource(tags)},
            )
            return
        yield Request(action=action, resource=resource, context=_resource(self._profiles[name]))
        if action == "iam:AddRoleToInstanceProfile":
            yield self._pass_role()

    def _other(self, action: str, said: Mapping[str, Any]) -> Request:
        match action.partition(":")[0]:
            case "eks":
                return Request(action=action, resource=self._cluster_arn)
            case "sqs":
                queue = said.get("QueueName") or str(said["QueueUrl"]).rpartition("/")[2]
                return Request(action=action, resource=f"arn:aws:sqs:{REGION}:{self._account}:{queue}")
            case "ssm":
                return Request(action=action, resource=f"arn:aws:ssm:{REGION}::parameter{said['Name']}")
            case "arc-zonal-shift":
                asked = str(said["resourceIdentifier"])
                return Request(action=action, context={"arc-zonal-shift:ResourceIdentifier": asked})
            case _:
                return Request(action=action)

    def _pass_role(self) -> Request:
        context = {"iam:PassedToService": "ec2.amazonaws.com"}
        return Request(action="iam:PassRole", resource=self._role, context=context)

    def _ec2(self, action: str, kind: str, context: Mapping[str, Any] | None = None) -> Request:
        resource = f"arn:aws:ec2:{REGION}:{self._account}:{kind}/1"
        return Request(action=action, resource=resource, context=context or {})


def _resource(tags: Mapping[str, str]) -> dict[str, Any]:
    return {f"aws:ResourceTag/{key}": value for key, value in tags.items()}


def _request(tags: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {f"aws:RequestTag/{key}": value for key, value in tags.items()}
    return {**found, "aws:TagKeys": tuple(tags)}


def _tags(said: Mapping[str, Any], pattern: re.Pattern[str]) -> dict[str, str]:
    """Return the tags of a request that comes as a form."""
    parts: dict[str, dict[str, str]] = {}
    for key, value in said.items():
        found = pattern.fullmatch(key)
        if found is not None:
            parts.setdefault(found[1], {})[found[2]] = value
    return {each["Key"]: each.get("Value", "") for each in parts.values()}


def _specs(said: Mapping[str, Any], pattern: re.Pattern[str]) -> dict[str, dict[str, str]]:
    """Return tags by the sort of resource that they are for."""
    kinds: dict[str, str] = {}
    parts: dict[str, dict[str, dict[str, str]]] = {}
    for key, value in said.items():
        found = pattern.fullmatch(key)
        if found is None:
            continue
        if found[2] == "ResourceType":
            kinds[found[1]] = value
        else:
            parts.setdefault(found[1], {}).setdefault(found[3], {})[found[4]] = value
    return {
        kind: {tag["Key"]: tag.get("Value", "") for tag in parts.get(number, {}).values()}
        for number, kind in kinds.items()
    }
