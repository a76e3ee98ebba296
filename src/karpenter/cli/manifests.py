"""``karpenter manifests``: everything that an installation consists of, without Helm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from karpenter.api.yamltext import read_documents, render_documents
from karpenter.cli.errors import Refused
from karpenter.cli.files import read_texts
from karpenter.cli.output import output_option_with, render
from karpenter.delivery.chart import manifests as objects_of
from karpenter.delivery.filling import CHART, MissingValue, Release
from karpenter.delivery.overrides import BadValue, values_of

if TYPE_CHECKING:
    from karpenter.cli.output import Output


@click.command(
    epilog="Examples:\n\n"
    "  karpenter manifests --set settings.clusterName=blue | kubectl apply --server-side -f -\n\n"
    "  karpenter manifests --set settings.cloudProvider=kwok,settings.clusterName=try --output json\n\n"
    "  karpenter manifests --set settings.clusterName=blue"
    r' --set serviceAccount.annotations."eks\.amazonaws\.com/role-arn"=arn:aws:iam::111122223333:role/kp'
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="NAME=VALUE",
    help="A value of the chart; several with commas. May be repeated.",
)
@click.option(
    "-f",
    "--values",
    "paths",
    multiple=True,
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="A file with values, as for Helm, or - for standard input. May be repeated.",
)
@click.option("--name", default=CHART, show_default=True, help="The name of the release.")
@click.option("-n", "--namespace", default="kube-system", show_default=True, help="Where the operator runs.")
@click.option("--skip-crds", is_flag=True, help="Leave the CustomResourceDefinitions out.")
@output_option_with("yaml", "json")
def manifests(  # noqa: PLR0917  one parameter per option
    sets: tuple[str, ...],
    paths: tuple[str, ...],
    name: str,
    namespace: str,
    skip_crds: bool,
    output: Output,
) -> None:
    """
    Print the objects that install the operator, ready for kubectl.

    They are those of the Helm chart in charts/karpenter, with the same values.
    """
    try:
        values = values_of([each for path in paths for each in _values(path)], list(sets))
        release = Release(name=name, namespace=namespace, values=values)
        found = objects_of(release, definitions=not skip_crds)
    except MissingValue as error:
        raise Refused(str(error), hint="state it with --set NAME=VALUE") from error
    except BadValue as error:
        raise Refused(str(error), hint="charts/karpenter/values.yaml lists every value") from error
    if output.form == "yaml":
        click.echo(render_documents(found), nl=False)
    else:
        click.echo(render({"apiVersion": "v1", "kind": "List", "items": found}, "json"), nl=False)


def _values(path: str) -> list[dict[str, object]]:
    found = []
    for text in read_texts([path]):
        for document in read_documents(text.content, source=text.source):
            if not isinstance(document, dict):
                raise BadValue(f"{text.source}: not a mapping of values")
            found.append(document)
    return found
