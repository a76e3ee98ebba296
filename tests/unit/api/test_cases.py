"""What is accepted and what is refused, for each of our kinds."""

import pytest

from karpenter.api.kinds import KINDS
from karpenter.api.validation.objects import check_object
from tests.unit.api.cases.buffers import BUFFER_CASES, NODE_CLASS_CASES
from tests.unit.api.cases.case import Case, params
from tests.unit.api.cases.claims import CLAIM_CASES
from tests.unit.api.cases.ec2classes import EC2_CLASS_CASES
from tests.unit.api.cases.overlays import OVERLAY_CASES
from tests.unit.api.cases.pools import POOL_CASES
from tests.unit.api.cases.templates import TEMPLATE_CASES

ALL = [
    *POOL_CASES,
    *TEMPLATE_CASES,
    *CLAIM_CASES,
    *OVERLAY_CASES,
    *BUFFER_CASES,
    *NODE_CLASS_CASES,
    *EC2_CLASS_CASES,
]


def fields_refused(case: Case) -> list[str]:
    """Return the fields that our checks refuse."""
    kind = KINDS[case.plain["apiVersion"], case.plain["kind"]]
    return [problem.field for problem in check_object(kind, case.plain, old=case.old)]


@pytest.mark.parametrize("case", params([case for case in ALL if case.field is None]))
def test_accepted(case: Case) -> None:
    """An object without mistakes has no problems."""
    assert fields_refused(case) == []


@pytest.mark.parametrize("case", params([case for case in ALL if case.field is not None]))
def test_refused(case: Case) -> None:
    """An object with a mistake is refused, and the field that is wrong is named."""
    assert case.field in fields_refused(case)
