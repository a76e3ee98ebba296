"""Runtime validation of NodeOverlays; problems set the condition ValidationSucceeded to False."""

from karpenter.api.labels import LabelRules
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.schema.field import FieldProblem
from karpenter.api.validation.nodeclaim_validation import check_requirements


def validate_nodeoverlay(overlay: NodeOverlay, *, rules: LabelRules) -> tuple[FieldProblem, ...]:
    found = check_requirements(
        overlay.spec.requirements, "spec.requirements", rules=rules, not_in_needs_values=True
    )
    return tuple(found)
