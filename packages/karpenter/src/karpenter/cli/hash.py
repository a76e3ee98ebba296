"""
``karpenter hash``: the hashes of NodePools and EC2NodeClasses, as the operator stores them in annotations.

The spec is hashed as it is written. An API server fills defaults in before the operator sees the object, so
the hash of a manifest equals the one in the cluster only where the manifest states them too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.manifests import Document, documents
from karpenter.api.nodepool import NodePool
from karpenter.base.hashstructure import UnhashableError
from karpenter.base.pretty import excerpt
from karpenter.cli.errors import CommandError, telling
from karpenter.cli.files import files_option, read_texts
from karpenter.cli.output import Output, output_option_with, table
from karpenter.cloud.aws.nodeclass.hash import CLASS_HASH_VERSION, plain_class_hash
from karpenter.core.model.nodepool_hash import POOL_HASH_VERSION, plain_pool_hash

if TYPE_CHECKING:
    from collections.abc import Iterable


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
    default="",
    help="The CA bundle of the cluster, as in a kubeconfig; it counts for EC2NodeClasses.",
)
@output_option_with("text", "json")
@telling("hashing")
def hash_command(paths: tuple[str, ...], ca_bundle: str, output: Output) -> None:
    """
    Print the hash of every NodePool and EC2NodeClass.

    It is the number that Karpenter 1.14 writes into karpenter.sh/nodepool-hash and
    karpenter.k8s.aws/ec2nodeclass-hash. Nodes that carry another one have drifted.
    The spec is hashed as given: defaults are the API server's business, so read
    objects from the cluster to compare with its annotations. Other kinds are skipped.
    """
    found = [
        hashed
        for text in read_texts(paths)
        for document in documents(text.content, text.source)
        for hashed in _hashed(document, ca_bundle)
    ]
    if output.form == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    elif found:
        rows = [("KIND", "NAME", "VERSION", "HASH")]
        click.echo(table([*rows, *((each.kind, each.name, each.version, each.hash) for each in found)]))


def _hashed(document: Document, ca_bundle: str) -> Iterable[HashedObject]:
    spec = document.plain.get("spec", {})
    metadata = document.plain.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    try:
        if not isinstance(spec, dict):
            raise UnhashableError("spec", f"expected a map, not {excerpt(spec)}")  # noqa: TRY301
        if document.identity == (NodePool.api_version, NodePool.kind):
            yield HashedObject(NodePool.kind, str(name), POOL_HASH_VERSION, plain_pool_hash(spec))
        elif document.identity == (EC2NodeClass.api_version, EC2NodeClass.kind):
            found = plain_class_hash(spec, ca_bundle=ca_bundle)
            yield HashedObject(EC2NodeClass.kind, str(name), CLASS_HASH_VERSION, found)
    except UnhashableError as error:
        raise CommandError(
            f"{document.source}: {document.subject}: {error}",
            hint="karpenter validate says what each field allows",
        ) from error
