"""
Every block of the documentation works.

Commands of ``karpenter`` are run here, in one process, in the order of the pages, in a folder that has what
the pages speak of; those that read a cluster read an embedded one. Where a page shows what a command prints,
it prints that. What is not run here is listed with the reason, and with the test that runs it where there is
one; a line that is neither run nor listed fails.
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
import shlex
import shutil
import tomllib
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from karpenter.api.cluster import Namespace
from karpenter.api.manifests import documents_or_refusals
from karpenter.api.node import Node
from karpenter.api.nodepool import NodePool
from karpenter.api.validation.documents import Finding, check_document
from karpenter.base.clock import SystemClock
from karpenter.cli import main
from karpenter.kube.client import Client
from karpenter.kube.http import HttpTransport
from karpenter.kube.kubeconfig import find_cluster
from karpenter_local import kubeconfig
from karpenter_local.apiserver.offline import create_problems
from karpenter_local.sandbox.cloud import create_kwok_node_class
from karpenter_local.sandbox.cluster import install_definitions
from tests.docs.commands import every_command  # noqa: F401  a fixture
from tests.docs.test_commands import FENCE, PAGES, ROOT, SHELL
from tests.integration.serving import Running
from tests.integration.test_docs_aws import PAGES as TYPED_BY_THE_TOUR
from tests.integration.test_plan_live import pool
from tests.unit.shadow.test_report import an_hour

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATA: Final = ROOT / "tests" / "data"
FOLLOWED: Final = {
    *(f"docs/{each}" for each in TYPED_BY_THE_TOUR),
    "docs/tutorials/tour.md",
    "docs/tutorials/install-by-hand.md",
}
"""Pages that ``make tour`` follows line by line, with kubectl and the AWS CLI."""

ELSEWHERE: Final = (
    (r"^tools/publish", "tests/shape/test_release.py"),
    (
        r"^(\. |make |git clone|pip install|export |python (app\.py|-m pip)|npx |podman |kubeconform )",
        "not ours",
    ),
    (r"^(\.venv/bin/pytest|python -m tests\.)", "the tests"),
    (r"^(terraform |\$\(terraform )", "tests/integration/test_terraform.py"),
    (r"^helm ", "tests/integration/test_helm.py, test_install_helm.py"),
    (r"^(kubectl|aws|curl) [^|]*$", "a program of others; make tour has them"),
    (r"^aws ecr .*\| podman login", "likewise"),
    (r"^kubectl .* exec .* -- karpenter", "within a pod: tests/integration/test_shadow.py"),
    (r"\| kubectl apply -f -$", "its first half is run"),
    (r"karpenter local ", "make tour, tests/integration/test_local_cluster.py"),
    (r"karpenter run ", "runs until it is stopped: tests/integration/test_operator.py, test_flight.py"),
    (r"^karpenter notify (?!--once)", "runs until it is stopped: tests/integration/test_notify.py"),
    (r"^karpenter demo", "half a minute: tests/unit/local/demo, tests/integration/test_top.py"),
    (r"^karpenter console ", "serves until it is stopped: tests/browser"),
    (r"^karpenter top (?!--once)", "a screen: tests/unit/top, tests/integration/test_top.py"),
    (r"^karpenter (install|uninstall|get) ", "an account: make tour, tests/unit/cli/test_install.py"),
    (r"^karpenter render .*-c blue(?!.*--account)", "an account: tests/unit/cli/test_render.py"),
    (r"^karpenter catalog refresh", "asks AWS: tests/unit/cli/test_catalog.py"),
    (r"^karpenter doctor .*--region", "an account: tests/integration/test_doctor.py"),
    (r"--at 2026-01-31T09:00:00Z", "a pod of the reader: tests/unit/cli/test_why.py"),
    (r"karpenter plan (\[PATH|diff \[OPTIONS)", "a synopsis"),
    (r"^karpenter simulate .*--provider aws", "tests/integration/test_simulation_aws.py"),
)
"""Lines that are not run here, and why or where they are."""

RUN_ANYWAY: Final = re.compile(r"^karpenter .*\| kubectl apply")
SHORTENED: Final = "--seed 3 --hours 0.02 --machines 1 --faults none"
"""What a simulation of a page is run with: hours of a hundred machines are for ``make soak``."""

ANSWERS: Final = {"karpenter doctor": {0, 1}, "karpenter changeover": {0, 1}}
"""Exit codes other than 0, of commands that say what is wrong."""

SHOWN_OF_ANOTHER: Final = {"karpenter replay flight.jsonl", "karpenter simulate --seed 1..200"}
"""Commands whose output on a page is that of a run of its own."""


class ShownCommand(msgspec.Struct, frozen=True):
    """A line of a shell block, and what the page shows below it."""

    page: str
    line: str
    shown: str = ""


def shell_lines() -> Iterator[ShownCommand]:
    """Yield every line that is typed in a shell block."""
    for page in PAGES:
        name = str(page.relative_to(ROOT))
        for block in FENCE.finditer(page.read_text("utf-8")):
            if block["language"] in SHELL:
                yield from _typed(name, block["body"])


def _typed(page: str, body: str) -> Iterator[ShownCommand]:
    text = re.sub(r"\\\n\s*", "", body)
    if "\n$ " not in f"\n{text}":
        lines = (line.partition("  #")[0].strip() for line in text.splitlines())
        yield from (ShownCommand(page, line) for line in lines if line)
        return
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, shown = part.partition("\n")
        yield ShownCommand(page, line.strip(), shown)


def where(line: str) -> str | None:
    """Return why a line is not run here; None for one that is."""
    if RUN_ANYWAY.search(line):
        return None
    return next((reason for rule, reason in ELSEWHERE if re.search(rule, line)), None)


def prepare(folder: Path) -> None:
    """Put what pages speak of into a folder."""
    for name in ("examples", "deploy", "docs"):
        (folder / name).symlink_to(ROOT / name)
    inflate, quickstart = ROOT / "examples" / "inflate", ROOT / "examples" / "aws" / "quickstart.yaml"
    for name in ("cluster", "my-cluster", "before", "after"):
        shutil.copytree(inflate, folder / name)
    (folder / "nodepools").mkdir()
    shutil.copy(quickstart, folder / "nodepools")
    shutil.copy(ROOT / "examples" / "gitops" / "cluster.yaml", folder / "cluster.yaml")
    shutil.copy(ROOT / "examples" / "gitops" / "cluster.yaml", folder / "old.yaml")
    shutil.copy(ROOT / "examples" / "gitops" / "live.yaml", folder / "live.yaml")
    for name in ("changed-nodepool.yaml", "spot-pool.yaml", "on-demand-pool.yaml"):
        shutil.copy(inflate / "nodepool.yaml", folder / name)
    new = (inflate / "inflate.yaml").read_text("utf-8").replace("inflate", "new")
    (folder / "new-deployment.yaml").write_text(new)
    (folder / "provisioners").mkdir()
    shutil.copy(DATA / "seeds" / "legacy-provisioner.yaml", folder / "provisioners")
    pattern = ROOT / "deploy" / "terraform" / "patterns" / "karpenter-mng"
    shutil.copytree(pattern, folder / "infra")
    shutil.copy(pattern / "karpenter.yaml", folder / "karpenter.yaml")
    shutil.copy(DATA / "seeds" / "controller-policy.json.txt", folder / "controller-policy.json")
    an_hour(folder / "karpenter-shadow.jsonl")
    groups = yaml.safe_load((DATA / "convert" / "groups.yaml").read_text("utf-8"))
    (folder / "asgs.json").write_text(json.dumps(groups[0]["in"][0]))
    frozen = {"budgets": [{"nodes": "0"}]}
    limits = {"cpu": 100, "memory": "400Gi"}
    definition = {"cluster_name": "prod", "node_pools": {"a": {"limits": limits, "disruption": frozen}}}
    (folder / "frozen.yaml").write_text(yaml.safe_dump({"karpenter": definition}))


STANDS_FOR: Final = {
    "kubectl get provisioners": "provisioners/legacy-provisioner.yaml",
    "kubectl get nodepools,ec2nodeclasses": "nodepools/quickstart.yaml",
    "kubectl get nodepools -o": "nodepools/quickstart.yaml",
    "kubectl get deployments,secrets": "examples/gitops/live.yaml",
    "kubectl get ": "examples/top/cluster.yaml",
    "kubectl exec ": "karpenter-shadow.jsonl",
    "kubectl -n kube-system logs": "empty",
    "aws autoscaling ": "asgs.json",
}
"""What a program of others would have printed, as a file of the folder."""


def output_of(words: str, folder: Path) -> str:
    """Return what a program of others prints."""
    file = next(file for start, file in STANDS_FOR.items() if words.startswith(start))
    return (folder / file).read_text("utf-8") if file != "empty" else ""


def run(command: ShownCommand, folder: Path) -> str:
    """Run a line: commands one after the other, each with what it is given and where its output goes."""
    for part in command.line.split("; "):
        if where(part) is not None:
            continue
        before, _, rest = part.rpartition("| karpenter ") if "| karpenter " in part else ("", "", part)
        own = f"karpenter {rest}" if before else part
        if problem := _run(own, output_of(before, folder) if before else "", command, folder):
            return problem
    return ""


def _run(text: str, given: str, command: ShownCommand, folder: Path) -> str:
    text = text.partition(" | kubectl apply")[0]
    if text.startswith("karpenter simulate"):
        text = f"karpenter simulate {SHORTENED}{' --record run.jsonl' if '--record' in text else ''}"
    words = shlex.split(text)
    target = words[words.index(">") + 1] if ">" in words else ""
    if target:
        words = words[: words.index(">")]
    done = CliRunner().invoke(main, words[1:], input=given)
    allowed = ANSWERS.get(" ".join(words[:2]), {0})
    if done.exit_code not in allowed:
        return f"{command.page}: {text}: exit {done.exit_code}: {done.output[-400:]}{done.exception!r}"
    if target:
        place = folder / target.replace("~", "home")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(done.stdout)
    if command.shown and text not in SHOWN_OF_ANOTHER and not _agrees(command.shown, done.output):
        return f"{command.page}: {text} prints\n{done.output}\nand not\n{command.shown}"
    return ""


def _agrees(shown: str, printed: str) -> bool:
    return [line.rstrip() for line in shown.strip("\n").splitlines()] == [
        line.rstrip() for line in printed.strip("\n").splitlines()
    ]


async def _fill(config: Path) -> None:
    cluster = await find_cluster(environ={}, clock=SystemClock(), kubeconfig=str(config))
    client = Client(HttpTransport(cluster.endpoint, cluster.credentials), chance=Random(1))  # noqa: S311  retries
    await install_definitions(client)
    await create_kwok_node_class(client)
    await client.create(NodePool, pool())
    await client.create(Namespace, {"metadata": {"name": "monitoring"}})
    await client.create(Node, {"metadata": {"name": "ip-10-0-1-7"}})
    await client.close()


@pytest.fixture
def production(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cluster that the kubeconfig calls production."""
    running = Running()
    assert running.front is not None
    front = running.front
    config = tmp_path / "kubeconfig"
    authority = front.certificates.authority
    kubeconfig.write(
        config, kubeconfig.render(name="production", url=front.url, authority=authority, token=front.token)
    )
    asyncio.run(_fill(config))
    monkeypatch.setenv("KUBECONFIG", str(config))
    yield
    running.stop()


@pytest.mark.usefixtures("every_command", "production")
def test_commands_of_the_pages_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page types ends well, and prints what the page shows."""
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("COLUMNS", raising=False)
    typed = [each for each in shell_lines() if each.page not in FOLLOWED and where(each.line) is None]
    # The record that pages speak of is that of a run, which comes first.
    first = ShownCommand("", "karpenter simulate --record run.jsonl")
    problems, done = [run(first, tmp_path)], set[str]()
    for name in ("flight.jsonl", "flight.jsonl.1"):
        shutil.copy("run.jsonl", name)
    for each in typed:
        if "--record" in each.line or each.line in done or each.line.startswith("karpenter simulate"):
            continue
        done.add(each.line)
        problems.append(run(each, tmp_path))

    assert [each for each in problems if each] == []
    assert len(done) > 60


def blocks(*languages: str) -> list[Any]:
    """Return the blocks in some languages, each with its page."""
    return [
        pytest.param(block["body"], id=f"{page.name}-{number}")
        for page in PAGES
        for number, block in enumerate(FENCE.finditer(page.read_text("utf-8")))
        if block["language"] in languages
    ]


@pytest.mark.parametrize("text", blocks("yaml", "json"))
def test_manifests_of_the_pages_can_be_read(text: str) -> None:
    """A block of YAML or JSON can be read; an object in it is one that ``karpenter validate`` accepts."""
    found = list(yaml.safe_load_all(text))
    assert all(found)
    if any(isinstance(each, dict) and {"apiVersion", "spec"} & each.keys() for each in found):
        read = documents_or_refusals(text, "page")
        outcomes = [each for item in read for each in check_document(item, old={}, rules=create_problems)]
        assert [str(each) for each in outcomes if isinstance(each, Finding)] == []


@pytest.mark.parametrize("text", blocks("python"))
def test_python_of_the_pages_is_python(text: str) -> None:
    """It parses; tests/unit/cdk/test_synth.py and tests/contract/provider/test_guide.py run it."""
    ast.parse(text)


@pytest.mark.parametrize("text", blocks("toml"))
def test_toml_of_the_pages_is_toml(text: str) -> None:
    """It can be read."""
    assert tomllib.loads(text)


def test_every_language_is_known() -> None:
    """A block is run, read, or shows what something prints (``text``); Terraform has tests of its own."""
    known = SHELL | {"yaml", "json", "python", "toml", "text", "terraform"}
    found = {block["language"] for page in PAGES for block in FENCE.finditer(page.read_text("utf-8"))}

    assert found <= known


def test_what_is_not_run_is_still_written() -> None:
    """A rule that no line needs any more is taken out."""
    lines = [each.line for each in shell_lines() if each.page not in FOLLOWED]

    assert [rule for rule, _ in ELSEWHERE if not any(re.search(rule, line) for line in lines)] == []
