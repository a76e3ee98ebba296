"""
``karpenter hash``: the hashes of NodePools and EC2NodeClasses, as the operator stores them in annotations.

An API server fills the defaults of our CustomResourceDefinitions in before the operator sees an object, so
they are filled in here, too. The hash of an EC2NodeClass also covers the CA bundle of the cluster, which no
manifest has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.kinds import KINDS
from karpenter.api.nodepool import NodePool
from karpenter.api.schema import apply_defaults
from karpenter.api.validation.documents import refusal, unknown_kind
from karpenter.api.validation.objects import schema_of
from karpenter.base.hashstructure import UnhashableError
from karpenter.base.pretty import excerpt
from karpenter.cli import option_values
from karpenter.cli.errors import CommandError, note, telling
from karpenter.cli.files import files_option, objects_in
from karpenter.cli.output import Output, output_option_with, table
from karpenter.cloud.aws.nodeclass.hash import CLASS_HASH_VERSION, plain_class_hash
from karpenter.core.model.nodepool_hash import POOL_HASH_VERSION, plain_pool_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.manifests import Document


class HashedObject(msgspec.Struct, frozen=True):
    """An object and its hash."""

    kind: str
    name: str
    version: str
    hash: str


@click.command(
    "hash",
    epilog="Example:\n\n"
    "  karpenter hash -f nodepools/ -o json\n\n"
    "  kubectl get nodepools,ec2nodeclasses -o yaml | karpenter hash -f -",
)
@files_option(text="What to hash")
@click.option(
    "--ca-bundle",
    metavar="BASE64",
    callback=option_values.ca_bundle,
    help="The CA bundle of the cluster, as in a kubeconfig; the hash of an EC2NodeClass covers it.",
)
@output_option_with("text", "json")
@telling("hashing")
def hash_command(paths: tuple[str, ...], ca_bundle: str | None, output: Output) -> None:
    """
    Print the hash of every NodePool and EC2NodeClass.

    It is the number that Karpenter 1.14 writes into karpenter.sh/nodepool-hash and
    karpenter.k8s.aws/ec2nodeclass-hash. Nodes that carry another one have drifted.
    What a manifest leaves out counts with the default of the CustomResourceDefinition,
    as in a cluster, and is named on standard error; so is a CA bundle that is missing.
    Other kinds are skipped.
    """
    objects = list(objects_in(paths))
    refused = [
        f"{each.source}: {each.subject}: {sentence}"
        for each in objects
        if (sentence := refusal(*each.identity) or unknown_kind(*each.identity))
    ]
    if refused:
        raise CommandError(*refused)
    found = [_hashed(each, ca_bundle or "") for each in objects if each.identity in _HASHED]
    if ca_bundle is None and any(each.kind == EC2NodeClass.kind for each in found):
        note(
            "warning: the hash of an EC2NodeClass covers the CA bundle of its cluster, so no cluster has the "
            f'hash that is printed without it; add --ca-bundle "$({_CA_BUNDLE})"'
        )
    if output.form == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    elif found:
        rows = [("KIND", "NAME", "VERSION", "HASH")]
        click.echo(table([*rows, *((each.kind, each.name, each.version, each.hash) for each in found)]))


_HASHED: Final = frozenset({(each.api_version, each.kind) for each in (NodePool, EC2NodeClass)})
_CA_BUNDLE: Final = (
    "kubectl config view --raw --minify -o jsonpath='{.clusters[0].cluster.certificate-authority-data}'"
)


def _hashed(document: Document, ca_bundle: str) -> HashedObject:
    metadata = document.plain.get("metadata")
    name = str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
    try:
        spec = _as_stored(document)
        if document.identity[1] == NodePool.kind:
            return HashedObject(NodePool.kind, name, POOL_HASH_VERSION, plain_pool_hash(spec))
        found = plain_class_hash(spec, ca_bundle=ca_bundle)
        return HashedObject(EC2NodeClass.kind, name, CLASS_HASH_VERSION, found)
    except UnhashableError as error:
        raise CommandError(
            f"{document.source}: {document.subject}: {error}",
            hint="karpenter validate says what each field allows",
        ) from error


def _as_stored(document: Document) -> dict[str, Any]:
    """Return the spec with its defaults, of which those that the hash covers are named."""
    given = document.plain.get("spec", {})
    if not isinstance(given, dict):
        raise UnhashableError("spec", f"expected a map, not {excerpt(given)}")
    spec: dict[str, Any] = apply_defaults(schema_of(KINDS[document.identity]).properties["spec"], given)
    covered = {"template"} if document.identity[1] == NodePool.kind else spec.keys()
    defaults = [
        each for name in sorted(covered) for each in _added(given.get(name), spec.get(name), f"spec.{name}")
    ]
    if defaults:
        note(f"{document.source}: {document.subject}: counted with its default: {', '.join(defaults)}")
    return spec


def _added(given: Any, filled: Any, path: str) -> Iterator[str]:
    """Yield each field that has a value in `filled` alone, with that value."""
    if isinstance(given, list):
        for number, (old, new) in enumerate(zip(given, filled, strict=True)):
            yield from _added(old, new, f"{path}[{number}]")
    elif isinstance(filled, dict) and isinstance(given, dict | None):
        for key, value in filled.items():
            yield from _added((given or {}).get(key), value, f"{path}.{key}")
    elif given is None and filled is not None:
        yield f"{path}: {filled}"
