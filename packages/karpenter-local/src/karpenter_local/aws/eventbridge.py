"""
EventBridge in front of queues: an event reaches a queue only if a rule lets it.

The rule has to be enabled, its pattern has to match, the queue has to be one of its targets, and the policy
of the queue has to let EventBridge send. moto matches patterns; it neither looks at the state of rules nor at
the policies of queues, which is done here. :func:`install` puts that in its place.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import structlog
from moto.events.models import Rule, events_backends
from moto.sqs.models import Queue, sqs_backends

from karpenter_local.aws.account import ACCOUNTS, Account

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Send = Callable[[Account, str, str], None]

log = structlog.stdlib.get_logger(__name__)

RULES: Final[Mapping[str, tuple[str, str]]] = {
    "ScheduledChange": ("aws.health", "AWS Health Event"),
    "SpotInterruption": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "Rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "InstanceStateChange": ("aws.ec2", "EC2 Instance State-change Notification"),
    "CapacityReservationInterruption": ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
}
"""The events that Karpenter's queue is subscribed to: source and detail type.

https://karpenter.sh/docs/reference/cloudformation/
"""

_SERVICE: Final = "events.amazonaws.com"
_ACTION: Final = "sqs:SendMessage"
_PLAIN: Final[dict[str, Any]] = {}


def publish(account: Account, event: dict[str, Any]) -> None:
    """Offer an event to every rule of the default bus."""
    bus = events_backends[account.number][account.region].event_buses["default"]
    for rule in tuple(bus.rules.values()):
        rule.send_to_targets(event)  # type: ignore[arg-type]  # its time is a text already


def subscribe(account: Account, queue: str, *, prefix: str) -> None:
    """Make the rules that Karpenter's installation makes, and let them send to a queue."""
    arn = f"arn:aws:sqs:{account.region}:{account.number}:{queue}"
    bus = events_backends[account.number][account.region]
    for name, (source, kind) in RULES.items():
        pattern = json.dumps({"source": [source], "detail-type": [kind]})
        rule = bus.put_rule(f"{prefix}-{name}", event_pattern=pattern)
        rule.put_targets([{"Id": "KarpenterInterruptionQueueTarget", "Arn": arn}])
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": [_SERVICE, "sqs.amazonaws.com"]},
        "Action": _ACTION,
        "Resource": arn,
    }
    made: Any = sqs_backends[account.number][account.region].queues[queue]
    made.policy = json.dumps(
        {"Version": "2012-10-17", "Id": "EC2InterruptionPolicy", "Statement": [statement]}
    )


def may_send(policy: str | None, *, queue: str, rule: str, account: str) -> bool:
    """Say whether the policy of a queue lets EventBridge send to it for a rule; both are named by ARN."""
    statements = json.loads(policy)["Statement"] if policy else []
    if isinstance(statements, dict):
        statements = [statements]
    context = {"aws:sourcearn": rule, "aws:sourceaccount": account, "aws:securetransport": "true"}
    meant = [each for each in statements if _is_meant(each, queue, context)]
    allowed = any(each["Effect"] == "Allow" for each in meant)
    return allowed and not any(each["Effect"] == "Deny" for each in meant)


def _is_meant(statement: Mapping[str, Any], queue: str, context: Mapping[str, str]) -> bool:
    """Say whether a statement is about EventBridge sending to a queue."""
    return (
        _is_principal(statement.get("Principal"))
        and _matches(_ACTION.lower(), (each.lower() for each in _listed(statement.get("Action"))))
        and _matches(queue, _listed(statement.get("Resource", "*")))
        and all(
            _holds(operator, key, _listed(values), context)
            for operator, asked in (statement.get("Condition") or {}).items()
            for key, values in asked.items()
        )
    )


def _is_principal(principal: Any) -> bool:
    if isinstance(principal, str):
        return principal == "*"
    named = principal or {}
    return _SERVICE in _listed(named.get("Service")) or "*" in _listed(named.get("AWS"))


def _holds(operator: str, key: str, values: Iterable[str], context: Mapping[str, str]) -> bool:
    """Say whether a condition holds; one that is not known here does not."""
    found = context.get(key.lower())
    if found is None:
        return operator.endswith("IfExists")
    match operator.removesuffix("IfExists"):
        case "ArnEquals" | "ArnLike" | "StringLike":
            return _matches(found, values)
        case "StringEquals" | "Bool":
            return found in {str(each).lower() if operator.startswith("Bool") else each for each in values}
        case _:
            return False


def _matches(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, each) for each in patterns)


def _listed(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]


def _send_to_targets(self: Any, event: Any, transform_input: bool = True) -> None:
    """Send an event to the targets of a rule, if it is enabled and matches; a method of moto's rules."""
    del transform_input
    account = ACCOUNTS.get(self.account_id)
    if account is None or self.state == "DISABLED" or not self.event_pattern.matches_event(event):
        return
    told = {key: value for key, value in event.items() if key != "ingestion-time"}
    if isinstance(told["time"], int | float):
        told["time"] = datetime.fromtimestamp(told["time"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for target in tuple(self.targets):
        why_not = _send(account, self, target, told)
        if why_not:
            log.warning("event.not_delivered", rule=self.name, target=target["Arn"], because=why_not)


def _send(account: Account, rule: Any, target: Mapping[str, Any], event: dict[str, Any]) -> str:
    """Send an event to a target of a rule, and return why that cannot be, if it cannot."""
    _, _, service, region, owner, name = target["Arn"].split(":", 5)
    if (service, region, owner) != ("sqs", account.region, account.number):
        return "the target is no queue of this account and region"
    queue = sqs_backends[account.number][account.region].queues.get(name)
    if queue is None:
        return "there is no such queue"
    if not may_send(queue.policy, queue=queue.queue_arn, rule=rule.arn, account=account.number):
        return f"the policy of the queue does not let {_SERVICE} do {_ACTION}"
    send: Send = _PLAIN["send"]
    send(account, name, _input(target, event))
    return ""


def _input(target: Mapping[str, Any], event: dict[str, Any]) -> str:
    """Return what a target is sent: the event, a part of it, a text made from it, or a fixed text."""
    if target.get("Input"):
        return str(target["Input"])
    if target.get("InputPath"):
        return json.dumps(_at(target["InputPath"], event))
    transformer = target.get("InputTransformer")
    if not transformer:
        return json.dumps(event)
    text = str(transformer["InputTemplate"])
    for name, path in transformer.get("InputPathsMap", {}).items():
        found = _at(path, event)
        text = text.replace(f"<{name}>", found if isinstance(found, str) else json.dumps(found))
    return text


def _at(path: str, event: dict[str, Any]) -> Any:
    """Return what is at a path such as ``$.detail.instance-id``."""
    found: Any = event
    for step in path.removeprefix("$").split("."):
        if step:
            found = found.get(step) if isinstance(found, dict) else None
    return found


def _queue_attributes(self: Any) -> dict[str, Any]:
    """Return the attributes of a queue; times are whole seconds, as SQS tells them."""
    found: dict[str, Any] = _PLAIN["attributes"].fget(self)
    return {key: int(each) if key.endswith("Timestamp") else each for key, each in found.items()}


@cache
def install(send: Send) -> None:
    """Put our way to queues in place of moto's; `send` puts a text into a queue."""
    _PLAIN["send"] = send
    _PLAIN["attributes"] = Queue.attributes
    setattr(Rule, "send_to_targets", _send_to_targets)  # noqa: B010  a method of theirs
    setattr(Queue, "attributes", property(_queue_attributes))  # noqa: B010  likewise
