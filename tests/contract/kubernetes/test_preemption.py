"""The scheduler: who has to go for whom."""

import pytest

from tests.contract.kubernetes.api import Api, Object, done, eventually
from tests.contract.kubernetes.machines import DEFAULT, join, named, schedule, verdict
from tests.contract.kubernetes.objects import pod

pytestmark = pytest.mark.usefixtures("empty_cluster")


def test_higher_priority_preempts(api: Api) -> None:
    """A pod of higher priority takes the place of one of lower."""
    join(api, "n", cpu="1")
    api.make("priorityclasses", {"metadata": {"name": api.unique}, "value": 1000})
    schedule(api, "low", {"terminationGracePeriodSeconds": 30}, requests={"cpu": "1"})

    api.make(
        "pods",
        pod("high", spec={"schedulerName": DEFAULT, "priorityClassName": api.unique}, requests={"cpu": "1"}),
    )

    victim = eventually(lambda: _going(api, "low"))
    assert eventually(lambda: api.read("pods", "high")["status"].get("nominatedNodeName")) == named(api, "n")
    [condition] = [each for each in victim["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert (condition["reason"], condition["message"]) == (
        "PreemptionByScheduler",
        f"{DEFAULT}: preempting to accommodate a higher priority pod",
    )
    done(api.delete("pods", "low", gracePeriodSeconds=0))
    assert eventually(lambda: verdict(api, "high") == "n")


def _going(api: Api, name: str) -> Object | None:
    found = api.read("pods", name)
    return found if "deletionTimestamp" in found["metadata"] else None


def test_preemption_can_be_declined(api: Api) -> None:
    """A pod that never preempts waits."""
    join(api, "n", cpu="1")
    api.make(
        "priorityclasses", {"metadata": {"name": api.unique}, "value": 1000, "preemptionPolicy": "Never"}
    )
    schedule(api, "low", requests={"cpu": "1"})

    message = schedule(api, "high", {"priorityClassName": api.unique}, requests={"cpu": "1"})

    assert message == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption:"
        " not eligible due to preemptionPolicy=Never."
    )
    assert verdict(api, "low") == "n"


def test_the_lowest_priority_is_the_victim(api: Api) -> None:
    """Of several that could go, the least important goes."""
    join(api, "a", cpu="1")
    join(api, "b", cpu="1")
    for name, value in (("mid", 10), ("top", 1000)):
        api.make("priorityclasses", {"metadata": {"name": f"{api.unique}-{name}"}, "value": value})
    schedule(api, "p-mid", {"priorityClassName": f"{api.unique}-mid"}, requests={"cpu": "1"})
    low = schedule(api, "p-low", requests={"cpu": "1"})

    schedule(api, "p-top", {"priorityClassName": f"{api.unique}-top"}, requests={"cpu": "1"})

    assert eventually(lambda: verdict(api, "p-top") == low)
    assert not api.gone("pods", "p-mid")
