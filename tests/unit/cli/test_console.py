"""``karpenter console``: its options, and the pages of plan and replay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from karpenter.api.manifests import render_documents
from karpenter.cli import main
from karpenter.cli.console import cluster_title, live_catalog, saved_plan
from karpenter.cloud.catalogs.load import load_catalog
from tests.unit.console.clusters import small_cluster
from tests.unit.top.clusters import node, view
from tests.unit.why.clusters import NOW, write_catalogue


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param((), "no cluster to talk to", id="no current context"),
        pytest.param(("--demo", "--context", "a"), "more than one thing to show", id="two clusters"),
        pytest.param(("--record", "missing"), "missing: No such file", id="no record"),
        pytest.param(("--plan", "missing"), "missing: No such file", id="no plan"),
        pytest.param(("-f", "missing"), "missing: No such file", id="no manifests"),
        pytest.param(("--demo", "--set", "x"), "--set: 'x' is not NAME=VALUE", id="no setting"),
        pytest.param(("--kubeconfig", "missing"), "missing", id="no kubeconfig"),
    ],
)
def test_what_cannot_be_shown(arguments: tuple[str, ...], problem: str) -> None:
    """Unusable input is one sentence and exit code 2."""
    alone = {"KUBECONFIG": None, "HOME": "/nowhere"}
    result = CliRunner().invoke(main, ["console", *arguments, "--no-browser"], env=alone)

    assert result.exit_code == 2
    assert problem in result.stderr


@pytest.mark.parametrize("text", ["", "[]", '{"kind": "Plan", "newNodes": [{}]}', '{"kind": "Why"}'])
def test_a_file_that_is_no_plan(text: str, tmp_path: Path) -> None:
    """A file that karpenter plan did not write is named."""
    file = tmp_path / "plan.json"
    file.write_text(text)
    result = CliRunner().invoke(main, ["console", "--plan", str(file), "--no-browser"])

    assert result.exit_code == 2
    assert "this is not what karpenter plan -o json prints" in result.stderr


def test_a_saved_plan_is_shown_as_it_was_printed(tmp_path: Path) -> None:
    """What karpenter plan -o json has printed is drawn."""
    types = write_catalogue(tmp_path)
    words = ["plan", "-f", "-", "--now", NOW, "--catalog", types]
    text = render_documents(small_cluster())
    file = tmp_path / "plan.json"
    file.write_text(CliRunner().invoke(main, [*words, "-o", "json"], input=text).stdout)
    found = saved_plan(file, types)

    assert found.decisions[0].title.startswith("place 1 pod on node n")


def test_a_plan_as_a_page(tmp_path: Path) -> None:
    """With -o html, one file has the cluster, the plan and answers inside."""
    words = [
        "plan",
        "-f",
        "-",
        "--now",
        NOW,
        "--catalog",
        write_catalogue(tmp_path),
        "--disruption",
        "-o",
        "html",
    ]
    result = CliRunner().invoke(main, words, input=render_documents(small_cluster()))
    found = json.loads(result.stdout.split('id="document">')[1].split("</script>")[0])

    assert result.exit_code == 0
    assert result.stdout.startswith("<!doctype html>")
    assert (found["mode"], len(found["frames"])) == ("plan", 1)
    assert found["answers"]["pod/default/late"]["placed"]


def test_the_catalogue_is_that_of_the_nodes() -> None:
    """A live cluster has the catalogue of its region without being told, once a node says which one."""
    current, labels = live_catalog("", live=False), {"topology.kubernetes.io/region": "eu-west-1"}

    assert not current(view()).types
    found = current(view(node("a", labels)))
    assert found is load_catalog("aws:eu-west-1")
    assert current(view(node("a", labels))) is found


def test_a_catalogue_of_a_file_follows_it(tmp_path: Path) -> None:
    """A page that stays open has the prices of a file that is written anew."""
    file = Path(write_catalogue(tmp_path))
    current = live_catalog(str(file), live=False)
    first = current(view())
    assert current(view()) is first
    file.write_text(file.read_text().replace("0.1", "0.25"))
    assert current(view()) is not first


def test_help_fits_80_columns() -> None:
    """Help shows an example, and fits a small terminal."""
    text = CliRunner().invoke(main, ["console", "--help"], terminal_width=80).stdout

    assert "karpenter console --record flight.jsonl" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("name", "context", "title"),
    [
        pytest.param("arn:aws:eks:us-west-2:1:cluster/blue", "admin", "blue", id="of an ARN its last part"),
        pytest.param("blue", "admin", "blue", id="the name of the cluster rather than of the context"),
        pytest.param("", "admin", "admin", id="the context where there is no name"),
        pytest.param("", "", "this cluster", id="in a pod"),
    ],
)
def test_the_title_is_the_name_of_the_cluster(name: str, context: str, title: str) -> None:
    """The page is called what people call the cluster."""
    assert cluster_title(name, context) == title
