"""
The log of calls to the embedded AWS, as CloudTrail tells it: what was asked, of what, by whom, with what end.

Pure: from the calls that an account remembers to entries that people and tests read. A run that must change
nothing is proved by the absence of entries that changed anything::

    assert not [each for each in trail(account.calls()) if each.changed]
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from karpenter_local.aws.account import RecordedCall

_READS: Final = re.compile(
    r"(Describe|Get|List|Lookup|BatchGet|Search|Simulate|Validate|Estimate|Detect|Test|Receive|Assume)"
)
"""How the names of operations begin that change nothing."""

_NAMES: Final = (
    "RoleName",
    "InstanceProfileName",
    "PolicyArn",
    "PolicyName",
    "AWSServiceName",
    "OpenIDConnectProviderArn",
    "Url",
    "QueueUrl",
    "QueueName",
    "Rule",
    "StackName",
    "LaunchTemplateName",
    "LaunchTemplateId",
    "GroupName",
    "RoleArn",
    "clusterName",
    "principalArn",
    "policyArn",
    "addonName",
    "associationId",
    "nodegroupName",
    "resourceArn",
    "resourceIdentifier",
    "name",
    "Name",
)
"""Parameters that name what a call is about, those that say most in front."""

_NUMBERED: Final = re.compile(r"(InstanceId|ResourceId|SubnetId|GroupId|ImageId|VpcId)\.\d+")


class TrailEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One call."""

    event_time: str
    event_source: str
    """The service, such as ``ec2.amazonaws.com``."""

    event_name: str
    """The operation, such as ``CreateFleet``."""

    read_only: bool
    principal: str
    """The ARN of who called."""

    resources: tuple[str, ...] = ()
    """What the call names: ids, names or ARNs."""

    error_code: str = ""
    request_parameters: dict[str, Any] = {}

    @property
    def action(self) -> str:
        """The action that policies name, such as ``ec2:CreateFleet``."""
        return f"{self.event_source.partition('.')[0]}:{self.event_name}"

    @property
    def changed(self) -> bool:
        """Whether the call changed something: it was no read, and was not refused."""
        return not self.read_only and not self.error_code


def trail(calls: Iterable[RecordedCall]) -> Iterator[TrailEntry]:
    for call in calls:
        yield TrailEntry(
            event_time=call.time.strftime("%Y-%m-%dT%H:%M:%SZ") if call.time is not None else "",
            event_source=f"{call.service}.amazonaws.com",
            event_name=call.operation,
            read_only=is_read(call.operation),
            principal=call.principal,
            resources=tuple(dict.fromkeys(_resources(call.parameters))),
            error_code=call.error,
            request_parameters={
                key: value for key, value in call.parameters.items() if key not in {"Action", "Version"}
            },
        )


def is_read(operation: str) -> bool:
    return _READS.match(operation) is not None


def _resources(parameters: Mapping[str, Any]) -> Iterator[str]:
    for name in _NAMES:
        value = parameters.get(name)
        if isinstance(value, str) and value:
            yield value
    for key, value in parameters.items():
        if _NUMBERED.fullmatch(key):
            yield str(value)
