"""
Karpenter in stacks of CDK: add-ons, a builder, and constructs for NodePools and EC2NodeClasses.

Needs the extra ``cdk`` and node. :mod:`.rules`, :mod:`.props` and :mod:`.planning` are pure
and need neither: what is refused, and what an add-on consists of, can be known without them.
"""

from __future__ import annotations

import importlib
import shutil
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from karpenter.cdk.rules import AddOnError

if TYPE_CHECKING:
    from karpenter.cdk.blueprint import (
        AddOnContext,
        AwsNodeTerminationHandlerAddOn,
        ClusterAddOn,
        ClusterAutoScalerAddOn,
        EksBlueprint,
        KarpenterAddOn,
        KarpenterV1AddOn,
        VpcCniAddOn,
        deploy_add_ons,
        kubectl_layer,
    )
    from karpenter.cdk.constructs import EC2NodeClassConstruct as EC2NodeClass
    from karpenter.cdk.constructs import NodePoolConstruct as NodePool

__all__ = [
    "AddOnContext",
    "AddOnError",
    "AwsNodeTerminationHandlerAddOn",
    "ClusterAddOn",
    "ClusterAutoScalerAddOn",
    "EC2NodeClass",
    "EksBlueprint",
    "KarpenterAddOn",
    "KarpenterV1AddOn",
    "NodePool",
    "VpcCniAddOn",
    "deploy_add_ons",
    "kubectl_layer",
]

_LIBRARY: Final = "karpenter.cdk needs aws-cdk-lib 2.275 or later; hint: pip install aws-cdk-lib"
_CONSTRUCTS: Final = {"EC2NodeClass": "EC2NodeClassConstruct", "NodePool": "NodePoolConstruct"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec("aws_cdk") is None:
        raise ImportError(_LIBRARY)
    if shutil.which("node") is None:
        raise ImportError("karpenter.cdk needs node, on which CDK runs; hint: install Node.js 22 or later")
    if find_spec("aws_cdk.aws_eks_v2") is None:  # too old, or only a package of kubectl beside it
        raise ImportError(_LIBRARY)
    module = "constructs" if name in _CONSTRUCTS else "blueprint"
    return getattr(importlib.import_module(f"karpenter.cdk.{module}"), _CONSTRUCTS.get(name, name))
