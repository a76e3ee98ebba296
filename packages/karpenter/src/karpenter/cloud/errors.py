"""
The errors that a cloud provider may raise, and what the operator does about each.

    CloudError
    |-- InsufficientCapacity   no capacity of these offerings: delete the claim and try others now
    |-- NodeClassNotReady      the node class cannot launch yet: delete the claim and wait for the class
    |-- MachineNotFound        already gone: for a termination, this is success
    |-- Throttled              too many calls: try again after ``retry_after``
    |-- LaunchRefused          the request is wrong: tell the user ``reason`` and message, try again slowly
    |-- LaunchFailed           something broke and a machine may exist: launch again, which finds it
    `-- CloudUnreachable       no answer to any other call: try again

A provider raises nothing else: an error of one of its libraries becomes one of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.core.model.catalog import OfferingName

_MAX_SHOWN_OFFERINGS: Final = 5


class CloudError(Exception):
    """Any error of a call to the cloud."""

    metric_label: ClassVar[str] = ""
    """The value of the label ``error`` of ``karpenter_cloudprovider_errors_total``."""


class InsufficientCapacity(CloudError):  # noqa: N818  named after what is wrong, as users know it
    """The cloud has no capacity of any offering that satisfies the claim."""

    metric_label = "InsufficientCapacityError"

    def __init__(self, *, offerings: Iterable[OfferingName] = (), because: str = "") -> None:
        self.offerings = tuple(offerings)
        """What was tried, in the order of trying; empty when there was nothing to try."""
        if not because and self.offerings:
            because = f"{_counted(len(self.offerings))} sold out: {_shown(self.offerings)}"
        super().__init__(because or "no offering satisfies the claim")


class NodeClassNotReady(CloudError):  # noqa: N818  as above
    """The node class cannot launch machines."""

    metric_label = "NodeClassNotReadyError"

    def __init__(self, *, node_class: str, because: str = "") -> None:
        super().__init__(f"node class {node_class} is not ready" + (f": {because}" if because else ""))
        self.node_class = node_class


class MachineNotFound(CloudError):  # noqa: N818  as above
    """The machine does not exist, or does not exist any longer."""

    metric_label = "NodeClaimNotFoundError"

    def __init__(self, provider_id: str) -> None:
        super().__init__(f"there is no machine {provider_id}")
        self.provider_id = provider_id


class Throttled(CloudError):  # noqa: N818  as above
    """The cloud limits the rate of calls."""

    def __init__(self, *, retry_after: float = 1.0) -> None:
        super().__init__(f"the cloud asks to slow down; trying again in {retry_after:g} s")
        self.retry_after = retry_after
        """Seconds to wait."""


class LaunchRefused(CloudError):  # noqa: N818  as above
    """The cloud refuses what the claim asks for, and says why."""

    def __init__(self, *, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        """One word for the condition ``Launched``, such as ``Unauthorized``."""


class LaunchFailed(CloudError):  # noqa: N818  as above
    """A launch failed unexpectedly, or its answer was lost."""


class CloudUnreachable(CloudError):  # noqa: N818  as above
    """A call other than a launch got no usable answer."""


def _counted(number: int) -> str:
    return "1 offering is" if number == 1 else f"{number} offerings are"


def _shown(offerings: tuple[OfferingName, ...]) -> str:
    shown = ", ".join(str(each) for each in offerings[:_MAX_SHOWN_OFFERINGS])
    others = len(offerings) - _MAX_SHOWN_OFFERINGS
    return f"{shown} and {others} other{'s' if others > 1 else ''}" if others > 0 else shown
