"""The hand that commands the embedded AWS: in process, and over HTTP."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from botocore.exceptions import ClientError

from karpenter_local.aws.commands import (
    Allow,
    Command,
    Heal,
    Impair,
    Interrupt,
    Kill,
    Lag,
    Limit,
    MovePrices,
    PublishAmi,
    Rebalance,
    RefuseCalls,
    ReleaseAmi,
    Restock,
    Retire,
    SellOutOfferings,
    SetPrice,
    SetQuota,
    ShiftZone,
)
from karpenter_local.aws.control import Control, Impossible
from karpenter_local.aws.estate import IN_GUIDES
from karpenter_local.aws.events import InstanceEnded, InstanceLaunched, InterruptionScheduled, MessageSent
from karpenter_local.aws.instancestate import TERMINATED, become
from tests.unit.cloud.aws.world import CLUSTER, World, embedded

TYPES = ("c5.large", "m5.large", "m5.xlarge")
IMAGE, *_ = (number for number, (_, arch) in IN_GUIDES.items() if arch == "x86_64")
ARM, *_ = (number for number, (_, arch) in IN_GUIDES.items() if arch == "arm64")


@pytest.fixture(scope="module")
def world() -> World:
    """Return an account with the estate of a cluster."""
    return World(types=TYPES)


@pytest.fixture
def control(world: World) -> Iterator[Control]:
    """Return a hand for an account in which everything is in stock and nothing runs."""
    made = Control(world.account, world.estate)
    yield made
    world.account.restock()
    for each in made.instances():
        made.perform(Kill(instance=each.id))


def fleet(
    world: World, *types: str, count: int = 1, spot: bool = False, zone: int = 0, image: str = IMAGE
) -> dict[str, Any]:
    """Ask for instances of any of the types in a zone, and return the answer."""
    name = f"template-{len(world.ec2.describe_launch_templates()['LaunchTemplates'])}"
    world.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData={"ImageId": image})
    subnet = world.estate.subnets[zone]
    answer: dict[str, Any] = world.ec2.create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": name, "Version": "$Latest"},
                "Overrides": [{"InstanceType": each, "SubnetId": subnet} for each in types],
            }
        ],
        TargetCapacitySpecification={
            "TotalTargetCapacity": count,
            "DefaultTargetCapacityType": "spot" if spot else "on-demand",
        },
    )
    return answer


def launched(answer: dict[str, Any]) -> list[str]:
    """Return the types of the instances that a fleet got."""
    return [each["InstanceType"] for each in answer["Instances"] for _ in each["InstanceIds"]]


def launch(world: World, *, spot: bool = False) -> str:
    """Launch one instance and return its id."""
    found: str = fleet(world, "m5.large", spot=spot)["Instances"][0]["InstanceIds"][0]
    return found


def mail(world: World) -> list[dict[str, Any]]:
    """Return the events that wait in the queue of the cluster, and take them out."""
    from moto.sqs.models import sqs_backends  # noqa: PLC0415  only here

    queue: Any = sqs_backends[world.account.number][world.account.region].queues[CLUSTER]
    found = [json.loads(message.body) for message in queue.messages]
    queue._messages.clear()
    return found


def test_what_is_sold_out_cannot_be_had(world: World, control: Control) -> None:
    """A fleet gets the next best offering, and is told why not the best."""
    done = control.perform(SellOutOfferings(instance_type="c5.large", capacity_type="on-demand"))
    answer = fleet(world, "c5.large", "m5.large")

    assert done == "sold out: c5.large on-demand"
    assert launched(answer) == ["m5.large"]
    assert [each["ErrorCode"] for each in answer["Errors"]] == ["InsufficientInstanceCapacity"]


def test_a_quota_that_is_used_up(world: World, control: Control) -> None:
    """A fleet may be told something else than that there is no capacity."""
    control.perform(SellOutOfferings(capacity_type="spot", code="MaxSpotInstanceCountExceeded"))
    answer = fleet(world, "c5.large", spot=True)

    assert [each["ErrorCode"] for each in answer["Errors"]] == ["MaxSpotInstanceCountExceeded"]


@pytest.mark.parametrize(
    ("spot", "code"),
    [
        pytest.param(False, "VcpuLimitExceeded", id="on demand"),
        pytest.param(True, "MaxSpotInstanceCountExceeded", id="spot"),
    ],
)
def test_a_quota_that_is_set(world: World, control: Control, spot: bool, code: str) -> None:
    """It counts vCPUs of all families in it, until everything is in stock again."""
    capacity_type = "spot" if spot else "on-demand"
    control.perform(SetQuota(instance_type="c5.large", capacity_type=capacity_type, vcpus=5))
    answer = fleet(world, "m5.large", count=3, spot=spot)

    assert launched(answer) == ["m5.large", "m5.large"]
    assert [each["ErrorCode"] for each in answer["Errors"]] == [code]

    control.perform(Restock())
    assert launched(fleet(world, "m5.large", spot=spot)) == ["m5.large"]


def test_what_is_sold_out_in_one_way_can_be_had_in_another(world: World, control: Control) -> None:
    """A shelf is emptied, not the shop."""
    control.perform(SellOutOfferings(instance_type="c5.large", capacity_type="on-demand"))

    assert launched(fleet(world, "c5.large", spot=True)) == ["c5.large"]


def test_limits_count_what_runs(world: World, control: Control) -> None:
    """A limit leaves as many as are not taken, and gives back what has ended."""
    control.perform(Limit(instance_type="m5.large", zone=world.estate.zones[0], count=2))
    first = fleet(world, "m5.large", count=3)
    elsewhere = fleet(world, "m5.large", zone=1)
    control.perform(Kill(instance=first["Instances"][0]["InstanceIds"][0]))
    again = fleet(world, "m5.large", count=3)

    assert launched(first) == ["m5.large"] * 2
    assert [each["ErrorCode"] for each in first["Errors"]] == ["InsufficientInstanceCapacity"]
    assert launched(elsewhere) == ["m5.large"]
    assert launched(again) == ["m5.large"]


def test_an_image_for_other_processors(world: World, control: Control) -> None:
    """A type that cannot run an image is not launched from it, and the fleet is told why."""
    assert control.instances() == ()
    answer = fleet(world, "m5.large", image=ARM)

    assert launched(answer) == []
    (error,) = answer["Errors"]
    assert error["ErrorCode"] == "InvalidParameterValue"
    assert "'x86_64' of the specified instance type" in error["ErrorMessage"]


def test_restocking_undoes_what_was_said_of_the_same(world: World, control: Control) -> None:
    """Other shelves stay empty, until everything is restocked."""
    control.perform(SellOutOfferings(instance_type="c5.large"))
    control.perform(SellOutOfferings(instance_type="m5.large"))
    control.perform(Restock(instance_type="c5.large"))

    assert launched(fleet(world, "c5.large")) == ["c5.large"]
    assert launched(fleet(world, "m5.large")) == []
    assert control.perform(Restock()) == "in stock again: everything"
    assert launched(fleet(world, "m5.large")) == ["m5.large"]


@pytest.mark.parametrize(
    ("wish", "kind"),
    [
        pytest.param(Interrupt, "EC2 Spot Instance Interruption Warning", id="an interruption"),
        pytest.param(Rebalance, "EC2 Instance Rebalance Recommendation", id="a recommendation"),
        pytest.param(Retire, "AWS Health Event", id="a retirement"),
    ],
)
def test_news_go_to_the_queue(world: World, control: Control, wish: Any, kind: str) -> None:
    """What is announced arrives in the queue of the cluster, naming the instance."""
    instance = launch(world, spot=True)
    mail(world)

    done = control.perform(wish(instance=instance))

    (event,) = mail(world)
    assert (event["detail-type"], event["version"], event["region"]) == (kind, "0", world.account.region)
    assert instance in json.dumps(event["detail"])
    assert done.startswith(instance)


def test_happenings_are_told(world: World, control: Control) -> None:
    """Subscribers get launches, interruptions and ends, until they unsubscribe."""
    heard: list[object] = []
    stop = world.account.subscribe(heard.append)
    instance = launch(world)
    control.perform(Interrupt(instance=instance, notice=5))
    control.perform(Kill(instance=instance))
    stop()
    launch(world)

    assert heard == [
        InstanceLaunched(instance),
        MessageSent(),
        InterruptionScheduled(instance, 5),
        InstanceEnded(instance),
    ]


def test_a_release_is_what_the_parameter_says(world: World, control: Control) -> None:
    """After a release, every parameter names a newer image than before."""
    path = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id"
    before = world.account.parameters[path]

    control.perform(ReleaseAmi())

    after = world.account.parameters[path]
    images = {
        each["ImageId"]: each["CreationDate"]
        for each in world.ec2.describe_images(ImageIds=[before, after])["Images"]
    }
    assert images[after] > images[before]


def test_an_image_can_have_any_id(world: World, control: Control) -> None:
    """An image that a manifest calls by its id can be published under it."""
    control.perform(PublishAmi(name="mine", arch="arm64", id="ami-0123456789abcdef0"))

    (image,) = world.ec2.describe_images(ImageIds=["ami-0123456789abcdef0"])["Images"]
    assert (image["Name"], image["Architecture"]) == ("mine", "arm64")


def test_prices_can_be_set(world: World, control: Control) -> None:
    """On demand everywhere, as spot in a zone."""
    control.perform(SetPrice(instance_type="m5.xlarge", price=0.5))
    control.perform(SetPrice(instance_type="m5.xlarge", price=0.25, zone="us-west-2a"))

    assert world.account.price("on-demand", "m5.xlarge", "us-west-2b") == 0.5
    assert world.account.price("spot", "m5.xlarge", "us-west-2a") == 0.25


def test_spot_prices_move_within_the_spread(world: World, control: Control) -> None:
    """Every spot price moves, none by more than was said, and on demand nothing does."""
    before = {name: world.account.price("spot", name, "us-west-2c") or 0.0 for name in TYPES}
    fixed = dict(world.account.on_demand)

    control.perform(MovePrices(spread=0.1))

    after = {name: world.account.price("spot", name, "us-west-2c") or 0.0 for name in TYPES}
    assert all(0 < abs(after[name] / before[name] - 1) <= 0.1 for name in TYPES)
    assert world.account.on_demand == fixed


def test_calls_can_be_refused(world: World, control: Control) -> None:
    """A refused operation fails with the code that was wished for, until it is allowed."""
    control.perform(RefuseCalls(operation="DescribeSubnets", code="UnauthorizedOperation"))
    with pytest.raises(world.ec2.exceptions.ClientError, match="UnauthorizedOperation"):
        world.ec2.describe_subnets()
    control.perform(Allow(operation="DescribeSubnets"))
    world.ec2.describe_subnets()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        pytest.param(Kill(instance="i-0"), "there is no instance 'i-0'", id="an instance that is not there"),
        pytest.param(
            SetQuota(instance_type="mac1.metal", vcpus=1),
            "no quota is known of on-demand mac1.metal",
            id="a Mac",
        ),
        pytest.param(Limit(count=-1), "no less than 0 instances can run, and -1 is less", id="too few"),
        pytest.param(
            PublishAmi(name="mine", arch="sparc"), "'sparc' is not one of x86_64, arm64", id="an odd machine"
        ),
        pytest.param(
            SetPrice(instance_type="zz.large", price=1),
            "no instance type 'zz.large' is sold here",
            id="a type",
        ),
        pytest.param(
            SetPrice(instance_type="m5.large", price=0), "a price is more than 0, and 0 is not", id="a gift"
        ),
        pytest.param(Lag(seconds=-5), "a lag of -5 s is in the future", id="a negative lag"),
        pytest.param(MovePrices(spread=2), "a spread is between 0 and 1, and 2 is not", id="a wild market"),
    ],
)
def test_what_cannot_be_done_is_said(control: Control, command: Command, why: str) -> None:
    """A command that makes no sense is refused in one sentence."""
    with pytest.raises(Impossible, match=f"^{why}$"):
        control.perform(command)


def test_an_end_does_not_begin_twice(world: World, control: Control) -> None:
    """An instance that is gone cannot be interrupted, and its end is not told again."""
    instance = launch(world)
    control.perform(Kill(instance=instance))
    heard: list[object] = []
    stop = world.account.subscribe(heard.append)
    world.ec2.terminate_instances(InstanceIds=[instance])
    stop()

    with pytest.raises(Impossible, match=f"instance {instance} is terminated"):
        control.perform(Interrupt(instance=instance))
    assert heard == []


def test_operated_accounts_take_their_time(world: World, control: Control) -> None:
    """Instances that are operated are pending and shutting down in between."""
    world.account.operated = True
    instance = launch(world)
    (begun,) = control.instances()
    world.ec2.terminate_instances(InstanceIds=[instance])
    (ending,) = control.instances()
    world.account.operated = False
    become(control._find(instance), TERMINATED)

    assert (begun.state, ending.state) == ("pending", "shutting-down")


def test_a_reservation_gets_its_room_back(world: World, control: Control) -> None:
    """What ends leaves room in the reservation that it was in."""
    account = world.account
    account.reservations["cr-1"] = {"CapacityReservationId": "cr-1", "AvailableInstanceCount": 0}
    instance = launch(world)
    found = control._find(instance)
    found.capacity_reservation_id = "cr-1"

    assert control.instances()[0].capacity_type == "reserved"
    control.perform(Kill(instance=instance))
    assert account.reservations.pop("cr-1")["AvailableInstanceCount"] == 1


def test_consoles_can_be_read(world: World, control: Control) -> None:
    """What a machine writes to its console is told by EC2, and by the hand, by id and by node."""
    instance = launch(world)
    node = control.instances()[0].node
    world.account.consoles[instance] = ["booting", "kubelet does not start"]

    assert control.console(instance) == control.console(node) == "booting\nkubelet does not start"
    assert world.ec2.get_console_output(InstanceId=instance)["Output"] == control.console(instance)


def test_what_was_just_launched_may_not_be_seen(world: World, control: Control) -> None:
    """EC2 may forget for a while what it has launched: it is neither listed nor found nor tagged."""
    control.perform(Lag(seconds=1000))
    instance = launch(world)
    errors = world.ec2.exceptions.ClientError

    assert world.ec2.describe_instances()["Reservations"] == []
    with pytest.raises(errors, match=r"InvalidInstanceID\.NotFound"):
        world.ec2.describe_instances(InstanceIds=[instance])
    with pytest.raises(errors, match=r"InvalidInstanceID\.NotFound"):
        world.ec2.create_tags(Resources=[instance], Tags=[{"Key": "a", "Value": "b"}])
    control.perform(Lag(seconds=0))
    world.ec2.create_tags(Resources=[instance], Tags=[{"Key": "a", "Value": "b"}])
    (found,) = world.ec2.describe_instances(InstanceIds=[instance])["Reservations"]
    assert found["Instances"][0]["Tags"] == [{"Key": "a", "Value": "b"}]


def test_instances_are_asked_for_by_several_keys(world: World, control: Control) -> None:
    """Those are shown that have all of them, as EC2 does, and not only the last."""
    both, one = launch(world), launch(world)
    world.ec2.create_tags(Resources=[both, one], Tags=[{"Key": "a", "Value": ""}])
    world.ec2.create_tags(Resources=[both], Tags=[{"Key": "b", "Value": ""}])
    filters = [{"Name": "tag-key", "Values": [key]} for key in ("b", "a")]
    assert control.instances()

    told = world.ec2.describe_instances(Filters=filters)["Reservations"]

    assert [each["InstanceId"] for part in told for each in part["Instances"]] == [both]


@pytest.mark.parametrize(
    ("what", "question"),
    [
        pytest.param("instance", ("instance-status.status", "impaired"), id="the instance"),
        pytest.param("instance", ("instance-status.reachability", "failed"), id="how it is reached"),
        pytest.param("system", ("system-status.status", "impaired"), id="what is under it"),
        pytest.param("instance-stop", ("event.code", "instance-stop"), id="what will become of it"),
    ],
)
def test_instances_can_be_unwell(
    world: World, control: Control, what: str, question: tuple[str, str]
) -> None:
    """DescribeInstanceStatus filters find impaired instances, until they are healed."""
    instance = launch(world)
    name, value = question

    def unwell() -> list[str]:
        told = world.ec2.describe_instance_status(Filters=[{"Name": name, "Values": [value]}])
        return [each["InstanceId"] for each in told["InstanceStatuses"]]

    assert unwell() == []
    control.perform(Impair(instance=instance, what=what))
    assert unwell() == [instance]
    control.perform(Heal(instance=instance))
    assert unwell() == []


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        pytest.param("availability-zone", "us-west-2a", True, id="where they are"),
        pytest.param("availability-zone", "us-west-2b", False, id="where they are not"),
        pytest.param("instance-state-name", "running", True, id="their state"),
        pytest.param("instance-state-code", "16", True, id="the code of their state"),
    ],
)
def test_statuses_are_told_apart(world: World, control: Control, name: str, value: str, found: bool) -> None:
    """Statuses can be asked for by what EC2 tells them apart by."""
    launch(world)
    assert control.instances()
    told = world.ec2.describe_instance_status(Filters=[{"Name": name, "Values": [value]}])

    assert bool(told["InstanceStatuses"]) == found


@pytest.mark.parametrize("name", ["colour", "event.colour", "instance-status", "instance-status.colour"])
def test_what_statuses_are_not_told_apart_by_is_refused(world: World, name: str) -> None:
    """EC2 refuses a filter that it does not know, whether or not anything runs."""
    with pytest.raises(ClientError, match=rf"InvalidParameterValue.*The filter '{name}' is invalid"):
        world.ec2.describe_instance_status(Filters=[{"Name": name, "Values": ["red"]}])


def test_zones_can_be_shifted_away(world: World, control: Control) -> None:
    """A shift is told with its end, replaces one of the same zone, and can be taken back."""
    control.perform(ShiftZone(zone_id="usw2-az1", seconds=60))
    control.perform(ShiftZone(zone_id="usw2-az1", seconds=600))

    (shift,) = world.account.shifts
    assert 500 < shift["expiryTime"] - world.account.now().timestamp() <= 600
    control.perform(ShiftZone(zone_id="usw2-az1", seconds=0))
    assert world.account.shifts == []


def ask(path: str, body: object = None, *, kind: str = "application/json") -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    url = f"{embedded().endpoint}/_karpenter/{path}"
    request = Request(url, data=data, headers={"Content-Type": kind})  # noqa: S310  our own, on loopback
    try:
        with urlopen(request) as response:  # noqa: S310  as above
            return response.status, json.load(response)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_commands_over_http(world: World, control: Control) -> None:
    """The same commands can be sent by other programs on this machine."""
    embedded().obey(control)
    instance = launch(world)
    world.account.consoles[instance] = ["hello"]

    assert ask("instances")[1][0]["id"] == instance
    assert ask(f"console/{instance}") == (200, {"console": "hello"})
    assert ask("commands", {"do": "sell-out", "zone": "us-west-2a"}) == (
        200,
        {"done": "sold out: us-west-2a"},
    )
    assert launched(fleet(world, "m5.large")) == []


@pytest.mark.parametrize(
    ("path", "body", "status", "why"),
    [
        pytest.param("commands", {"do": "fly"}, 400, "this is no command: ", id="an unknown command"),
        pytest.param("commands", None, 415, "a command is sent with POST", id="a command that is read"),
        pytest.param(
            "commands", {"do": "kill", "instance": "i-0"}, 422, "there is no instance", id="no such instance"
        ),
        pytest.param("instances", {}, 405, "/_karpenter/instances can only be read", id="a list written to"),
        pytest.param("moon", None, 404, "there is nothing at /_karpenter/moon", id="a place that is none"),
    ],
)
def test_bad_requests(control: Control, path: str, body: object, status: int, why: str) -> None:
    """A request that makes no sense is answered with a status and a sentence."""
    embedded().obey(control)

    code, answer = ask(path, body)

    assert code == status
    assert str(answer["error"]).startswith(why)


def test_commands_must_say_that_they_are_json(control: Control) -> None:
    """A form that a page of another site could send is refused."""
    embedded().obey(control)

    assert ask("commands", {"do": "restock"}, kind="text/plain")[0] == 415
