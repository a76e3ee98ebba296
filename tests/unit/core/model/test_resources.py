"""Resource lists, and what pods ask for."""

from __future__ import annotations

import sys

import pytest

from karpenter.api.pod import (
    Container,
    ContainerStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from karpenter.base.quantity import QuantityError
from karpenter.core.model import resources
from karpenter.core.model.resources import (
    add,
    fits,
    human_amount,
    maximum,
    merge,
    parse_resources,
    pod_limits,
    pod_requests,
    render_resources,
    subtract,
)

GI = 2**30


def test_amounts_are_exact_integers() -> None:
    """Cpu counts in thousandths of a core, everything else in its unit, fractions rounded up."""
    wire = {"cpu": "1.5", "memory": "2Gi", "pods": 110, "example.com/gpu": "1500m", "ephemeral-storage": 0.5}

    assert parse_resources(wire) == {
        "cpu": 1500,
        "memory": 2 * GI,
        "pods": 110,
        "example.com/gpu": 2,
        "ephemeral-storage": 1,
    }


@pytest.mark.parametrize(
    ("wire", "sentence"),
    [
        pytest.param({"cpu": "lots"}, "resource 'cpu': 'lots' is not a quantity", id="text"),
        pytest.param({"memory": None}, "resource 'memory': null is not a quantity", id="null"),
        pytest.param({"pods": [1]}, "resource 'pods': a list is not", id="list"),
        pytest.param(["cpu"], "a list has no quantities by resource name", id="no mapping at all"),
    ],
)
def test_refused_list(wire: dict[str, object], sentence: str) -> None:
    """A bad list is refused with a sentence that names the resource and the value."""
    with pytest.raises(QuantityError, match=f"^{sentence}.*: expected"):
        parse_resources(wire)


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        pytest.param("cpu", 3100, "3100m", id="cores and a part"),
        pytest.param("cpu", 4000, "4", id="whole cores"),
        pytest.param("memory", 2 * GI, "2Gi", id="memory in powers of 1024"),
        pytest.param("memory", 1_000_000_000, "1G", id="memory that only fits powers of 1000"),
        pytest.param("ephemeral-storage", 20 * GI, "20Gi", id="disk like memory"),
        pytest.param("hugepages-2Mi", 4 << 20, "4Mi", id="huge pages like memory"),
        pytest.param("pods", 110, "110", id="pods by count"),
        pytest.param("example.com/slots", 2048, "2048", id="devices are not bytes"),
        pytest.param("memory", -1024, "-1Ki", id="what is missing"),
        pytest.param("memory", 0, "0", id="nothing"),
    ],
)
def test_render(name: str, amount: int, text: str) -> None:
    """An amount prints as the quantity Kubernetes would print."""
    assert render_resources({name: amount}) == {name: text}


def test_rendered_lists_are_sorted() -> None:
    """The same list always prints in the same order."""
    assert list(render_resources({"pods": 1, "cpu": 1, "memory": 1})) == ["cpu", "memory", "pods"]


def test_add_covers_both_sides() -> None:
    """A sum has the resources of both sides."""
    assert add({"cpu": 1, "pods": 1}, {"cpu": 2, "memory": 3}) == {"cpu": 3, "pods": 1, "memory": 3}


def test_merge_adds_any_number() -> None:
    """Merging adds lists, none of them included."""
    assert (merge([]), merge([{"cpu": 1}, {"cpu": 2}, {"memory": 3}])) == ({}, {"cpu": 3, "memory": 3})


def test_subtract_keeps_the_left_resources() -> None:
    """A difference has the resources of the left side and may fall below zero."""
    assert subtract({"cpu": 1, "pods": 5}, {"cpu": 2, "memory": 3}) == {"cpu": -1, "pods": 5}


def test_maximum_per_resource() -> None:
    """The maximum is taken resource by resource; a missing resource does not count as zero."""
    assert maximum({"cpu": 1, "memory": 5}, {"cpu": 2}, {"debt": -1}) == {"cpu": 2, "memory": 5, "debt": -1}


@pytest.mark.parametrize(
    ("candidate", "total", "expected"),
    [
        pytest.param({}, {}, True, id="nothing fits nowhere"),
        pytest.param({"cpu": 2}, {"cpu": 2}, True, id="exactly"),
        pytest.param({"cpu": 3}, {"cpu": 2}, False, id="too large"),
        pytest.param({"gpu": 1}, {"cpu": 2}, False, id="a resource the total lacks"),
        pytest.param({"gpu": 0}, {"cpu": 2}, True, id="none of a resource the total lacks"),
        pytest.param({"cpu": 1}, {"cpu": 2, "memory": -1}, False, id="a total that is overdrawn elsewhere"),
        pytest.param({}, {"memory": -1}, False, id="even for nothing"),
        pytest.param({"cpu": 1}, {"cpu": 1, "memory": 0}, True, id="a total that is used up elsewhere"),
    ],
)
def test_fits(candidate: dict[str, int], total: dict[str, int], expected: bool) -> None:
    """A candidate fits when every amount does and the total is not overdrawn."""
    assert fits(candidate, total) is expected


def box(name: str = "app", *, limits: str = "", restart: str = "", **requests: str) -> Container:
    """Return a container that asks for `requests` and has a cpu limit, if any."""
    return Container(
        name=name,
        restart_policy=restart,
        resources=ResourceRequirements(requests={**requests}, limits={"cpu": limits} if limits else {}),
    )


def pod(*containers: Container, init: tuple[Container, ...] = (), **spec: object) -> Pod:
    return Pod(spec=PodSpec(containers=containers, init_containers=init, **spec))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        pytest.param(pod(), {}, id="no container asks for nothing"),
        pytest.param(
            pod(box(cpu="1"), box(cpu="500m", memory="1Gi")), {"cpu": 1500, "memory": GI}, id="containers add"
        ),
        pytest.param(pod(box(limits="2")), {"cpu": 2000}, id="a limit stands in for a missing request"),
        pytest.param(pod(box(limits="2", cpu="1")), {"cpu": 1000}, id="but not for one that is there"),
        pytest.param(
            pod(box(cpu="1"), init=(box(cpu="3", memory="1Gi"), box(cpu="2"))),
            {"cpu": 3000, "memory": GI},
            id="init containers run one at a time, before the rest",
        ),
        pytest.param(
            pod(box(cpu="1"), init=(box(restart="Always", cpu="1"),)),
            {"cpu": 2000},
            id="a sidecar stays",
        ),
        pytest.param(
            pod(box(cpu="1"), init=(box(restart="Always", cpu="1"), box(cpu="3"))),
            {"cpu": 4000},
            id="an init container runs beside the sidecars started before it",
        ),
        pytest.param(
            pod(box(cpu="1"), init=(box(cpu="3"), box(restart="Always", cpu="1"))),
            {"cpu": 3000},
            id="but not beside the sidecars started after it",
        ),
        pytest.param(
            pod(init=(box(restart="Always", cpu="1"), box(restart="Always", cpu="2"))),
            {"cpu": 3000},
            id="sidecars run together",
        ),
        pytest.param(
            pod(box(cpu="1"), init=(box(restart="OnFailure", cpu="3"),)),
            {"cpu": 3000},
            id="only Always makes a sidecar",
        ),
        pytest.param(
            pod(box(cpu="1"), overhead={"cpu": "250m", "memory": "1Gi"}),
            {"cpu": 1250, "memory": GI},
            id="overhead comes on top",
        ),
        pytest.param(
            pod(
                box(cpu="1", memory="1Gi", gpu="1"),
                resources=ResourceRequirements(
                    requests={"cpu": "3", "hugepages-2Mi": "2Mi", "gpu": "9"},
                ),
                overhead={"cpu": "1"},
            ),
            {"cpu": 4000, "memory": GI, "hugepages-2Mi": 2 << 20, "gpu": 1},
            id="the pod's own cpu, memory and huge pages override its containers",
        ),
        pytest.param(
            pod(box(memory="1Gi"), resources=ResourceRequirements(limits={"cpu": "3", "memory": "2Gi"})),
            {"cpu": 3000, "memory": GI},
            id="the pod's own limit stands in where no container asks",
        ),
    ],
)
def test_pod_requests(subject: Pod, expected: dict[str, int]) -> None:
    """A pod asks for the most that it holds at any time, and for one place among the pods."""
    assert pod_requests(subject) == {**expected, "pods": 1}


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        pytest.param(pod(box(cpu="1")), {}, id="no limit"),
        pytest.param(
            pod(box(limits="2"), box(limits="1"), init=(box(limits="5"),)),
            {"cpu": 5000},
            id="limits follow the same rules as requests",
        ),
        pytest.param(
            pod(box(limits="2"), overhead={"cpu": "1", "memory": "1Gi"}),
            {"cpu": 3000},
            id="overhead raises only limits that are there",
        ),
        pytest.param(
            pod(
                box(limits="2"),
                resources=ResourceRequirements(limits={"cpu": "1", "memory": "1Gi", "pods": "3"}),
            ),
            {"cpu": 1000, "memory": GI},
            id="the pod's own limits override",
        ),
    ],
)
def test_pod_limits(subject: Pod, expected: dict[str, int]) -> None:
    """The limits of a pod are those of its containers, where they have any."""
    assert pod_limits(subject) == expected


def resized(
    *containers: ContainerStatus, init: ContainerStatus | None = None, why: str = "", resize: str = ""
) -> Pod:
    """Return a pod that asks for 2 cpus, limit 3, and whose containers have another size so far."""
    pending = PodCondition(type="PodResizePending", status="True", reason=why)
    return Pod(
        spec=PodSpec(
            containers=(box("app", limits="3", cpu="2"),),
            init_containers=(box("side", restart="Always", cpu="1"),) if init else (),
        ),
        status=PodStatus(
            container_statuses=containers,
            init_container_statuses=(init,) if init else (),
            conditions=(READY, pending) if why else (READY,),
            resize=resize,
        ),
    )


def holds(name: str, *, allocated: str, actual: str) -> ContainerStatus:
    """Return the status of a container that was granted and holds other amounts than it asks for."""
    return ContainerStatus(
        name=name,
        allocated_resources={"cpu": allocated},
        resources=ResourceRequirements(requests={"cpu": actual}, limits={"cpu": actual}),
    )


READY = PodCondition(type="Ready", status="True", reason="Infeasible")


@pytest.mark.parametrize(
    ("subject", "requests", "limits"),
    [
        pytest.param(
            resized(holds("app", allocated="1", actual="4")),
            4000,
            4000,
            id="growing: what it holds",
        ),
        pytest.param(
            resized(holds("app", allocated="5", actual="1")),
            5000,
            3000,
            id="shrinking: what it was granted",
        ),
        pytest.param(
            resized(holds("app", allocated="1", actual="1"), why="Deferred"),
            2000,
            3000,
            id="waiting: what it asks for",
        ),
        pytest.param(
            resized(holds("app", allocated="1", actual="500m"), why="Infeasible"),
            1000,
            500,
            id="infeasible: only what it has",
        ),
        pytest.param(
            resized(holds("app", allocated="1", actual="1"), resize="Infeasible"),
            1000,
            1000,
            id="infeasible, as older clusters say it",
        ),
        pytest.param(
            resized(ContainerStatus(name="app", allocated_resources={"cpu": "9"})),
            2000,
            3000,
            id="no resources reported: what it asks for",
        ),
        pytest.param(
            resized(init=holds("side", allocated="2", actual="2")),
            4000,
            5000,
            id="a sidecar can be resized too",
        ),
    ],
)
def test_resize_in_place(subject: Pod, requests: int, limits: int) -> None:
    """While a container is resized it counts with the most it may hold, unless the resize can't happen."""
    assert (pod_requests(subject)["cpu"], pod_limits(subject)["cpu"]) == (requests, limits)


def test_an_ordinary_init_container_is_never_resized() -> None:
    """What is reported of an ordinary init container does not count."""
    status = PodStatus(init_container_statuses=(holds("init", allocated="9", actual="9"),))
    subject = Pod(spec=PodSpec(init_containers=(box("init", cpu="1"),)), status=status)

    assert pod_requests(subject) == {"cpu": 1000, "pods": 1}


def test_pods_that_share_containers_are_counted_apart() -> None:
    """Requests are remembered by the containers that pods share; overhead and pod level still count."""
    shared = (box(cpu="1"),)
    subjects = (
        Pod(spec=PodSpec(containers=shared)),
        Pod(spec=PodSpec(containers=shared, overhead={"cpu": "1"})),
        Pod(spec=PodSpec(containers=shared, resources=ResourceRequirements(requests={"cpu": "4"}))),
        Pod(spec=PodSpec(containers=shared)),
    )

    assert [pod_requests(each)["cpu"] for each in subjects] == [1000, 2000, 4000, 1000]


def test_an_answer_belongs_to_who_asked() -> None:
    """What is done to one answer does not change the next."""
    subject = pod(box(cpu="1"))
    pod_requests(subject)["cpu"] = 0

    assert pod_requests(subject)["cpu"] == 1000


def test_few_requests_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of requests does not grow with the number of pods."""
    monkeypatch.setattr(resources, "_MOST_REQUESTS", 2)
    monkeypatch.setattr(resources, "_REQUESTS", {})
    subjects = [pod(box(cpu="1")) for _ in range(5)]
    for each in subjects:
        pod_requests(each)

    assert len(resources._REQUESTS) <= 2


def test_what_is_remembered_is_not_the_pod() -> None:
    """The memory of requests keeps containers, and not the spec, whose affinity can be thousands of terms."""
    subject = pod(box(cpu="1"))
    before = sys.getrefcount(subject.spec)

    pod_requests(subject)
    after = sys.getrefcount(subject.spec)

    assert after == before


def test_a_bad_request_names_its_container() -> None:
    """A quantity that cannot be read is refused with the container it stands in."""
    with pytest.raises(QuantityError, match=r"^container 'app': resource 'cpu': 'much' is not a quantity"):
        pod_requests(pod(box(cpu="much")))


@pytest.mark.parametrize(
    ("name", "amount", "told"),
    [
        ("cpu", 0, "0"),
        ("cpu", 1700, "1.7"),
        ("cpu", 382_970, "382.97"),
        ("cpu", 1_000_000, "1000"),
        ("memory", 512, "512"),
        ("memory", 1024, "1Ki"),
        ("memory", 1023 * 1024, "1023Ki"),
        ("memory", 16 * GI - 1, "15.99Gi"),
        ("memory", 16 * GI, "16Gi"),
        ("ephemeral-storage", 3 * GI // 2, "1.5Gi"),
        ("memory", 2**72, "4096Ei"),
        ("example.com/gpu", 4000, "4k"),
    ],
)
def test_people_read_short_amounts(name: str, amount: int, told: str) -> None:
    """Cores have decimals, bytes come in the largest unit and are cut, never rounded up."""
    assert human_amount(name, amount) == told
