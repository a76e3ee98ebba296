"""
DescribeInstances and DescribeInstanceStatus: with a lag where one is set, and with impaired instances.

EC2 is eventually consistent: an instance may be missing from answers right after its launch
(https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html). Here it is missing only for the
lag that was set. Each function is a method of a response class of moto, installed by :mod:`.answers`.
"""

from __future__ import annotations

import copy
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any, Final

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError, InvalidInstanceIdError

from karpenter_local.aws.account import ACCOUNTS, Account, InstanceImpairment
from karpenter_local.aws.instancestate import RUNNING

if TYPE_CHECKING:
    from collections.abc import Callable


_CHECKS: Final = {"instance": "InstanceStatus", "system": "SystemStatus"}
_WELL: Final[dict[str, Any]] = {
    "AvailabilityZone": "",
    "InstanceState": {"Name": "", "Code": 0},
    "InstanceStatus": {"Status": "", "Details": []},
    "SystemStatus": {"Status": "", "Details": []},
    "Events": [],
}


def describe_instances(self: Any, plain: Callable[[Any], ActionResult]) -> ActionResult:
    """Return the instances that EC2 knows of by now, and that have every key that is asked for."""
    account = ACCOUNTS[self.current_account]
    for number in self._get_param("InstanceIds", []):
        if number in _unseen(account, self.ec2_backend):
            raise InvalidInstanceIdError(number)
    answer: Any = plain(self).result
    unseen = _unseen(account, self.ec2_backend)
    wanted = [set(each["Values"]) for each in self._get_param("Filters", []) if each["Name"] == "tag-key"]
    shown = []
    for reservation in answer["Reservations"]:
        kept = copy.copy(reservation)
        kept.instances = [
            each
            for each in reservation.instances
            if each.id not in unseen
            and all(keys & {tag["key"] for tag in each.get_tags()} for keys in wanted)
        ]
        if kept.instances:
            shown.append(kept)
    return ActionResult({**answer, "Reservations": shown})


def describe_instance_status(self: Any) -> ActionResult:
    account = ACCOUNTS[self.current_account]
    filters = self._filters_from_querystring()
    ids = self._get_param("InstanceIds", [])
    statuses = [
        _status(each, account.ailments.get(each.id))
        for each in self.ec2_backend.all_instances()
        if each.state == RUNNING and (not ids or each.id in ids)
    ]
    for name in filters:
        _field(_WELL, name)  # what EC2 does not know is refused, whether or not anything runs
    return ActionResult(
        {
            "InstanceStatuses": [
                each
                for each in statuses
                if all(_field(each, name) & set(values) for name, values in filters.items())
            ]
        }
    )


def check_instances(self: Any) -> None:
    """
    Refuse tags for instances that are not there.

    Raises:
        InvalidInstanceIdError: naming one.
    """
    account = ACCOUNTS[self.current_account]
    unseen = _unseen(account, self.ec2_backend)
    known = {each.id for each in self.ec2_backend.all_instances()} - unseen
    for number in self._get_param("Resources", []):
        if number.startswith("i-") and number not in known:
            raise InvalidInstanceIdError(number)


def _unseen(account: Account, backend: Any) -> set[str]:
    """Return the instances that were launched so lately that EC2 does not show them."""
    if not account.lag:
        return set()
    horizon = account.now() - timedelta(seconds=account.lag)
    return {each.id for each in backend.all_instances() if each.launch_time.replace(tzinfo=UTC) > horizon}


def _status(instance: Any, ailment: InstanceImpairment | None) -> dict[str, Any]:
    told: dict[str, Any] = {
        "InstanceId": instance.id,
        "AvailabilityZone": instance.placement.zone,
        "InstanceState": {"Name": instance.state, "Code": instance.state_code},
        "InstanceStatus": instance.instance_status,
        "SystemStatus": instance.system_status,
        "Events": [],
    }
    if ailment is None:
        return told
    field = _CHECKS.get(ailment.what)
    if field is None:
        event = {"Code": ailment.what, "Description": "on request", "NotBefore": ailment.since}
        return {**told, "Events": [event]}
    detail = {"Name": "reachability", "Status": "failed", "ImpairedSince": ailment.since}
    return {**told, field: {"Status": "impaired", "Details": [detail]}}


def _field(status: dict[str, Any], name: str) -> set[str]:
    """
    Return what a status has in a field that it can be filtered by.

    Raises:
        EC2ClientError: EC2 does not filter by that.
    """
    match name.split("."):
        case ["availability-zone"]:
            return {status["AvailabilityZone"]}
        case ["instance-state-name"]:
            return {status["InstanceState"]["Name"]}
        case ["instance-state-code"]:
            return {str(status["InstanceState"]["Code"])}
        case ["instance-status" | "system-status" as check, "status"]:
            return {status[_CHECKS[check.partition("-")[0]]]["Status"]}
        case ["instance-status" | "system-status" as check, "reachability"]:
            return {each["Status"] for each in status[_CHECKS[check.partition("-")[0]]]["Details"]}
        case ["event", "code" | "description" as field]:
            return {each[field.capitalize()] for each in status["Events"]}
        case _:
            raise EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid")
