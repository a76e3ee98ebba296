"""KWOKNodeClass: the node class of the cloud in memory."""

from typing import ClassVar

from karpenter.api.meta import Condition, Resource
from karpenter.api.wire import Wire


class KWOKNodeClassSpec(Wire, frozen=True, kw_only=True):
    """How the cloud in memory behaves."""

    node_registration_delay: str | None = None


class KWOKNodeClassStatus(Wire, frozen=True, kw_only=True):
    """Whether nodes can be made of this class."""

    conditions: tuple[Condition, ...] = ()


class KWOKNodeClass(Resource, frozen=True, kw_only=True):
    """How nodes of the cloud in memory are made."""

    api_version: ClassVar[str] = "karpenter.kwok.sh/v1alpha1"
    kind: ClassVar[str] = "KWOKNodeClass"

    spec: KWOKNodeClassSpec = KWOKNodeClassSpec()
    status: KWOKNodeClassStatus = KWOKNodeClassStatus()
