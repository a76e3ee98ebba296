"""
What an account has, as the API tells it, and the rows that people see of it.

Data is what the API answers, with absent fields as null: programs that were written for the answers of other
SDKs find every field. Policy documents are text with an indent of four. Rows are pure functions of the data.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.cloud.aws.errors import AwsApiError, ResourceNotFound
from karpenter.install.observe import compact, document_of
from karpenter.install.table import age, cut

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.install.account import AccountApi

LIVING: Final = ("pending", "running", "shutting-down", "stopping", "stopped")
"""States of an instance that has not ended for good."""

SPOT_NOTE: Final = "* Indicates Spot Instance"
_MOST_ROLES: Final = 10_000


class NotThereError(LookupError):
    """What was asked for by name is not there."""


class AwsListing(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, and how it is shown."""

    data: Any
    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    footer: str = ""
    rules: bool = False
    empty: str = ""


def read_instances(
    aws: AccountApi, *, now: datetime, name: str = "", vpc: str = "", living: bool = False, wide: bool = False
) -> AwsListing:
    """
    Return instances: one, those of a VPC, or all; `living` leaves out those that have ended.

    Raises:
        NotThereError: there is no such instance.
    """
    filters = [{"Name": "vpc-id", "Values": [vpc]}] if vpc else []
    if living:
        filters.append({"Name": "instance-state-name", "Values": list(LIVING)})
    asked: dict[str, Any] = {"InstanceIds": [name]} if name else {"Filters": filters}
    found = _reservations(aws, name, **asked)
    instances = [each for reservation in found for each in reservation["Instances"]]
    heading = ("Age", "State", "Id", "Name", "Type", "Zone")
    rows = [_instance_row(each, now, wide=wide) for each in instances]
    spot = any(each.get("InstanceLifecycle") == "spot" for each in instances)
    return AwsListing(
        data=found,
        heading=(*heading, "NodePool", "Private IP", "Image") if wide else heading,
        rows=tuple(rows),
        footer=SPOT_NOTE if spot else "",
    )


def _instance_row(each: dict[str, Any], now: datetime, *, wide: bool) -> tuple[str, ...]:
    tags = {tag["Key"]: tag["Value"] for tag in each.get("Tags") or ()}
    spot = "*" if each.get("InstanceLifecycle") == "spot" else ""
    row = (
        _age(each.get("LaunchTime"), now),
        each["State"]["Name"],
        each["InstanceId"],
        cut(tags.get("Name", "")),
        f"{spot}{each['InstanceType']}",
        (each.get("Placement") or {}).get("AvailabilityZone") or "",
    )
    if not wide:
        return row
    pool = tags.get("karpenter.sh/nodepool", "")
    return (*row, pool, each.get("PrivateIpAddress") or "", each.get("ImageId") or "")


def read_roles(
    aws: AccountApi,
    *,
    now: datetime,
    name: str = "",
    search: str = "",
    issuer: str = "",
    last_used: bool = False,
) -> AwsListing:
    """
    Return roles: one, those whose name contains a text, or those that trust an issuer of tokens.

    Raises:
        NotThereError: there is no such role.
    """
    found = _roles(aws, name, search)
    if issuer:
        named = issuer.removeprefix("https://")
        found = [
            each for each in found if named in json.dumps(each.get("AssumeRolePolicyDocument"), default=str)
        ]
    if search and not found:
        raise NotThereError(f'no iam-role found searching for "{search}"')
    if last_used and not name:
        found = [aws.call("iam", "GetRole", RoleName=each["RoleName"])["Role"] for each in found]
    filled = [_filled(aws, "iam", "GetRole", "Role", each) for each in found]
    for each in filled:
        each["AssumeRolePolicyDocument"] = _pretty(each.get("AssumeRolePolicyDocument"))
    rows = [(_age(each.get("CreateDate"), now), each["RoleName"]) for each in found]
    heading = ("Age", "Role")
    if last_used:
        heading = (*heading, "Last Used")  # type: ignore[assignment]
        used = [(each.get("RoleLastUsed") or {}).get("LastUsedDate") for each in found]
        rows = [(*row, _age(when, now) if when else "-") for row, when in zip(rows, used, strict=True)]  # type: ignore[misc]
    return AwsListing(data=filled, heading=heading, rows=tuple(rows))


def _roles(aws: AccountApi, name: str, search: str) -> list[dict[str, Any]]:
    if name:
        told = aws.find("iam", "GetRole", RoleName=name)
        if told is None:
            raise NotThereError(f'iam-role "{name}" not found')
        return [told["Role"]]
    # IAM has no search: all roles are read, up to a number that no account should have.
    listed = islice(aws.every("iam", "ListRoles", "Roles"), _MOST_ROLES)
    return [each for each in listed if search.lower() in each["RoleName"].lower()]


def read_policies(aws: AccountApi, *, now: datetime, arn: str = "", search: str = "") -> AwsListing:
    """
    Return policies: one, those of the account, or of AWS too whose name contains a text.

    Raises:
        NotThereError: there is no such policy.
    """
    if arn:
        told = aws.find("iam", "GetPolicy", PolicyArn=arn)
        if told is None:
            raise NotThereError(f'iam-policy "{arn}" not found')
        found = [told["Policy"]]
    else:
        scope = "All" if search else "Local"
        found = [
            each
            for each in aws.every("iam", "ListPolicies", "Policies", Scope=scope)
            if search.lower() in each["PolicyName"].lower()
        ]
    if search and not found:
        raise NotThereError(f'no iam-policy found searching for "{search}"')
    return AwsListing(
        data=[_filled(aws, "iam", "GetPolicy", "Policy", each) for each in found],
        heading=("Age", "Name"),
        rows=tuple((_age(each.get("CreateDate"), now), each["PolicyName"]) for each in found),
    )


def read_role_policies(aws: AccountApi, role: str) -> AwsListing:
    """
    Return what a role may do: the policies in it, and those attached to it.

    Raises:
        NotThereError: there is no such role.
    """
    if aws.find("iam", "GetRole", RoleName=role) is None:
        raise NotThereError(f'iam-role "{role}" not found')
    inline = []
    for name in aws.every("iam", "ListRolePolicies", "PolicyNames", RoleName=role):
        told = aws.call("iam", "GetRolePolicy", RoleName=role, PolicyName=name)
        inline.append({"Name": name, "PolicyDocument": _pretty(told["PolicyDocument"])})
    attached = []
    for each in aws.every("iam", "ListAttachedRolePolicies", "AttachedPolicies", RoleName=role):
        policy = aws.call("iam", "GetPolicy", PolicyArn=each["PolicyArn"])["Policy"]
        version = aws.call(
            "iam", "GetPolicyVersion", PolicyArn=each["PolicyArn"], VersionId=policy["DefaultVersionId"]
        )["PolicyVersion"]
        attached.append(
            {
                "Policy": _filled(aws, "iam", "GetPolicy", "Policy", policy),
                "PolicyVersion": {**version, "Document": _pretty(version["Document"])},
            }
        )
    rows = [(each["Name"], "Inline", "") for each in inline]
    for each in attached:
        policy = each["Policy"]
        sort = "AWS Mgd" if policy["Arn"].split(":")[4] == "aws" else "Cust Mgd"
        rows.append((policy["PolicyName"], sort, policy.get("Description") or ""))
    return AwsListing(
        data={"InlinePolicies": inline, "ManagedPolicies": attached},
        heading=("Name", "Type", "Description"),
        rows=tuple(rows),
        rules=True,
    )


def read_queues(aws: AccountApi, *, now: datetime, name: str = "", wide: bool = False) -> AwsListing:
    """
    Return queues: one, or all.

    Raises:
        NotThereError: there is no such queue.
    """
    if name:
        told = aws.find("sqs", "GetQueueUrl", QueueName=name)
        if told is None:
            raise NotThereError(f'sqs-queue "{name}" not found')
        urls = [told["QueueUrl"]]
    else:
        urls = list(aws.every("sqs", "ListQueues", "QueueUrls"))
    found = []
    for url in urls:
        raw = aws.call("sqs", "GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])["Attributes"]
        # Some imitations of SQS count parts of seconds.
        stamps = {key: str(int(float(value))) for key, value in raw.items() if key.endswith("Timestamp")}
        told = {**raw, **stamps}
        if told.get("Policy"):
            told["Policy"] = json.dumps(json.loads(told["Policy"]), separators=(",", ":"))
        found.append({"Attributes": told, "Url": url})
    heading = ("Age", "Name", "Type", "Messages", "In Flight")
    rows = [_queue_row(each, now, wide=wide) for each in found]
    more = ("Retention", "Encrypted")
    return AwsListing(data=found, heading=(*heading, *more) if wide else heading, rows=tuple(rows))


def _queue_row(queue: dict[str, Any], now: datetime, *, wide: bool) -> tuple[str, ...]:
    told = queue["Attributes"]
    name = str(queue["Url"]).rpartition("/")[2]
    row = (
        _age(datetime.fromtimestamp(int(told["CreatedTimestamp"]), UTC), now),
        name,
        "FIFO" if name.endswith(".fifo") else "Standard",
        told["ApproximateNumberOfMessages"],
        told["ApproximateNumberOfMessagesNotVisible"],
    )
    return (*row, told["MessageRetentionPeriod"], told.get("SqsManagedSseEnabled", "")) if wide else row


def read_rules(aws: AccountApi, *, prefix: str = "", wide: bool = False) -> AwsListing:
    """Return the rules of the default event bus whose names begin with a text."""
    asked = {"NamePrefix": prefix} if prefix else {}
    found = [
        _filled(aws, "events", "ListRules", "Rules", each)
        for each in aws.every("events", "ListRules", "Rules", **asked)
    ]
    found.sort(key=lambda each: str(each["Name"]))  # as EventBridge lists them
    for each in found:
        if each.get("EventPattern"):
            each["EventPattern"] = compact(json.loads(each["EventPattern"]))
    rows = []
    for each in found:
        row = (each["State"], each["Name"], "Managed" if each.get("ManagedBy") else "Standard")
        if wide:
            pattern = json.loads(each.get("EventPattern") or "{}")
            row = (*row, ", ".join(pattern.get("detail-type") or pattern.get("source") or ()))  # type: ignore[assignment]
        rows.append(row)
    heading = ("Status", "Name", "Type")
    return AwsListing(data=found, heading=(*heading, "Events") if wide else heading, rows=tuple(rows))


def release_listing(records: Iterable[Any], *, wide: bool = False) -> AwsListing:
    found = list(records)
    rows = []
    for each in found:
        row = (each.name, each.namespace, each.app_version, each.status, f"{each.chart}-{each.chart_version}")
        rows.append((*row, str(each.revision), each.updated) if wide else row)
    heading = ("Name", "Namespace", "Version", "Status", "Chart")
    data = [
        {
            "Name": each.name,
            "Namespace": each.namespace,
            "Version": each.app_version,
            "Status": each.status,
            "Chart": each.chart,
            "ChartVersion": each.chart_version,
            "Revision": each.revision,
            "Updated": each.updated,
            "Values": each.config,
        }
        for each in found
    ]
    return AwsListing(
        data=data,
        heading=(*heading, "Revision", "Updated") if wide else heading,
        rows=tuple(rows),
        empty="No helm releases found.",
    )


def plain_data(data: Any, *, squeezed: bool = False) -> Any:
    """Return data as JSON knows it: times as text; with `squeezed`, documents in one line."""
    if isinstance(data, dict):
        return {key: plain_data(value, squeezed=squeezed) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [plain_data(each, squeezed=squeezed) for each in data]
    if isinstance(data, datetime):
        return data.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(data, str) and squeezed and "\n" in data:
        return " ".join(data.split())
    return data


def _reservations(aws: AccountApi, name: str, **asked: Any) -> list[dict[str, Any]]:
    found = aws.every("ec2", "DescribeInstances", "Reservations", **asked)
    try:
        return [_filled(aws, "ec2", "DescribeInstances", "Reservations", each) for each in found]
    except AwsApiError as error:
        if name and (isinstance(error, ResourceNotFound) or error.code.endswith(".Malformed")):
            raise NotThereError(f'ec2-instance "{name}" not found') from error
        raise


def _filled(
    aws: AccountApi, service: str, operation: str, field: str, data: dict[str, Any]
) -> dict[str, Any]:
    """Return an item of an answer with every field that its shape has; those that are absent are null."""
    shape = aws.output_shape(service, operation).members[field]
    if shape.type_name == "list":
        shape = shape.member
    found: dict[str, Any] = _with_nulls(shape, data)
    return found


def _with_nulls(shape: Any, data: Any) -> Any:
    if data is None:
        return None
    if shape.type_name == "structure" and isinstance(data, dict):
        return {name: _with_nulls(member, data.get(name)) for name, member in shape.members.items()}
    if shape.type_name == "list" and isinstance(data, list):
        return [_with_nulls(shape.member, each) for each in data]
    return data


def _pretty(document: Any) -> str:
    """Return a policy document as text, as the console shows it."""
    return json.dumps(document_of(document), indent=4) if document else ""


def _age(since: datetime | None, now: datetime) -> str:
    if since is None:
        return "-"
    return age(now - (since if since.tzinfo else since.replace(tzinfo=UTC)))
