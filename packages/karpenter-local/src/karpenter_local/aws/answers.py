"""
Answers of EC2 and SSM that the imitation does not give, or gives wrongly.

:func:`install` puts them in its place, once for the whole process. Each is a method of a response class of
the imitation: ``self`` knows the request, its account and the backend.
"""

from __future__ import annotations

import re
from datetime import UTC, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from moto.core.responses import ActionResult
from moto.core.types import Base64EncodedString
from moto.core.utils import utcnow
from moto.ec2.exceptions import EC2ClientError, InvalidLaunchTemplateNameNotFoundError
from moto.ec2.models.amis import AmiBackend
from moto.ec2.models.instances import Instance
from moto.ec2.responses import EC2Response
from moto.ec2.utils import convert_tag_spec
from moto.ssm.models import Parameter, ParameterDict

from karpenter_local.apiserver.notice import KUBERNETES
from karpenter_local.aws import eventbridge, iam, nodegroups, repeated
from karpenter_local.aws.account import ACCOUNTS, Account
from karpenter_local.aws.commitments import describe_reserved_instances
from karpenter_local.aws.describeinstances import (
    check_instances,
    describe_instance_status,
    describe_instances,
)
from karpenter_local.aws.events import InstanceEnded
from karpenter_local.aws.fleet import InstantFleet
from karpenter_local.aws.instancestate import is_leaving, switch_off
from karpenter_local.aws.mail import deliver

if TYPE_CHECKING:
    from collections.abc import Callable


_PAGE_SIZE: Final = 1000
_OLDEST_MINOR: Final = 23
_NEWEST: Final = int(KUBERNETES.partition(".")[2])


def _account(response: Any) -> Account:
    return ACCOUNTS[response.current_account]


def _page(response: Any, name: str, found: list[Any]) -> ActionResult:
    """Return the part of a list that a request asks for, and where the next one begins."""
    size = response._get_int_param("MaxResults", 0) or _PAGE_SIZE  # noqa: SLF001  how the library is extended
    start = int(response._get_param("NextToken") or 0)  # noqa: SLF001  as above
    answer: dict[str, Any] = {name: found[start : start + size]}
    if start + size < len(found):
        answer["NextToken"] = str(start + size)
    return ActionResult(answer)


def _create_fleet(self: Any) -> ActionResult:
    account = _account(self)
    fleet = InstantFleet(account, self.ec2_backend, self._get_param)
    fleet.candidates()  # a template that is missing is told before anything else
    self.error_on_dryrun()
    token = self._get_param("ClientToken")
    if token not in account.answers:
        tags = convert_tag_spec(self._get_param("TagSpecifications", []))
        account.answers[token] = fleet.launch(tags)
    return ActionResult(account.answers[token])


def _describe_instance_types(self: Any) -> ActionResult:
    self.error_on_dryrun()
    account = _account(self)
    found = self.ec2_backend.describe_instance_types(
        self._get_param("InstanceTypes", []), self._filters_from_querystring()
    )
    return _page(self, "InstanceTypes", [each for each in found if account.sells(each["InstanceType"])])


def _describe_instance_type_offerings(self: Any) -> ActionResult:
    account = _account(self)
    found = self.ec2_backend.describe_instance_type_offerings(
        self._get_param("LocationType"), self._filters_from_querystring()
    )
    return _page(
        self, "InstanceTypeOfferings", [each for each in found if account.sells(each["InstanceType"])]
    )


def _describe_spot_price_history(self: Any) -> ActionResult:
    """
    Tell the spot prices as they are now, which holds for any time up to now.

    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSpotPriceHistory.html
    """
    account = _account(self)
    now = account.now()
    wanted = _spot_filters(self)
    ended = self._get_param("EndTime")
    if ended is not None and ended.replace(tzinfo=UTC) < now - _SHOWN_AFTER_END:
        return ActionResult({"SpotPriceHistory": []})
    prices = [
        (
            each["InstanceType"],
            each["Location"],
            account.price("spot", each["InstanceType"], each["Location"]),
        )
        for each in self.ec2_backend.describe_instance_type_offerings("availability-zone")
        if account.sells(each["InstanceType"])
    ]
    history = [
        {
            "InstanceType": name,
            "AvailabilityZone": zone,
            "ProductDescription": "Linux/UNIX",
            "SpotPrice": f"{price:.6f}",
            "Timestamp": now,
        }
        for name, zone, price in prices
        if price is not None
    ]
    shown = [each for each in history if all(each[key] in values for key, values in wanted.items())]
    return _page(self, "SpotPriceHistory", shown)


def _spot_filters(self: Any) -> dict[str, set[str]]:
    """Return the values that each field of a spot price may have, where a request says so."""
    found = {
        "InstanceType": set(self._get_param("InstanceTypes", [])),
        "ProductDescription": {
            each.partition(" (")[0] for each in self._get_param("ProductDescriptions", [])
        },
        "AvailabilityZone": {self._get_param("AvailabilityZone")} - {None},
    }
    for name, values in self._filters_from_querystring().items():
        if name not in _SPOT_FILTERS:
            raise EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid")
        field = _SPOT_FILTERS[name]
        before = found.get(field)
        found[field] = before & set(values) if before else set(values)
    return {key: values for key, values in found.items() if values}


_SHOWN_AFTER_END: Final = timedelta(minutes=1)
_SPOT_FILTERS: Final = {
    "availability-zone": "AvailabilityZone",
    "instance-type": "InstanceType",
    "product-description": "ProductDescription",
    "spot-price": "SpotPrice",
}


def _describe_capacity_reservations(self: Any) -> ActionResult:
    wanted = self._get_param("CapacityReservationIds", [])
    filters = self._filters_from_querystring()
    found = [
        each
        for number, each in _account(self).reservations.items()
        if (not wanted or number in wanted) and _matches(each, filters, _RESERVATION_FILTERS)
    ]
    return _page(self, "CapacityReservations", found)


def _describe_placement_groups(self: Any) -> ActionResult:
    names, ids = self._get_param("GroupNames", []), self._get_param("GroupIds", [])
    filters = self._filters_from_querystring()
    found = [
        each
        for each in _account(self).placement_groups.values()
        if (not names or each["GroupName"] in names)
        and (not ids or each["GroupId"] in ids)
        and _matches(each, filters, _GROUP_FILTERS)
    ]
    return ActionResult({"PlacementGroups": found})


_RESERVATION_FILTERS: Final = {
    "state": "State",
    "owner-id": "OwnerId",
    "instance-match-criteria": "InstanceMatchCriteria",
}
_GROUP_FILTERS: Final = {"state": "State", "group-name": "GroupName", "group-id": "GroupId"}


def _matches(item: dict[str, Any], filters: dict[str, Any], fields: dict[str, str]) -> bool:
    tags = {tag["Key"]: tag["Value"] for tag in item.get("Tags", ())}
    for name, values in filters.items():
        if name == "tag-key":
            matched = any(value in tags for value in values)
        elif name.startswith("tag:"):
            matched = tags.get(name.removeprefix("tag:")) in values
        else:
            matched = item[fields[name]] in values
        if not matched:
            return False
    return True


def _describe_launch_templates(self: Any) -> ActionResult:
    templates = self.ec2_backend.describe_launch_templates(
        template_names=self._get_param("LaunchTemplateNames", []),
        template_ids=self._get_param("LaunchTemplateIds", []),
        filters=self._filters_from_querystring(),
    )
    found = [
        {
            "CreateTime": each.create_time,
            "DefaultVersionNumber": each.default_version_number,
            "LatestVersionNumber": each.latest_version_number,
            "LaunchTemplateId": each.id,
            "LaunchTemplateName": each.name,
            "Tags": each.tags,
        }
        for each in templates
    ]
    return _page(self, "LaunchTemplates", found)


def _delete_launch_template(self: Any) -> ActionResult:
    name = self._get_param("LaunchTemplateName")
    if name and name not in self.ec2_backend.launch_template_name_to_ids:
        raise InvalidLaunchTemplateNameNotFoundError
    answer: ActionResult = _PLAIN["delete_launch_template"](self)
    return answer


def _get_console_output(self: Any) -> ActionResult:
    instance = self.ec2_backend.get_instance(self._get_param("InstanceId"))
    account = _account(self)
    written = "\n".join(account.consoles.get(instance.id, ()))
    return ActionResult(
        {
            "InstanceId": instance.id,
            "Timestamp": account.now(),
            "Output": Base64EncodedString.from_raw_string(written),
        }
    )


def _describe_instances(self: Any) -> ActionResult:
    return describe_instances(self, _PLAIN["describe_instances"])


def _create_tags(self: Any) -> ActionResult:
    check_instances(self)
    answer: ActionResult = _PLAIN["create_tags"](self)
    return answer


def _terminate(self: Any) -> Any:
    """Begin the end of an instance; ends that have begun are left alone."""
    account = ACCOUNTS.get(self.owner_id)
    if account is None:
        return _PLAIN["terminate"](self)
    if is_leaving(self):
        return self.instance_state
    before = _PLAIN["terminate"](self)
    switch_off(account, self)
    reservation = account.reservations.get(getattr(self, "capacity_reservation_id", None) or "")
    if reservation is not None:
        reservation["AvailableInstanceCount"] += 1
    account.tell(InstanceEnded(self.id))
    return before


_VERSIONED: Final = re.compile(r"(?:^|[-/])(1\.\d{2})(?=[-/]|$)")
"""How names of parameters and of images tell which version of Kubernetes they are for."""


def _publish_for(account: Account, text: str) -> None:
    """Let AWS have published images for the version of Kubernetes that a name is for."""
    found = _VERSIONED.search(text)
    if found is not None and account.publish is not None and _OLDEST_MINOR <= int(found[1][2:]) <= _NEWEST:
        account.publish(found[1])


def _describe_images(self: Any) -> Any:
    for each in self._get_param("Filters", []):
        for value in each["Values"]:
            _publish_for(_account(self), value)
    return _PLAIN["describe_images"](self)


_EC2: Final[dict[str, Callable[[Any], ActionResult]]] = {
    "create_fleet": _create_fleet,
    "create_tags": _create_tags,
    "delete_launch_template": _delete_launch_template,
    "describe_capacity_reservations": _describe_capacity_reservations,
    "describe_images": _describe_images,
    "describe_instance_status": describe_instance_status,
    "describe_instance_type_offerings": _describe_instance_type_offerings,
    "describe_instance_types": _describe_instance_types,
    "describe_instances": _describe_instances,
    "describe_launch_templates": _describe_launch_templates,
    "describe_placement_groups": _describe_placement_groups,
    "describe_reserved_instances": describe_reserved_instances,
    "describe_spot_price_history": _describe_spot_price_history,
    "get_console_output": _get_console_output,
}
_PLAIN: Final[dict[str, Any]] = {}
"""What the imitation had in place of ours."""


def _find_parameter(self: Any, key: str) -> None:
    """Let the parameters that belong to AWS be found where moto looks for them: one, or all under a path."""
    _PLAIN["parameters"](self, key)
    account = ACCOUNTS.get(self.account_id)
    if account is None or not str(key).startswith("/aws/"):
        return
    _publish_for(account, key)
    if key in account.parameters:
        _hold(self, key, account.parameters[key])
    elif key.endswith("/"):
        for name, value in account.parameters.items():
            if name.startswith(key):
                _hold(self, name, value)


def _hold(self: Any, key: str, value: str) -> None:
    held = dict.get(self, key)
    if held and held[-1].value == value:
        return
    dict.__setitem__(
        self,
        key,
        [
            Parameter(  # type: ignore[abstract]  # as the library itself makes them
                account_id=self.account_id,
                name=key,
                value=value,
                parameter_type="String",
                description="",
                allowed_pattern="",
                keyid="",
                last_modified_date=utcnow(),
                version=1,
                data_type="text",
            )
        ],
    )


@cache
def install() -> None:
    """Put our answers in place of those of the imitation."""
    for name, answer in _EC2.items():
        _PLAIN[name] = getattr(EC2Response, name, None)
        setattr(EC2Response, name, answer)
    _PLAIN["parameters"] = ParameterDict._check_loading_status  # noqa: SLF001  how the library is extended
    setattr(ParameterDict, "_check_loading_status", _find_parameter)  # noqa: B010  a method of theirs
    _PLAIN["terminate"] = Instance.terminate
    setattr(Instance, "terminate", _terminate)  # noqa: B010  as above
    setattr(AmiBackend, "_load_amis", lambda _: None)  # noqa: B010  accounts publish their own images
    eventbridge.install(deliver)
    iam.install()
    nodegroups.install()
    repeated.install()
