"""
The reference page of the settings, written from their declarations.

    python -m tools.settings_reference > docs/reference/settings.md
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from karpenter.chart.known_values import VALUES
from karpenter.chart.objects import variables
from karpenter.chart.tree import Joined, ListItems, Required, Templated, TextValue, When
from karpenter.operator.options import GATES, SETTINGS, Setting

if TYPE_CHECKING:
    from collections.abc import Iterator


_HEAD: Final = """\
# Settings

This page is written by `python -m tools.settings_reference`; a test fails when it is out of date.

Every setting of `karpenter run` is a flag and an environment variable; the flag wins.
A value that cannot be read refuses to start, with one sentence that names the setting.
In the [chart](../guides/install.md) a setting is a value; `karpenter manifests --set` takes the same names.
A setting without a value of its own goes into `controller.env`; the Role follows the lease named there.
Settings marked * are ours: other operators of this name do not know them.

| flag | variable | default | value of the chart | meaning |
|---|---|---|---|---|
"""

_KWOK: Final = {
    "INSTANCE_TYPES_FILE_PATH": "the catalogue: a file, or `kwok`, `aws` or `aws:REGION`; default `kwok`",
    "KWOK_LAUNCH_LATENCY": "how long a machine takes to join, such as `1s`; default `0s`",
    "KWOK_SHUTDOWN_LATENCY": "how long a machine takes to end; default `0s`",
}

_WHERE: Final = (
    "| `--provider` | `CLOUD_PROVIDER` | `kwok` | the cloud: `aws`, `kwok`, or another one |",
    "| `--cluster-name` | `CLUSTER_NAME` | `default` | the name under which machines are tagged |",
    "| `--kubeconfig` | `KUBECONFIG` | | the cluster; in a pod, the one it runs in |",
    "| `--context` | | | the context of the kubeconfig |",
)


def page() -> str:
    lines = [_HEAD.rstrip("\n"), *(_row(each) for each in SETTINGS)]
    lines += [
        "",
        "## Which cluster, which cloud",
        "",
        "| flag | variable | default | meaning |",
        "|---|---|---|---|",
    ]
    lines += _WHERE
    lines += ["", "## Feature gates", "", "| gate | default |", "|---|---|"]
    lines += [f"| `{name}` | {str(is_open).lower()} |" for name, is_open in GATES.items()]
    lines += ["", "Unknown gates are ignored.", "", "## The cloud `aws`", ""]
    lines += ["| variable | default | value of the chart | meaning |", "|---|---|---|---|", *_aws()]
    lines += ["", "## The cloud `kwok`", "", "| variable | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {about} |" for name, about in _KWOK.items()]
    return (
        "\n".join([*lines, "", "See also: [Install](../guides/install.md), [Replay](../guides/replay.md)."])
        + "\n"
    )


def paths() -> dict[str, str]:
    """Return the value of the chart that states each variable."""
    return dict(_paths(variables()))


def _paths(trees: list[Any]) -> Iterator[tuple[str, str]]:
    for each in trees:
        match each:
            case When(_, list() as inner):
                yield from _paths(inner)
            case When(_, inner):
                yield from _paths([inner])
            case ListItems():
                continue
            case {"name": name, "value": TextValue(path) | Templated(path) | Required(path) | Joined(path)}:
                yield name, path


def _row(setting: Setting) -> str:
    mark = "*" if setting.ours else ""
    default = f"`{setting.default}`" if setting.default else ""
    path = paths().get(setting.variable, "")
    value = f"`{path}`" if path else ""
    return f"| `--{setting.name}`{mark} | `{setting.variable}` | {default} | {value} | {setting.help} |"


def _aws() -> Iterator[str]:
    known = {each.variable for each in SETTINGS} | {"CLOUD_PROVIDER", "CLUSTER_NAME"}
    chart_values = {chart_value.path: chart_value for chart_value in VALUES}
    for name, path in paths().items():
        if name not in known:
            chart_value = chart_values[path]
            default = f"`{str(chart_value.default).lower()}`" if chart_value.default != "" else ""
            yield f"| `{name}` | {default} | `{path}` | {chart_value.about} |"


if __name__ == "__main__":
    sys.stdout.write(page())
