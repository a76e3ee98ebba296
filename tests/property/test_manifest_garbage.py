"""Garbage in manifests: one sentence, or an object that every later step can cope with."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.api.manifests import documents, documents_or_refusals, read_object
from karpenter.api.meta import InvalidObject, Resource
from karpenter.api.pod import TopologySpreadConstraint
from karpenter.core.scheduling.build.policy import SchedulingPolicy
from karpenter.core.scheduling.problem import Options, Problem
from karpenter.core.scheduling.solve import solve
from karpenter.core.state.apps import expand_workloads
from karpenter.core.state.cluster import view_of
from karpenter_local.testing.cluster_problem import build_problem
from tests.property.manifests import OBJECTS, SPOILED
from tests.unit.core.scheduling.build.catalogue import CATALOG

if TYPE_CHECKING:
    from karpenter.core.scheduling.build.build import BuiltProblem

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
EVERYTHING = SchedulingPolicy(
    overlays=True,
    buffers=True,
    ignore_device_claims=False,
    spread_defaults=(
        TopologySpreadConstraint(max_skew=1, topology_key="zone", when_unsatisfiable="ScheduleAnyway"),
    ),
)
YAML_BITS = st.sampled_from(
    [
        "apiVersion: v1\n",
        "kind: Pod\n",
        "kind: List\nitems:\n",
        "metadata:\n",
        "  name: web\n",
        "- ",
        "---\n",
        "{",
        "}",
        "[",
        "]",
        ": ",
        "&a ",
        "*a",
        "<<: ",
        "!!int ",
        "!!timestamp x",
        "!!binary x",
        "? ",
        "|\n",
        "'",
        '"',
        "\t",
        "\x00",
        "%YAML 9.9\n",
    ]
)


def read(plain: list[dict[str, Any]]) -> list[Resource]:
    """Return the objects of a list as a file holds it, those that cannot be read left out."""
    text = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": plain}).decode()
    found = []
    for document in documents_or_refusals(text, "file.yaml"):
        try:
            each = None if isinstance(document, InvalidObject) else read_object(document)
        except InvalidObject:
            continue
        if each is not None:
            found.append(each)
    return found


def taken(objects: list[Resource]) -> BuiltProblem:
    """Return the problem of a cluster that consists of these objects."""
    view = view_of(expand_workloads(objects))
    return build_problem(view, CATALOG, now=NOON, options=Options(), policy=EVERYTHING)


@settings(deadline=None)
@given(st.text(max_size=60) | st.lists(YAML_BITS | st.text(max_size=3), max_size=25).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Whatever a file holds, either objects or one sentence comes out."""
    try:
        answers = [(document.subject, read_object(document)) for document in documents(text, "file.yaml")]
    except InvalidObject as error:
        answers = [(error.subject, None)]

    assert all(subject for subject, _ in answers)


@settings(deadline=None)
@given(SPOILED)
def test_spoiled_objects_are_read_or_refused(plain: list[dict[str, Any]]) -> None:
    """An object with garbage in it is read, or refused with its name; the others are not affected."""
    objects = read(plain)

    assert len(objects) >= len(OBJECTS) - 3


@settings(max_examples=200, deadline=None)
@given(SPOILED)
def test_spoiled_objects_never_stop_the_intake(plain: list[dict[str, Any]]) -> None:
    """Every object that can be read can be taken in: it counts, or it is left out with a sentence."""
    try:
        found = taken(read(plain))
    except InvalidObject as error:
        sentences = [str(error)]
    else:
        sentences = [*found.left_out, *(each.message for each in found.refusals)]

    assert all(sentences)


@settings(max_examples=60, deadline=None)
@given(SPOILED)
def test_spoiled_objects_never_stop_the_solver(plain: list[dict[str, Any]]) -> None:
    """Whatever was taken in can be solved: every pod has a place or a reason why not."""
    try:
        problem = taken(read(plain)).problem
    except InvalidObject:
        problem = Problem(pods=())
    plan = solve(problem)
    placed = [pod for pods in plan.placed.values() for pod in pods]
    placed += [pod for node in plan.new_nodes for pod in node.pods]

    assert sorted([*placed, *(each.pod for each in plan.refusals)]) == sorted(pod.key for pod in problem.pods)


def test_sound_objects_are_all_taken_in() -> None:
    """The objects that the other tests spoil have nothing wrong with them."""
    found = taken(read(list(OBJECTS)))

    assert (found.left_out, found.refusals, [each.obstacle for each in found.pools]) == ((), (), [""])
