"""``karpenter validate``: checks manifests against schemas, CEL rules and runtime validation, offline."""

from collections.abc import Iterator

import click

from karpenter.api.manifests import Document, NotAnObject, documents_or_refusals
from karpenter.api.meta import InvalidObject
from karpenter.api.validation.documents import (
    Accepted,
    Finding,
    OldObjects,
    Outcome,
    ServerRules,
    Skipped,
    check_document,
    identify,
)
from karpenter.cli.errors import UNUSABLE, CommandError, note, one_line, telling
from karpenter.cli.files import files_option, objects_in, read_texts
from karpenter.cli.output import Output, output_option
from karpenter.cli.server_rules import server_rules
from karpenter.doctor.objects import ObjectFinding, object_findings


@click.command(
    epilog="Example:\n\n"
    "  karpenter validate -f nodepools/\n\n"
    "  kubectl get nodepools -o yaml | karpenter validate -f -",
)
@files_option(text="What to check")
@click.option(
    "--old",
    "old_path",
    metavar="FILE|DIR",
    type=click.Path(),
    help="What the cluster holds now: also check what may not change.",
)
@output_option
@telling("checking manifests")
def validate(paths: tuple[str, ...], old_path: str | None, output: Output) -> None:
    """
    Check manifests, offline, as strictly as a cluster and then some.

    NodePool, NodeClaim, NodeOverlay, CapacityBuffer and KWOKNodeClass are held against their schema,
    its rules, and what only the operator knows: restricted labels, schedules, quantities. Kinds of
    Kubernetes are held against the rules by which the embedded API server accepts a new object, and may
    have no unknown fields. Without karpenter-local a part of these rules is checked: types, names, labels,
    selectors, counts and amounts. Other kinds are named and left alone.

    Prints one line per problem: file, object, field, and what is allowed. What a cluster accepts and
    doctor finds in one object, such as a label value that no node has, is said on standard error.
    Exits 0 when there is none and 2 when there is one.
    """
    old = _read_old(old_path) if old_path else {}
    rules = server_rules()
    outcomes: list[Outcome] = []
    warnings: list[ObjectFinding] = []
    for text in read_texts(paths):
        for found in documents_or_refusals(text.content, text.source):
            told = list(_check(found, in_folder=text.in_folder, old=old, rules=rules))
            outcomes += told
            if not any(isinstance(each, Finding) for each in told) and isinstance(found, Document):
                warnings += object_findings(found)
    _report(outcomes, warnings, output)
    if any(isinstance(outcome, Finding) for outcome in outcomes):
        raise SystemExit(UNUSABLE)


def _check(
    found: Document | InvalidObject, *, in_folder: bool, old: OldObjects, rules: ServerRules | None
) -> Iterator[Outcome]:
    if in_folder and isinstance(found, NotAnObject):
        yield Skipped(source=found.subject)
    else:
        yield from check_document(found, old=old, rules=rules)


def _read_old(path: str) -> OldObjects:
    try:
        return {identify(document.plain): document.plain for document in objects_in((path,))}
    except CommandError as error:
        raise CommandError(f"--old: {error.message}") from error


def _report(outcomes: list[Outcome], warnings: list[ObjectFinding], output: Output) -> None:
    findings = [each for each in outcomes if isinstance(each, Finding)]
    skipped = [each for each in outcomes if isinstance(each, Skipped)]
    accepted = [each for each in outcomes if isinstance(each, Accepted)]
    if findings or not output.for_people:
        data = {"problems": findings, "skipped": skipped, "accepted": accepted, "warnings": warnings}
        output.write(data, text=lambda _: "\n".join(one_line(str(each)) for each in findings))
    for each in skipped:
        note(one_line(str(each)))
    for found in warnings:
        note(one_line(str(found)))
    bad = len({(each.source, each.subject) for each in findings})
    note(f"{_count(len(accepted))} accepted, {bad} refused, {len(skipped)} skipped")


def _count(number: int) -> str:
    return f"{number} object" if number == 1 else f"{number} objects"
