"""``karpenter dashboards install`` over HTTP, as a user types it."""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from karpenter.base.clock import SystemClock
from karpenter.cli.group import main
from karpenter.dashboards.objects import MONITORING
from karpenter.kube.client import Client
from karpenter.kube.http import HttpTransport
from karpenter.kube.kubeconfig import find_cluster
from karpenter.kube.targets import untyped
from karpenter_local import kubeconfig
from tests.integration.serving import Running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


DEFINITIONS = untyped(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", kind="CustomResourceDefinition", namespaced=False
)
NAMESPACES = untyped("v1", "namespaces", kind="Namespace", namespaced=False)
OBJECTS = [
    "servicemonitor/karpenter",
    "prometheusrule/karpenter",
    "configmap/karpenter-capacity",
    "configmap/karpenter-performance",
    "configmap/karpenter-costs",
    "configmap/karpenter-decisions",
]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of an API server."""
    running = Running()
    front = running.front
    assert front is not None
    path = tmp_path_factory.mktemp("dashboards") / "kubeconfig"
    text = kubeconfig.render(
        name="embedded", url=front.url, authority=front.certificates.authority, token=front.token
    )
    kubeconfig.write(path, text)
    yield path
    running.stop()


async def _create(config: Path, *bodies: tuple[Any, dict[str, Any]]) -> None:
    cluster = await find_cluster(environ={}, clock=SystemClock(), kubeconfig=str(config))
    client = Client(HttpTransport(cluster.endpoint, cluster.credentials), chance=Random(1))  # noqa: S311  retries, not secrets
    for kind, body in bodies:
        await client.create(kind, body)
    await client.close()


def definition(kind: str, plural: str) -> dict[str, Any]:
    """Return the definition of a kind of the Prometheus operator, as far as it matters here."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {
            "group": MONITORING.partition("/")[0],
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [version],
        },
    }


def install(config: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["dashboards", "install", "--kubeconfig", str(config), *words])


def test_dashboards_are_installed_and_installed_again(config: Path) -> None:
    """Nothing without the namespace; dashboards alone, then all; a second time nothing changes."""
    refused = install(config)
    assert refused.exit_code == 2
    assert "\nerror: " in refused.stderr
    assert "monitoring" in refused.stderr

    asyncio.run(_create(config, (NAMESPACES, {"metadata": {"name": "monitoring"}})))
    tried = install(config, "--dry-run")
    assert tried.stdout.splitlines()[2:] == [f"{each} created (dry run)" for each in OBJECTS[2:]]
    alone = install(config)
    assert alone.stdout.splitlines()[:3] == [
        f"{OBJECTS[0]} skipped",
        f"{OBJECTS[1]} skipped",
        f"{OBJECTS[2]} created",
    ]
    assert "does not serve monitoring.coreos.com/v1" in alone.stderr

    kinds = {"ServiceMonitor": "servicemonitors", "PrometheusRule": "prometheusrules"}
    asyncio.run(_create(config, *((DEFINITIONS, definition(*each)) for each in kinds.items())))
    both = install(config, "-o", "json")
    results = [each["result"] for each in json.loads(both.stdout)]
    assert results == ["created", "created", *["unchanged"] * 4]
    again = install(config)
    assert again.exit_code == 0
    assert again.stderr.splitlines()[-1] == "the cluster is that of the current context, embedded"
    assert again.stdout.splitlines() == [f"{each} unchanged" for each in OBJECTS]
    labelled = install(config, "--label", "release=kube-prometheus-stack")
    assert labelled.stdout.splitlines()[:3] == [
        f"{OBJECTS[0]} changed",
        f"{OBJECTS[1]} changed",
        f"{OBJECTS[2]} unchanged",
    ]


def test_labels_are_pairs(config: Path) -> None:
    """What is no pair is refused before anything is applied."""
    result = install(config, "--label", "release")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "--label: 'release' is not KEY=VALUE" in result.stderr


def test_files_for_a_prometheus_without_operator(tmp_path: Path) -> None:
    """Dashboards, rules and a scrape config are written as files."""
    result = CliRunner().invoke(main, ["dashboards", "render", "--write", str(tmp_path)])

    assert result.exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "karpenter-capacity.json",
        "karpenter-costs.json",
        "karpenter-decisions.json",
        "karpenter-performance.json",
        "karpenter-rules.yaml",
        "karpenter-scrape.yaml",
    ]
