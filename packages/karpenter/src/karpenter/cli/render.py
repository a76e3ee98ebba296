"""``karpenter render``: the plan of an installation as Terraform, CloudFormation or values of the chart."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from karpenter.api.manifests import render_documents
from karpenter.cli.aws_options import aws_options, connect_aws, in_our_words
from karpenter.cli.errors import CommandError, note, telling
from karpenter.cli.files import write_files
from karpenter.cli.install import options_of, plan_for, plan_options
from karpenter.cli.option_values import kubernetes_minor
from karpenter.cli.output import output_option_with
from karpenter.cli.output import render as render_data

_EXAMPLES = (
    "Examples:\n\n"
    "  karpenter render terraform -c blue --write blue\n\n"
    "  karpenter render cloudformation -c blue --identity pod-identity > blue.yaml\n\n"
    "  karpenter render helm-values -c blue --set replicas=1\n\n"
    "  karpenter render terraform -c blue --identity pod-identity --account 111122223333 --region us-west-2 "
    "--subnet subnet-1 --security-group sg-1"
)
_ACCOUNT = re.compile(r"[0-9]{12}")
FORMS = ("terraform", "cloudformation", "helm-values")


@click.command(epilog=_EXAMPLES)
@click.argument("form", type=click.Choice(FORMS))
@plan_options
@aws_options
@click.option(
    "--account",
    default="",
    metavar="ID",
    help="Ask AWS nothing: this account, with --region, --subnet, --security-group.",
)
@click.option("--issuer", default="", metavar="URL", help="The OIDC issuer of the cluster, with --account.")
@click.option("--kubernetes-version", default="", metavar="VERSION", help="Of the cluster, with --account.")
@click.option(
    "--write",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    metavar="DIR",
    help="Write files into this folder, with the charts that Terraform installs.",
)
@output_option_with("text", "json")
@telling("rendering the installation")
def render(form: str, region: str, profile: str, folder: Path | None, output: Any, **options: Any) -> None:
    """
    Print an installation as code: terraform, cloudformation or helm-values.

    It is the plan that `karpenter install` makes with the same options, in another form: the
    names, the documents and the rules are the same. Nothing is changed. What the form cannot
    hold is said in it.
    """
    account, issuer = options.pop("account"), options.pop("issuer")
    version = options.pop("kubernetes_version")
    with in_our_words():
        if account:
            plan = _offline(options, account=account, region=region, issuer=issuer, version=version)
        else:
            plan = plan_for(*connect_aws(region, profile), options)
        files = _files(form, plan)
    if folder is not None:
        _write(folder, {**files, **_beside(form)})
    elif output.form == "json":
        click.echo(render_data(files, "json"), nl=False)
    else:
        click.echo("\n".join(files.values()), nl=False)


def _offline(options: dict[str, Any], *, account: str, region: str, issuer: str, version: str) -> Any:
    """
    Return the plan for a cluster that is described by options alone.

    Raises:
        CommandError: something is not said.
        InstallationError: it cannot be done there.
    """
    from karpenter.install.options import InstallationFacts  # noqa: PLC0415  commands load what they need
    from karpenter.install.plan import make_plan  # noqa: PLC0415  likewise

    if not _ACCOUNT.fullmatch(account):
        raise CommandError(f"--account {account!r}: an account is twelve digits")
    if not region:
        raise CommandError("--account needs --region", hint="--region us-west-2")
    if version:
        kubernetes_minor(version)
    if issuer and not issuer.startswith("https://"):
        raise CommandError(f"--issuer {issuer!r}: an issuer is a URL", hint=f"--issuer https://{issuer}")
    asked = options_of(options)
    if asked.naming == "eksdemo" and not asked.ami_alias:
        raise CommandError(
            "--naming eksdemo names images by their ids, which only AWS knows",
            hint="--ami-alias al2023@latest",
        )
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html
    partition = next(
        (p for start, p in (("cn-", "aws-cn"), ("us-gov-", "aws-us-gov")) if region.startswith(start)), "aws"
    )
    facts = InstallationFacts(
        cluster=asked.cluster,
        account=account,
        region=region,
        partition=partition,
        kubernetes=version,
        issuer=issuer,
        subnets=tuple(options["subnets"]),
        security_groups=tuple(options["security_groups"]),
    )
    return make_plan(asked, facts)


def _files(form: str, plan: Any) -> dict[str, str]:
    from karpenter.install.cloudformation import render_cloudformation  # noqa: PLC0415  only who asks for it
    from karpenter.install.plan import set_values  # noqa: PLC0415  likewise
    from karpenter.install.terraform import terraform_files  # noqa: PLC0415  likewise

    if form == "terraform":
        return terraform_files(plan)
    if form == "cloudformation":
        return {"karpenter.yaml": render_cloudformation(plan)}
    return {"values.yaml": render_documents([set_values(plan.release)])}


def _beside(form: str) -> dict[str, str]:
    """Return the files that those of a form need beside them."""
    from karpenter.install.terraform import charts  # noqa: PLC0415  only who writes them

    return charts() if form == "terraform" else {}


def _write(folder: Path, files: dict[str, str]) -> None:
    write_files({folder / name: text for name, text in files.items()}, option="--write")
    note(f"wrote {len(files)} files into {folder}")
