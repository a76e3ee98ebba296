"""
What is wrong with what a class says, as far as nobody but us can tell.

The checks run in order; the first that fails is told, as a reason of the condition ``ValidationSucceeded``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.cloud.aws.families import family_of
from karpenter.cloud.aws.kubelet.expressions import (
    BadExpression,
    check_expression,
    expressions_of,
)
from karpenter.cloud.aws.kubelet.rules import check_family, check_settings
from karpenter.cloud.aws.launch.tagging import wrong_tags
from karpenter.cloud.aws.types.amounts import settle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.ec2nodeclass import EC2NodeClass
    from karpenter.cloud.aws.types.sold import SoldType
    from karpenter.cloud.aws.types.traits import Traits


class Fault(msgspec.Struct, frozen=True):
    """What is wrong with a class: a reason in one word, and a message for people."""

    reason: str
    message: str


def check_kubelet(node_class: EC2NodeClass, *, expressions: bool) -> Fault | None:
    """Return what is wrong with the kubelet settings of a class, whatever it has found."""
    kubelet = node_class.spec.kubelet
    wrong = check_settings(kubelet)
    if wrong:
        return Fault("InvalidKubeletConfiguration", "; ".join(wrong))
    written = expressions_of(kubelet)
    if written and not expressions:
        names = ", ".join(sorted(written))
        return Fault(
            "KubeletExpressionsDisabled",
            f"{names}: expressions need the feature gate NodeClassCEL, which is off",
        )
    for place, source in written.items():
        try:
            check_expression(source)
        except BadExpression as error:
            return Fault("KubeletExpressionInvalid", f"{place}: {error}")
    unsupported = check_family(kubelet, family_of(node_class.spec.family))
    if unsupported:
        return Fault("UnsupportedKubeletConfiguration", "; ".join(unsupported))
    return None


def check_tags(node_class: EC2NodeClass) -> Fault | None:
    """Return whether a class sets tags that are ours."""
    wrong = wrong_tags(node_class.spec.tags)
    if not wrong:
        return None
    return Fault("TagValidationFailed", f"spec.tags: {', '.join(map(repr, wrong))} may not be set")


def check_types(types: Iterable[SoldType], traits: Traits) -> Fault | None:
    """Return whether an expression of a class comes to nothing for some instance type."""
    for sold in types:
        try:
            machine = settle(sold, traits)
        except BadExpression as error:
            return Fault("KubeletExpressionEvaluationFailed", str(error))
        del machine
    return None
