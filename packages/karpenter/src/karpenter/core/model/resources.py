"""
Resource lists: how much of each resource, in exact integers, and what a pod requests.

A list maps a resource name to an amount: cpu in thousandths of a core, every other resource in its own unit
(bytes, pods, devices), fractions rounded up. A resource that is missing from a list counts as zero. No
function changes its arguments.

:func:`pod_requests` and :func:`pod_limits` follow kube-scheduler: sidecars count beside the containers, an
ordinary init container needs room only before them, and a container that is resized in place counts with
the most that it may hold.

What fits on which node, and why not, is decided by the solver.

Quantities are exact and unbounded (``1e30`` is one); the arrays of the solver hold 64 bits. An amount near
the end of that range is refused here, in one sentence, before the solver sees it. Where a larger amount
means no more than "without limit", the amount is cut instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from karpenter.base.pretty import excerpt
from karpenter.base.quantity import NANOS, Format, Quantity, QuantityError, parse_quantity

if TYPE_CHECKING:
    from karpenter.api.pod import Container, ContainerStatus, Pod, ResourceRequirements

Resources: TypeAlias = Mapping[str, int]
"""Resource name to an exact amount: cpu in thousandths of a core, everything else in its base unit."""

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
# https://kubernetes.io/docs/tasks/manage-hugepages/scheduling-hugepages/
HUGEPAGES_PREFIX: Final = "hugepages-"

_COUNTED_IN_BYTES: Final = frozenset({MEMORY, EPHEMERAL_STORAGE, "storage"})
_MILLI: Final = NANOS // 1000
_KIBI: Final = 1024
_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
# An init container that restarts always is a sidecar, and its requests count while others run:
# https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
_ALWAYS: Final = "Always"
# A resize that cannot be granted leaves the pod with what it has:
# https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/
_RESIZE_PENDING: Final = "PodResizePending"
_INFEASIBLE: Final = "Infeasible"


def parse_resources(wire: Mapping[str, object]) -> dict[str, int]:
    """
    Return the amounts that a list of quantities stands for.

    Raises:
        QuantityError: naming the resource, the value, and what is allowed.
    """
    if not isinstance(wire, Mapping):
        raise QuantityError(f"{excerpt(wire)} has no quantities by resource name: expected an object of them")
    return {name: parse_amount(name, written) for name, written in wire.items()}


def parse_amount(name: str, written: object) -> int:
    """
    Return the amount of the resource `name` that the quantity `written` stands for.

    Raises:
        QuantityError: naming the resource, the value, and what is allowed.
    """
    try:
        if isinstance(written, str):
            return _parse_text(name, written)
        return _amount(name, parse_quantity(written))
    except QuantityError as error:
        raise QuantityError(f"resource {excerpt(name)}: {error}") from None


@lru_cache(maxsize=16384)  # the pods of a cluster repeat a few hundred texts
def _parse_text(name: str, text: str) -> int:
    return _amount(name, parse_quantity(text))


def _amount(name: str, quantity: Quantity) -> int:
    return quantity.milli if name == CPU else quantity.value


def render_resources(resources: Resources) -> dict[str, str]:
    """Return the canonical quantities of a list, sorted by name."""
    return {name: render_amount(name, resources[name]) for name in sorted(resources)}


def render_amount(name: str, amount: int) -> str:
    """Return the canonical quantity for an `amount` of the resource `name`."""
    if name == CPU:
        return str(Quantity(amount * _MILLI))
    in_bytes = name in _COUNTED_IN_BYTES or name.startswith(HUGEPAGES_PREFIX)
    binary = in_bytes and amount % _KIBI == 0
    return str(Quantity(amount * NANOS, Format.BINARY_SI if binary else Format.DECIMAL_SI))


def human_amount(name: str, amount: int) -> str:
    """Return an `amount` for reading: cores with decimals, bytes in the largest unit with two digits."""
    if name == CPU:
        return f"{amount / 1000:.3f}".rstrip("0").rstrip(".")
    if name not in _COUNTED_IN_BYTES or amount < _KIBI:
        return render_amount(name, amount)
    power = min((amount.bit_length() - 1) // 10, len(_BINARY))
    hundredths = (amount * 100) >> (10 * power)
    whole, rest = divmod(hundredths, 100)
    return f"{whole}.{rest:02}".rstrip("0").rstrip(".") + _BINARY[power - 1]


def add(left: Resources, right: Resources) -> dict[str, int]:
    """Return the sum over the resources of both sides."""
    result = dict(left)
    _add_to(result, right)
    return result


def merge(lists: Iterable[Resources]) -> dict[str, int]:
    """Return the sum of any number of lists over the resources of all of them."""
    result: dict[str, int] = {}
    for resources in lists:
        _add_to(result, resources)
    return result


def subtract(left: Resources, right: Resources) -> dict[str, int]:
    """Return `left` minus `right`; resources that only `right` names are dropped."""
    return {name: amount - right.get(name, 0) for name, amount in left.items()}


def maximum(*lists: Resources) -> dict[str, int]:
    """Return the largest amount of each resource that any list names."""
    result: dict[str, int] = {}
    for resources in lists:
        _raise_to(result, resources)
    return result


def fits(candidate: Resources, total: Resources) -> bool:
    """Say whether `total` has room for `candidate`; a total with a negative amount has none."""
    for amount in total.values():
        if amount < 0:
            return False
    for name, amount in candidate.items():  # noqa: SIM110  a plain loop is twice as fast as all()
        if amount > total.get(name, 0):
            return False
    return True


def pod_requests(pod: Pod) -> dict[str, int]:
    """
    Return what the scheduler sets aside for `pod`, itself counted as one of ``pods``.

    Raises:
        QuantityError: naming the container, the resource, the value, and what is allowed.
    """
    spec = pod.spec
    if any(each.resources is not None for each in pod.status.container_statuses) or spec.init_containers:
        return _pod_requests(pod)
    # Informers let pods of one owner share their containers, which are asked about at every decision.
    known = _REQUESTS.get(id(spec.containers))
    if known is None or known.resources is not spec.resources or known.overhead != spec.overhead:
        if len(_REQUESTS) >= _MOST_REQUESTS:
            _REQUESTS.clear()
        known = _KnownRequests(spec.containers, spec.resources, spec.overhead, _pod_requests(pod))
        _REQUESTS[id(spec.containers)] = known
    return known.requests.copy()


class _KnownRequests(NamedTuple):
    """The requests of a pod and what they depend on; not its spec, which may be a thousand times as large."""

    containers: tuple[Container, ...]
    resources: ResourceRequirements | None
    overhead: Mapping[str, object]
    requests: dict[str, int]


_MOST_REQUESTS: Final = 4096
_REQUESTS: Final[dict[int, _KnownRequests]] = {}
"""By the address of a pod's containers, which are kept too: as long as they are, the address is theirs."""


def _pod_requests(pod: Pod) -> dict[str, int]:
    asked = _of_all_containers(pod, _container_requests)
    level = pod.spec.resources
    if level is not None:
        # A pod-level limit stands in for a request only where no container asks at all.
        limits = {name: amount for name, amount in parse_resources(level.limits).items() if name not in asked}
        asked |= {n: a for n, a in (limits | parse_resources(level.requests)).items() if _may_be_pod_level(n)}
    # The overhead of a RuntimeClass comes on top of what containers request:
    # https://kubernetes.io/docs/concepts/scheduling-eviction/pod-overhead/
    _add_to(asked, parse_resources(pod.spec.overhead))
    # Nodes limit the number of pods (maxPods), so each pod requests one of it.
    asked[PODS] = 1
    return asked


def pod_limits(pod: Pod) -> dict[str, int]:
    """
    Return the most that `pod` may use, where it is limited at all.

    Raises:
        QuantityError: naming the container, the resource, the value, and what is allowed.
    """
    limits = _of_all_containers(pod, _container_limits)
    level = pod.spec.resources
    if level is not None:
        limits |= {n: a for n, a in parse_resources(level.limits).items() if _may_be_pod_level(n)}
    overhead = parse_resources(pod.spec.overhead)
    return {name: amount + overhead.get(name, 0) for name, amount in limits.items()}


def _may_be_pod_level(name: str) -> bool:
    # Pods as a whole can request these and no other resources:
    # https://kubernetes.io/docs/tasks/configure-pod-container/assign-pod-level-resources/
    return name in {CPU, MEMORY} or name.startswith(HUGEPAGES_PREFIX)


def _of_all_containers(
    pod: Pod, of_one: Callable[[Container, ContainerStatus | None, bool], dict[str, int]]
) -> dict[str, int]:
    """Return the most that the containers of `pod` need at any time."""
    status = pod.status
    reported = {
        each.name: each
        for each in (*status.container_statuses, *status.init_container_statuses)
        if each.resources is not None
    }
    infeasible = bool(reported) and _is_resize_infeasible(pod)
    running: dict[str, int] = {}
    for container in pod.spec.containers:
        _add_to(running, of_one(container, reported.get(container.name), infeasible))
    starting: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    # Sidecars (restartPolicy Always) run beside the containers, other init containers before them:
    # https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
    for container in pod.spec.init_containers:
        if container.restart_policy == _ALWAYS:
            need = of_one(container, reported.get(container.name), infeasible)
            _add_to(running, need)
            _add_to(sidecars, need)
            _raise_to(starting, sidecars)
        else:
            _raise_to(starting, add(of_one(container, None, infeasible), sidecars))
    _raise_to(running, starting)
    return running


def _container_requests(
    container: Container, reported: ContainerStatus | None, infeasible: bool
) -> dict[str, int]:
    # The API server sets a missing request to the limit, which manifests on disk still lack:
    # https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
    asked = _parse_for(container, {**container.resources.limits, **container.resources.requests})
    if reported is None or reported.resources is None:
        return asked
    # While a resize is in progress the scheduler counts the larger of desired and allocated resources:
    # https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/
    held = maximum(
        _parse_for(container, reported.allocated_resources),
        _parse_for(container, reported.resources.requests),
    )
    return held if infeasible else maximum(asked, held)


def _container_limits(
    container: Container, reported: ContainerStatus | None, infeasible: bool
) -> dict[str, int]:
    limits = _parse_for(container, container.resources.limits)
    if reported is None or reported.resources is None:
        return limits
    held = _parse_for(container, reported.resources.limits)
    return held if infeasible else maximum(limits, held)


def _parse_for(container: Container, wire: Mapping[str, object]) -> dict[str, int]:
    try:
        return parse_resources(wire)
    except QuantityError as error:
        raise QuantityError(f"container {excerpt(container.name)}: {error}") from None


def _is_resize_infeasible(pod: Pod) -> bool:
    # An infeasible resize will not happen, so only what the kubelet allocated counts.
    if pod.status.resize == _INFEASIBLE:  # clusters older than 1.33
        return True
    return any(each.type == _RESIZE_PENDING and each.reason == _INFEASIBLE for each in pod.status.conditions)


def _add_to(result: dict[str, int], resources: Resources) -> None:
    for name, amount in resources.items():
        result[name] = result.get(name, 0) + amount


def _raise_to(result: dict[str, int], resources: Resources) -> None:
    for name, amount in resources.items():
        if name not in result or amount > result[name]:
            result[name] = amount


LARGEST: Final = 2**62 - 1
"""The largest amount of a resource; two of them add up within 64 bits."""


def uncountable(resources: Resources) -> str:
    """Return which amount is too large for the arrays; nothing when none is."""
    for name, amount in sorted(resources.items()):
        if not -LARGEST <= amount <= LARGEST:
            return f"{_written(name, amount)} is beyond what can be counted: expected at most {LARGEST}"
    return ""


def impossible(requests: Resources) -> str:
    """Return which request is negative or too large; nothing when none is."""
    for name, amount in sorted(requests.items()):
        if amount < 0:
            return f"{_written(name, amount)} is less than nothing: expected 0 or more"
    return uncountable(requests)


def cut(resources: Resources) -> dict[str, int]:
    """Return the amounts, those that are too large cut to the largest amount."""
    return {name: max(-LARGEST, min(LARGEST, amount)) for name, amount in resources.items()}


def _written(name: str, amount: int) -> str:
    return f"resource {name}: {render_amount(name, amount)}"
