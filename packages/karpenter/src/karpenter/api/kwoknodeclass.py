"""KWOKNodeClass: the node class of the kwok provider, a cloud in memory."""

from datetime import UTC, datetime
from typing import Annotated, ClassVar

from karpenter.api.constraints import DURATION, constraint
from karpenter.api.meta import Condition, Resource, Wire

_ALWAYS = datetime(2024, 1, 1, tzinfo=UTC)
_READY = Condition(type="Ready", status="True", last_transition_time=_ALWAYS)


class KWOKNodeClassSpec(Wire, frozen=True, kw_only=True):
    """Behaviour of the cloud in memory."""

    node_registration_delay: Annotated[str | None, constraint(pattern=DURATION)] = None
    """How long a machine takes to become a node. Absent means that it does so at once."""


class KWOKNodeClassStatus(Wire, frozen=True, kw_only=True):
    """Conditions that say whether nodes can be made of this class."""

    conditions: Annotated[tuple[Condition, ...], constraint(list_type="map", list_keys=("type",))] = ()
    """Whether nodes can be made of this class; they can unless this status says otherwise."""


class KWOKNodeClass(Resource, frozen=True, kw_only=True):
    """Settings of nodes of the cloud in memory."""

    api_version: ClassVar[str] = "karpenter.kwok.sh/v1alpha1"
    kind: ClassVar[str] = "KWOKNodeClass"

    spec: KWOKNodeClassSpec = KWOKNodeClassSpec()
    """How the cloud in memory behaves."""

    status: Annotated[
        KWOKNodeClassStatus,
        constraint(
            default={
                "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z"}
                ]
            }
        ),
    ] = KWOKNodeClassStatus(conditions=(_READY,))
    """Whether nodes can be made of this class."""
