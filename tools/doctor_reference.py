"""
The reference page of the doctor, written from the table of rules.

    python -m tools.doctor_reference > docs/reference/doctor.md
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from karpenter.doctor.rules import RULES, TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.doctor.rule import DoctorRule

_SOURCES: Final = (
    (
        "objects",
        r"`-f FILE\|DIR\|-`, `--context`",
        "manifests, or the objects of a live cluster; a file replaces the object of the same name",
    ),
    ("live", "`--context`", "the same, when all objects of a cluster are known"),
    ("kubernetes", "`--context`, `--cluster`, `--terraform`", "the version of the control plane"),
    (
        "charts",
        "`-f`, `--context`, `--terraform`",
        (
            "Helm's own record, HelmRelease of Flux, Application of Argo CD, helmCharts of Kustomize, "
            "files of values, `helm_release`"
        ),
    ),
    ("operator", "the Deployment, or a chart", "version, service account, role, settings"),
    (
        "aws",
        "`--region`, `--cluster`, or a live cluster on AWS",
        (
            "zones, subnets, security groups, roles and their policies, instance profiles, OIDC "
            "providers, the EKS cluster with add-ons, access entries, pod identity associations and "
            "Fargate profiles, the queue and its rules, quotas of vCPUs and what counts against them"
        ),
    ),
    ("policies", "`--policy FILE`, `-f`", "IAM policies, and those of the operator's role"),
    (
        "logs",
        "`--log FILE`, `--context`",
        (
            "any text, and the last 1000 lines (`--log-lines`) of each of the operator's pods, also before "
            "its last start; needs `get` on `pods/log`"
        ),
    ),
    (
        "terraform",
        "`--terraform DIR`",
        "the `.tf` files of one folder; needs `pip install python-hcl2`",
    ),
)


def _sources() -> str:
    rows = [f"| `{name}` | {given} | {what} |" for name, given, what in _SOURCES]
    return "\n".join(["| source | given by | what is read |", "|---|---|---|", *rows])


_HEAD: Final = f"""\
# karpenter doctor

This page is written by `python -m tools.doctor_reference`; a test fails when it is out of date.

`karpenter doctor` finds what is wrong with an installation and says what helps.
It changes nothing.
There are {len(RULES)} rules; each has a name, which is its anchor on this page.

```console
karpenter doctor -f cluster/
karpenter doctor --context production --region us-west-2 --cluster blue
karpenter doctor --policy controller-policy.json
kubectl -n kube-system logs -l app.kubernetes.io/name=karpenter --tail=-1 | karpenter doctor --log -
karpenter doctor --terraform infra/ -f karpenter.yaml
```

## What it looks at

Each source can be given alone, and all of them together.
A rule needs the sources that its entry names.
Where one is missing, or could not be read, the rule is skipped and counted.

{_sources()}

Without any option the cluster of the current context is looked at.
Of a live cluster on AWS, the region is taken from its machines, and the name from the operator's settings or
from the tags that its classes select by; the account is read with your credentials.
Without credentials, or with those of another account, its rules are not checked, and the reason is said;
with `--region` or `--cluster` that is an error.
The account takes `ec2:Describe*`, `eks:Describe*`, `eks:List*`, `iam:Get*`, `iam:List*`, `sqs:Get*`,
`events:Describe*`, `events:List*` and `servicequotas:ListServiceQuotas`; `ReadOnlyAccess` has them.
Only reads are made: list and get in the cluster, Describe, Get and List in the account.
A fact that AWS refuses to tell is named with AWS' own words, and the rest goes on.
Rules that look at a kind which may not be read in the cluster are not checked; the hint is a ClusterRole.

## What it prints

A finding is an error (something does not work, or will not), a warning (it costs money, safety or time) or
an info.
It names the file, the object and the field, what is wrong, what helps, and the rule.
For policies the place is file, line and column.

- `-o text` (the default) fits 80 columns; `-o lines` prints each finding on one line, for `grep`.
- `-o json` prints `errors`, `warnings`, `notes`, `checked`, `findings` (`rule`, `severity`, `source`,
  `object`, `field`, `message`, `fix`, `anchor`) and `skipped` (`reason`, `rules`).
- `--ignore RULE` leaves a rule out.

It exits with 0 when there is no error, with 1 when there is one, and with 2 when the input cannot be used.
"""


def page() -> str:
    return "\n".join([_HEAD, *(line for title, rules in TOPICS for line in _section(title, rules))])


def _section(title: str, rules: tuple[DoctorRule, ...]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| rule | severity | what is wrong |"
    yield "|---|---|---|"
    yield from (f"| [`{each.id}`](#{each.id}) | {each.severity} | {each.title} |" for each in rules)
    yield ""
    for each in rules:
        yield f"### {each.id}\n"
        yield each.title
        yield each.why + "\n"
        yield f"Fix: {_code(each.fix)}.\n"
        yield f"Needs {', '.join(f'`{need}`' for need in each.needs)}."
        if each.link:
            yield f"See <{each.link}>."
        yield ""


def _code(fix: str) -> str:
    """Return what helps; a command as code."""
    is_command = fix.startswith(("aws ", "kubectl ", "karpenter ", "eksctl ", "helm "))
    is_alone = not any(word in fix for word in (";", ", ", " says "))
    return f"`{fix}`" if is_command and is_alone else fix


if __name__ == "__main__":
    sys.stdout.write(page())
