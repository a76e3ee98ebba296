"""``karpenter doctor``: what is wrong with an installation, and what helps."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from karpenter.base.clock import SystemClock
from karpenter.base.files import read_bounded
from karpenter.base.pretty import nearest
from karpenter.cli.aws_options import eks_name
from karpenter.cli.cluster import cluster_refusal, run_quietly
from karpenter.cli.errors import CommandError, note, notes, one_line, telling
from karpenter.cli.files import files_option, read_texts
from karpenter.cli.option_values import aws_region
from karpenter.cli.output import Output, echo, output_option_with, render
from karpenter.doctor.facts import (
    DoctorFacts,
    LogText,
    PolicyText,
    TerraformBlock,
    cluster_name,
    region_of_cluster,
)
from karpenter.doctor.gather import LOG_LINES, Gathered, read_manifests
from karpenter.doctor.rule import ERROR, INFO, WARNING, DoctorFinding
from karpenter.doctor.rules import RULES, Diagnosis, diagnose
from karpenter.doctor.terraform import TerraformUnreadable, charts_in, read_terraform
from karpenter.kube.errors import KubeError

if TYPE_CHECKING:
    from collections.abc import Sequence


WIDTH: Final = 80
_ILL: Final = 1
"""The exit code when there is an error."""

_EXTRA: Final = "pip install python-hcl2"
_NO_LOGS: Final = "no log of the operator's pods was read: give --log FILE"


@click.command(
    epilog="Examples:\n\n"
    "  karpenter doctor -f cluster/\n\n"
    "  karpenter doctor --context production --region us-west-2 --cluster blue\n\n"
    "  karpenter doctor --log-lines 5000 -o json\n\n"
    "  karpenter doctor --policy controller-policy.json\n\n"
    "  kubectl -n kube-system logs -l app.kubernetes.io/name=karpenter --tail=-1"
    " | karpenter doctor --log -\n\n"
    "  karpenter doctor --terraform infra/ -f karpenter.yaml -o json"
)
@files_option(required=False, text="Manifests, values of the chart and policies")
@click.option(
    "--context", default=None, metavar="NAME", help="A live cluster, by a context of the kubeconfig."
)
@click.option("--kubeconfig", default="", metavar="FILE", help="The kubeconfig to use.")
@click.option("--region", default="", callback=aws_region, help="The AWS region of the account to look at.")
@click.option("-c", "--cluster", default="", callback=eks_name, help="The name of the EKS cluster.")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="FILE|-",
    type=click.Path(allow_dash=True),
    help="An IAM policy. May be repeated.",
)
@click.option(
    "--log",
    "logs",
    multiple=True,
    metavar="FILE|-",
    type=click.Path(allow_dash=True),
    help="A log of the operator or of an installation. May be repeated.",
)
@click.option(
    "--log-lines",
    type=click.IntRange(min=0),
    default=LOG_LINES,
    show_default=True,
    metavar="NUMBER",
    help="Last lines to read of each of the operator's pods; 0 reads none.",
)
@click.option(
    "--terraform",
    "folder",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="A folder of Terraform.",
)
@click.option("--ignore", multiple=True, metavar="RULE", help="A rule to leave out. May be repeated.")
@output_option_with("text", "lines", "json")
@telling("examining the installation")
def doctor(  # noqa: PLR0917  click hands over options by name
    paths: tuple[str, ...],
    context: str | None,
    kubeconfig: str,
    region: str,
    cluster: str,
    policies: tuple[str, ...],
    logs: tuple[str, ...],
    log_lines: int,
    folder: str | None,
    ignore: tuple[str, ...],
    output: Output,
) -> None:
    """
    Find what is wrong with an installation, and say what helps.

    Looks at manifests, a live cluster, an AWS account, IAM policies, logs and Terraform, at any of
    them alone or at all together, and changes nothing. Without any of them it looks at the cluster
    of the current context. Of a live cluster on AWS it takes region and name from what runs there,
    and reads the account too. Rules that need what was not given are skipped, and counted.

    Every finding names the object, the field, what helps, and the place in the reference that
    explains the rule. Exits 0 when there is no error, 1 when there is one, and 2 when the input
    cannot be used.
    """
    unknown = sorted(set(ignore) - {rule.id for rule in RULES})
    if unknown:
        raise CommandError(
            f"--ignore: there is no rule {unknown[0]!r}",
            hint=f"did you mean {near}?"
            if (near := nearest(unknown[0], (rule.id for rule in RULES)))
            else "docs/reference/doctor.md lists the rules",
        )
    live = context is not None or bool(kubeconfig)
    if not (live or paths or policies or logs or folder or region or cluster):
        live = True
    there = _live(kubeconfig, context or "", log_lines) if live else Gathered()
    facts = _facts(_files(paths), there if live else None)
    facts = _with_texts(facts, policies, logs)
    if folder is not None:
        facts = _with_terraform(facts, Path(folder))
    if region or cluster:
        facts = _with_account(facts, region, cluster)
    elif facts.live:
        facts = _with_its_account(facts)
    # From here on what may not be read is missed: what came before only completes what is known.
    diagnosis = diagnose(msgspec.structs.replace(facts, denied=dict(there.denied)), ignore=ignore)
    _report(diagnosis, output)
    if there.role:
        note(f"hint: an administrator lets you read the rest with {there.role}")
    if diagnosis.count(ERROR):
        raise SystemExit(_ILL)


def _files(paths: tuple[str, ...]) -> Gathered | None:
    return read_manifests((each.source, each.content) for each in read_texts(paths)) if paths else None


def _live(kubeconfig: str, context: str, lines: int) -> Gathered:
    """Read a live cluster; raises CommandError where there is none."""
    from karpenter.doctor.gather import read_cluster  # noqa: PLC0415  files need no client
    from karpenter.session.live import connected  # noqa: PLC0415  as above

    async def read() -> Gathered:
        async with connected(kubeconfig=kubeconfig, context=context) as connection:
            note(f"reading {connection.name}")
            return await read_cluster(connection.client, lines=lines)

    try:
        return run_quietly(read())
    except KubeError as error:
        refused = cluster_refusal(error)
        alone = "give manifests with -f to look at files alone"
        hint = f"{refused.hint}; {alone}" if refused.hint else alone
        raise CommandError(*refused.problems, hint=hint) from error


def _facts(files: Gathered | None, live: Gathered | None) -> DoctorFacts:
    """Return what files and a cluster say; a file replaces the object of the cluster that it names."""
    given = [each for each in (files, live) if each is not None]
    if not given:
        return DoctorFacts()
    written = files.objects if files is not None else ()
    replaced = {(each.identity, each.subject) for each in written}
    there = live.objects if live is not None else ()
    kept = [each for each in there if (each.identity, each.subject) not in replaced]
    charts = tuple(chart for source in given for chart in source.charts)
    policies = tuple(policy for source in given for policy in source.policies)
    if live is not None:
        notes(f"not read: {one_line(each)}" for each in live.unread)
        if live.denied:
            note(f"not read: {', '.join(live.denied)}: {one_line(next(iter(live.denied.values())))}")
    return DoctorFacts(
        objects=(*written, *kept),
        now=SystemClock().now() if live is not None else None,
        live=live is not None,
        kubernetes=live.kubernetes if live is not None else None,
        charts=charts or None,
        policies=policies or None,
        logs=(live.logs or None) if live is not None else None,
        unreadable=files.unreadable if files is not None else (),
        unread=_unread(live) if live is not None else {},
    )


def _unread(live: Gathered) -> dict[str, str]:
    """Return why sources of a cluster are missing."""
    found = {"logs": _NO_LOGS}
    if "Secret" in live.denied:
        found["charts"] = "Secrets, in which Helm keeps its releases, may not be read in the cluster"
    return found


def _with_texts(facts: DoctorFacts, policies: tuple[str, ...], logs: tuple[str, ...]) -> DoctorFacts:
    if policies:
        read = tuple(PolicyText(source=each.source, text=each.content) for each in read_texts(policies))
        facts = msgspec.structs.replace(facts, policies=(*(facts.policies or ()), *read))
    if logs:
        texts = tuple(LogText(source=each.source, text=each.content) for each in read_texts(logs))
        facts = msgspec.structs.replace(facts, logs=(*(facts.logs or ()), *texts))
    return facts


def _with_terraform(facts: DoctorFacts, folder: Path) -> DoctorFacts:
    texts = {str(path): read_bounded(path).decode("utf-8") for path in sorted(folder.glob("*.tf"))}
    if not texts:
        raise CommandError(f"--terraform: {folder}: no file here ends with .tf")
    try:
        blocks = read_terraform(texts, folder=folder.resolve().name)
    except ModuleNotFoundError:
        reason = f"--terraform: {folder} is not read, because python-hcl2 is not installed: {_EXTRA}"
        note(reason)
        return msgspec.structs.replace(facts, unread={**facts.unread, "terraform": reason})
    except TerraformUnreadable as error:
        raise CommandError(f"--terraform: {error}") from error
    charts = (*(facts.charts or ()), *charts_in(blocks))
    return msgspec.structs.replace(
        facts, terraform=blocks, charts=charts or None, kubernetes=facts.kubernetes or _version_in(blocks)
    )


def _version_in(blocks: Sequence[TerraformBlock]) -> str | None:
    fields = ("cluster_version", "kubernetes_version")
    stated = [each.body.get(name) for each in blocks for name in fields]
    stated += [each.body.get("version") for each in blocks if each.type == "aws_eks_cluster"]
    found = (str(each or "") for each in stated)
    return next((text for text in found if text and "${" not in text), None)


def _with_its_account(facts: DoctorFacts) -> DoctorFacts:
    """Read the account of a live cluster on AWS; where that fails, say so and go on without."""
    region, cluster = region_of_cluster(facts), cluster_name(facts)
    if not cluster or not (region or next(facts.classes(), None)):
        return facts
    try:
        return _with_account(facts, region, cluster)
    except CommandError as error:
        reason = f"the AWS account was not read: {'; '.join(error.problems)}: give --region and --cluster"
        return msgspec.structs.replace(facts, unread={**facts.unread, "aws": reason})


def _with_account(facts: DoctorFacts, region: str, cluster: str) -> DoctorFacts:
    """Read the account; raises CommandError where the region or the cluster is not known."""
    name = cluster or cluster_name(facts)
    if not name:
        raise CommandError("the name of the EKS cluster is not known", hint="give it with --cluster")
    try:
        import boto3  # noqa: PLC0415  an extra

        from karpenter.doctor.gather_aws import AccountReader  # noqa: PLC0415  as above
    except ModuleNotFoundError as error:
        raise CommandError("boto3 is not installed", hint="pip install boto3") from error
    session = boto3.Session(region_name=region or None)
    if not session.region_name:
        raise CommandError("the AWS region is not known", hint="give it with --region")
    note(f"reading the AWS account, {session.region_name}, cluster {name} ...")
    facts = msgspec.structs.replace(facts, region=session.region_name, cluster=name)
    client: Any = session.client
    reader = AccountReader(client, region=session.region_name, cluster=name)
    aws = reader.read(facts)
    if aws.eks is None and aws.subnets is None and aws.roles is None:
        problem = reader.unread.get("aws.eks") or next(iter(sorted(reader.unread.values())))
        raise CommandError(
            f"the AWS account cannot be read: {problem.partition(': ')[2] or problem}",
            hint="aws sts get-caller-identity shows whether AWS can be asked",
        )
    if reader.missing:
        known = ", ".join(reader.clusters())
        hint = f"there are: {known}" if known else "another --region, or another account?"
        raise CommandError(f"cluster {name} does not exist in {session.region_name}", hint=hint)
    version = aws.eks.version if aws.eks is not None else ""
    return msgspec.structs.replace(
        facts,
        aws=aws,
        kubernetes=facts.kubernetes or version or None,
        unread={**facts.unread, **reader.unread},
    )


def _report(diagnosis: Diagnosis, output: Output) -> None:
    if output.form == "json":
        click.echo(render(_data(diagnosis), "json"), nl=False)
    else:
        for each in diagnosis.findings:
            line = one_line(str(each))
            echo(paragraph(each) if output.form == "text" else line)
    for skipped in diagnosis.skipped:
        text = f"not checked: {_counted(len(skipped.rules), 'rule')}, {skipped.reason}"
        note(textwrap.fill(one_line(text), WIDTH, subsequent_indent="  "))
    counts = ", ".join(
        _counted(diagnosis.count(severity), noun)
        for severity, noun in ((ERROR, "error"), (WARNING, "warning"), (INFO, "note"))
    )
    note(f"{counts}; {_counted(diagnosis.checked, 'rule')} checked")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def paragraph(finding: DoctorFinding) -> str:
    """Return a finding in lines of 80 columns: what is wrong where, then what helps."""
    place = ": ".join(part for part in (finding.source, finding.object, finding.field) if part)
    first = f"{finding.severity}: {place}: {finding.message}"
    return "\n".join([_filled(first), _filled(finding.fix, "  fix: "), _filled(finding.anchor, "  see ")])


def _filled(text: str, begin: str = "") -> str:
    return textwrap.fill(
        one_line(text),
        WIDTH,
        initial_indent=begin,
        subsequent_indent="    ",
        break_long_words=False,  # names and addresses stay whole, for copying
        break_on_hyphens=False,
    )


def _data(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "errors": diagnosis.count(ERROR),
        "warnings": diagnosis.count(WARNING),
        "notes": diagnosis.count(INFO),
        "checked": diagnosis.checked,
        "findings": diagnosis.findings,
        "skipped": diagnosis.skipped,
    }
