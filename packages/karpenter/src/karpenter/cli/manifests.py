"""``karpenter manifests``: prints all objects of an installation, without Helm."""

from __future__ import annotations

import re
from typing import Any, Final

import click

from karpenter.api.manifests import read_documents, render_documents
from karpenter.chart.chart import manifests as objects_of
from karpenter.chart.gotemplate import TemplateError
from karpenter.chart.permissions import SERVED_SINCE
from karpenter.chart.tree import CHART, MissingValue, Release
from karpenter.chart.values import BadValue, retired_values, values_of
from karpenter.cli.aws_options import kubernetes_name
from karpenter.cli.errors import CommandError, note, telling
from karpenter.cli.files import read_texts
from karpenter.cli.option_values import kubernetes_minor, release_name
from karpenter.cli.output import Output, output_option_with, render
from karpenter.cloud.aws.policy import PolicyScope, policies

_REGION_AND_ACCOUNT: Final = re.compile(r"[a-z]{2,4}(-[a-z]+)+-[0-9]/[0-9]{12}")


@click.command(
    epilog="Examples:\n\n"
    "  karpenter manifests --set settings.clusterName=blue | kubectl apply --server-side -f -\n\n"
    "  karpenter manifests --set settings.cloudProvider=kwok,settings.clusterName=try --output json\n\n"
    "  karpenter manifests --set settings.clusterName=blue"
    r' --set serviceAccount.annotations."eks\.amazonaws\.com/role-arn"=arn:aws:iam::111122223333:role/kp'
    "\n\n  karpenter manifests --set settings.clusterName=blue --iam us-west-2/111122223333 -o json"
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
@click.option(
    "--name", default=CHART, show_default=True, callback=release_name, help="The name of the release."
)
@click.option(
    "-n",
    "--namespace",
    default="kube-system",
    show_default=True,
    callback=kubernetes_name,
    help="Where the operator runs.",
)
@click.option("--create-namespace", is_flag=True, help="Print the namespace too, as the first object.")
@click.option("--skip-crds", is_flag=True, help="Leave the CustomResourceDefinitions out.")
@click.option(
    "--kubernetes-version",
    "kubernetes",
    metavar="VERSION",
    default="",
    help="Leave out what a cluster of this version, such as 1.29, does not serve.",
)
@click.option(
    "--iam",
    metavar="REGION/ACCOUNT",
    default="",
    help="Print instead the IAM policies that the operator needs there, by their names.",
)
@output_option_with("yaml", "json")
@telling("rendering the chart")
def manifests(  # noqa: PLR0917  one parameter per option
    sets: tuple[str, ...],
    paths: tuple[str, ...],
    name: str,
    namespace: str,
    create_namespace: bool,
    skip_crds: bool,
    kubernetes: str,
    iam: str,
    output: Output,
) -> None:
    """
    Print the objects that install the operator, ready for kubectl.

    They are those of the Helm chart in charts/karpenter, with the same values.
    """
    minor = kubernetes_minor(kubernetes) if kubernetes else None
    region, account = _place_of(iam) if iam else ("", "")
    try:
        values = values_of([each for path in paths for each in _values(path)], list(sets))
        if iam:
            _print_policies(values, region, account, output)
            return
        for warning in retired_values(values):
            note(f"warning: {warning}")
        release = Release(name=name, namespace=namespace, service="kubectl", values=values, kubernetes=minor)
        found = objects_of(release, definitions=not skip_crds, namespace=create_namespace)
    except MissingValue as error:
        raise CommandError(str(error), hint="state it with --set NAME=VALUE") from error
    except BadValue as error:
        sentence, _, hint = str(error).partition("; hint: ")
        raise CommandError(sentence, hint=hint or "charts/karpenter/values.yaml lists every value") from error
    except TemplateError as error:
        sentence, _, hint = str(error).partition("; hint: ")
        raise CommandError(
            sentence, hint=hint or "helm template charts/karpenter shows it in full"
        ) from error
    for each in found:
        if each["kind"] == "Deployment":
            _note_about_image(each["spec"]["template"]["spec"]["containers"][0]["image"])
    if minor is None and any(each["kind"] == "ValidatingAdmissionPolicy" for each in found):
        note(
            f"the ValidatingAdmissionPolicies need Kubernetes 1.{SERVED_SINCE};"
            " --kubernetes-version VERSION leaves them out for an older one"
        )
    if output.form == "yaml":
        click.echo(render_documents(found), nl=False)
    else:
        click.echo(render({"apiVersion": "v1", "kind": "List", "items": found}, "json"), nl=False)


def _note_about_image(image: str) -> None:
    """Say that an image without a registry cannot be pulled."""
    if "/" not in image:
        note(
            f"no registry has the image {image}: docs/guides/install.md says how to build and push it;"
            " then add --set controller.image.repository=REGISTRY/karpenter"
        )


def _place_of(text: str) -> tuple[str, str]:
    region, _, account = text.partition("/")
    if not _REGION_AND_ACCOUNT.fullmatch(text):
        raise CommandError(
            f"--iam: {text!r} is not a region and an account", hint="such as us-west-2/111122223333"
        )
    return region, account


def _print_policies(values: dict[str, Any], region: str, account: str, output: Output) -> None:
    settings = values.get("settings") or {}
    cluster = settings.get("clusterName")
    if not cluster:
        raise MissingValue("settings.clusterName: is required")
    place = PolicyScope(
        cluster=cluster,
        region=region,
        account=account,
        partition=_partition(region),
        queue=settings.get("interruptionQueue") or "",
    )
    click.echo(render(policies(place), output.form), nl=False)


def _partition(region: str) -> str:
    """Return the part of AWS that a region belongs to, as ARNs spell it."""
    known = (("cn-", "aws-cn"), ("us-gov-", "aws-us-gov"), ("us-iso-", "aws-iso"), ("us-isob-", "aws-iso-b"))
    return next((name for prefix, name in known if region.startswith(prefix)), "aws")


def _values(path: str) -> list[dict[str, object]]:
    found = []
    for text in read_texts([path]):
        for document in read_documents(text.content, source=text.source):
            if not isinstance(document, dict):
                raise BadValue(f"{text.source}: not a mapping of values")
            found.append(document)
    return found
