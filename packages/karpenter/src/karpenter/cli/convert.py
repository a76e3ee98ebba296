"""``karpenter convert``: manifests, values and node groups from before version 1, as what version 1 reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from karpenter.api.manifests import read_documents
from karpenter.api.meta import InvalidObject
from karpenter.cli.errors import CommandError, note, one_line, telling
from karpenter.cli.files import SourceText, files_option, read_texts, write_files
from karpenter.convert.documents import ConvertedDocument, OldDocument, convert_documents
from karpenter.convert.findings import ERROR, INFO, WARN, ConversionFinding, ConversionOptions
from karpenter.convert.nodegroups import is_description
from karpenter.convert.rewrite import TextSegment, rewrite, split_documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_LEFT = 1
"""The exit code when something could not be converted."""


class _Piece(msgspec.Struct):
    """A document of a file, before and after."""

    segment: TextSegment
    old: OldDocument | None = None
    converted: ConvertedDocument | None = None
    unreadable: ConversionFinding | None = None

    @property
    def text(self) -> str:
        """The document as it is now; as it was where nothing changed."""
        if self.converted is None or self.converted.new is None:
            return self.segment.body
        return rewrite(self.segment.body, self.converted.old.plain, self.converted.new)

    @property
    def plains(self) -> list[Any]:
        return self.converted.plains if self.converted is not None else []


class _File(msgspec.Struct):
    """A file, document by document."""

    source: str
    content: str
    pieces: list[_Piece]

    @property
    def text(self) -> str:
        return "".join(_joined(self.pieces))

    @property
    def changed(self) -> bool:
        return self.text != self.content


@click.command(
    epilog="Examples:\n\n"
    "  karpenter convert -f provisioners/ > nodepools.yaml\n\n"
    "  karpenter convert -f cluster/ --node-role KarpenterNodeRole-prod --in-place\n\n"
    "  kubectl get provisioners,awsnodetemplates -o yaml | karpenter convert -f -\n\n"
    "  aws autoscaling describe-auto-scaling-groups > asgs.json\n\n"
    "  karpenter convert -f asgs.json --node-role KarpenterNodeRole-prod",
)
@files_option(text="What to convert")
@click.option(
    "--node-role", default="", metavar="NAME", help="The IAM role of nodes, where an object names none."
)
@click.option("--in-place", is_flag=True, help="Write the files instead of standard output.")
@click.option(
    "--report",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to print what was found, on standard error.",
)
@click.option(
    "--ignore-defaults", is_flag=True, help="Do not spell out requirements that v1alpha5 added by itself."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="How to print documents.",
)
@telling("converting")
def convert(  # noqa: PLR0917  click hands over options by name
    paths: tuple[str, ...], node_role: str, in_place: bool, report: str, ignore_defaults: bool, output: str
) -> None:
    """
    Convert manifests from before version 1 to version 1, offline.

    Reads Provisioner and AWSNodeTemplate, v1beta1 kinds, values of every generation of the Helm chart,
    props of the CDK add-on, workloads that use old labels, alerts and dashboards with old metrics, and node
    groups of Cluster Autoscaler (as `aws autoscaling describe-auto-scaling-groups` or a config of eksctl
    describes them). Comments, order and documents of other kinds are kept. What is converted already stays
    as it is.

    Documents go to standard output, findings to standard error: info (renamed), warn (behaves differently),
    error (has no counterpart; the object is left as it was, and --in-place writes nothing).
    Exits 0 when everything is converted, 1 when something could not be, 2 when the input cannot be used.
    """
    options = ConversionOptions(node_role=node_role, ignore_defaults=ignore_defaults)
    files = [_File(each.source, each.content, list(_pieces(each))) for each in read_texts(paths)]
    pieces = [piece for each in files for piece in each.pieces]
    unreadable = [piece.unreadable for piece in pieces if piece.unreadable is not None]
    readable = [piece for piece in pieces if piece.old is not None]
    if not readable:
        problems = [f"{each.source}: {each.message}" for each in unreadable]
        raise CommandError(*(problems or [f"{', '.join(paths)}: no document to convert"]))
    converted = convert_documents([piece.old for piece in readable if piece.old is not None], options)
    for piece, each in zip(readable, converted, strict=True):
        piece.converted = each
    findings = [*unreadable, *(finding for each in converted for finding in each.findings)]
    failed = any(each.level == ERROR for each in findings)
    if in_place:
        _write(files, failed=failed)
    else:
        click.echo(_printed(files, output), nl=False)
    _report(findings, converted, report)
    if failed:
        raise SystemExit(_LEFT)


def _pieces(text: SourceText) -> Iterator[_Piece]:
    for segment in split_documents(text.content):
        try:
            # Lines before the document keep their number in messages.
            found = list(read_documents("\n" * segment.line + segment.body, source=text.source))
        except InvalidObject as error:
            finding = ConversionFinding(
                level=ERROR,
                code="Unreadable",
                message=f"{error.problem}; left as it is",
                field=error.field,
                source=text.source,
            )
            yield _Piece(segment, unreadable=finding)
            continue
        yield _Piece(segment, old=OldDocument(plain=found[0], source=text.source) if found else None)


def _joined(pieces: Iterable[_Piece]) -> Iterator[str]:
    ended = True
    for piece in pieces:
        if piece.segment.separator and not ended:
            yield "\n"  # the document before this one has no line break at its end
        yield piece.segment.separator
        text = piece.text
        if piece.segment.separator.endswith((" ", "\t")) and text != piece.segment.body:
            yield "\n"  # the old document began on the line of its separator
        yield text
        ended = not text or text.endswith("\n")


def _printed(files: list[_File], output: str) -> str:
    if output == "json":
        found = [plain for each in files for piece in each.pieces for plain in piece.plains]
        return json.dumps(_listed(found), indent=2) + "\n"
    texts = [each.text for each in files if each.text.strip()]
    texts = [each if each.endswith("\n") else f"{each}\n" for each in texts]
    return "".join(
        each if number == 0 or each.startswith("---") else f"---\n{each}" for number, each in enumerate(texts)
    )


def _listed(plains: list[Any]) -> Any:
    if len(plains) == 1:
        return plains[0]
    return {"apiVersion": "v1", "kind": "List", "items": plains}


def _write(files: list[_File], *, failed: bool) -> None:
    for each in files:
        if each.source == "stdin":
            raise CommandError("--in-place: standard input is not a file")
        for piece in each.pieces:
            if (
                piece.old is not None
                and isinstance(piece.old.plain, dict)
                and is_description(piece.old.plain)
            ):
                raise CommandError(
                    f"--in-place: {each.source} describes node groups, which are not replaced by "
                    "their NodePools",
                    hint="leave --in-place out and redirect standard output to a file",
                )
    if failed:
        return
    for each in files:
        if each.changed:
            is_json = each.source.endswith(".json")
            plains = [plain for piece in each.pieces for plain in piece.plains]
            text = json.dumps(_listed(plains), indent=2) + "\n" if is_json else each.text
            write_files({Path(each.source): text}, option="--in-place")
            note(f"{each.source}: written")


def _report(findings: list[ConversionFinding], converted: list[ConvertedDocument], form: str) -> None:
    changed = sum(each.new is not None for each in converted)
    counts = {level: sum(each.level == level for each in findings) for level in (INFO, WARN, ERROR)}
    if form == "json":
        data = {"converted": changed, "unchanged": len(converted) - changed, **counts, "findings": findings}
        note(msgspec.json.format(msgspec.json.encode(data), indent=2).decode())
        return
    for level in (ERROR, WARN, INFO):
        for each in findings:
            if each.level == level:
                note(one_line(str(each)))
    noun = "document" if len(converted) == 1 else "documents"
    note(
        f"{changed} of {len(converted)} {noun} converted: "
        f"{counts[ERROR]} errors, {counts[WARN]} warnings, {counts[INFO]} renamed or moved"
    )
