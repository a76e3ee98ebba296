"""``karpenter why``: what it prints, in which form, how it ends, and what it refuses."""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from karpenter import __version__
from karpenter.api.meta import convert
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.cli import main
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.core.provisioning.provisioner import ProvisioningMemory, provision
from karpenter.core.state.cluster import ClusterState, ObjectDeleted, ObjectUpdated
from karpenter.operator.options import parse_settings, provisioning_settings
from karpenter.replay.record import Asked, CatalogWriter, Done, RecordBegun, line_of
from karpenter.replay.replay import Origin, given
from tests.unit.why.clusters import ask, machine, pod, pool, write_catalogue

ROOT = Path(__file__).parents[3]
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
BOUGHT = datetime(2026, 3, 1, tzinfo=UTC)


def test_the_first_example_of_help_works_as_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first example of --help can be pasted in a checkout."""
    runner = CliRunner()
    line = re.search(r"^ +(karpenter why .*)$", runner.invoke(main, ["why", "--help"]).output, re.MULTILINE)
    assert line is not None
    monkeypatch.chdir(ROOT)
    result = runner.invoke(main, shlex.split(line[1])[1:])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("pod/default/inflate-1: It will run on a new ")


def test_text_fits_80_columns(tmp_path: Path) -> None:
    """A refusal is one line for the answer, one for each NodePool, and one for each change, wrapped at 80."""
    result = ask("pod/a", [pool(), pod("a", "1", "40Gi")], tmp_path)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "pod/default/a: It waits and has no place.",
        "  - NodePool default: the pod is too large for every instance type left: wants",
        "    memory 40Gi, the most is 31.99Gi of 32Gi on big (needs 8.0 more GiB on the",
        "    largest type)",
        "One of these changes would let it in:",
        "  - lower the pod's memory request from 40Gi to 32758Mi: it would go to a new",
        "    big of NodePool default (zone-a, on-demand, $0.4000 an hour)",
    ]


def test_kind_and_name_in_two_words(tmp_path: Path) -> None:
    """As kubectl takes them."""
    cluster = [pool(), pod("a", "1", "40Gi")]

    assert ask("pod", cluster, tmp_path, "a").stdout == ask("pod/a", cluster, tmp_path).stdout


def test_json_has_every_field(tmp_path: Path) -> None:
    """The JSON has the same fields for every kind, in the same order."""
    fields = ["kind", "object", "placed", "answer", "because", "nodePools", "changes", "monthly"]
    for target in ("pod/a", "node/n", "nodepool/default", "nodeclaim/claim-n"):
        result = ask(target, [pool(), *machine("n"), pod("a")], tmp_path, "-o", "json")
        assert list(json.loads(result.stdout)) == fields
        assert result.exit_code == 0


@pytest.mark.parametrize(
    ("target", "arguments", "problem"),
    [
        pytest.param("a", (), "'a' does not name an object: expected pod/NAME", id="no kind"),
        pytest.param("service/a", (), "'service/a' does not name an object", id="another kind"),
        pytest.param("pod/aa", (), "there is no pod aa\nhint: did you mean default/a?", id="no such pod"),
        pytest.param("pod/a", ("-n", "other"), "there is no pod a", id="another namespace"),
        pytest.param("node/x", (), "there is no node x", id="no such node"),
        pytest.param("nodepool/x", (), "there is no NodePool x", id="no such NodePool"),
        pytest.param("nodeclaim/x", (), "there is no NodeClaim x", id="no such NodeClaim"),
        pytest.param("pod/b", (), "pod b is in 2 namespaces: one/b, two/b", id="two namespaces"),
        pytest.param("pod/a", ("--at", "2026-01-01T00:00:00Z"), "--at: needs --record", id="no record"),
        pytest.param("pod/a", ("--record", "x"), "--record: cannot be combined with -f", id="two clusters"),
    ],
)
def test_refuses_what_it_cannot_answer(
    target: str, arguments: tuple[str, ...], problem: str, tmp_path: Path
) -> None:
    """Bad input is one sentence on standard error, and exit code 2."""
    both = [pod("b", metadata={"namespace": each}) for each in ("one", "two")]
    result = ask(target, [pool(), pod("a"), *both], tmp_path, *arguments)
    assert result.exit_code == 2
    assert f"error: {problem}" in result.stderr


def test_needs_a_cluster() -> None:
    """Without manifests, record and a current context there is nothing to ask about."""
    alone = {"KUBECONFIG": None, "HOME": "/nowhere"}
    result = CliRunner().invoke(main, ["why", "pod/a"], env=alone)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: no cluster to talk to")
    assert "hint: give manifests with -f, or a live cluster with --context" in result.stderr


def write_record(folder: Path) -> Path:
    """Write a record: at noon one pod waits that fits, an hour later it is gone and a larger one waits."""
    catalog, writer = load_catalog(write_catalogue(folder)), CatalogWriter()
    sold = writer.line(catalog)
    small = convert(pod("a"), Pod)
    lines: list[Any] = [
        RecordBegun(version=__version__, at=NOON, serves=(("karpenter.kwok.sh", "KWOKNodeClass"),)),
        line_of(ObjectUpdated(convert(pool(), NodePool))),
        line_of(ObjectUpdated(small)),
        sold,
        Asked(number=1, question="provision", now=NOON, catalog=1, given={}),
        Done(at=BOUGHT, effect="CreateClaim", about="NodeClaim/claim-", because="pods wait for it"),
        Done(at=NOON, effect="Nominate", about="node/n", because="a pod fits"),
        line_of(ObjectDeleted(small)),
        line_of(ObjectUpdated(convert(pod("b", "99"), Pod))),
        line_of(ObjectUpdated(convert(machine("n")[0], NodeClaim))),
        line_of(ObjectUpdated(convert(machine("n")[1], Node))),
        Asked(number=2, question="provision", now=NOON + timedelta(hours=1), catalog=1, given={}),
    ]
    file = folder / "flight.jsonl"
    file.write_bytes(b"".join(json_line(each) for each in lines) + b'{"line":"se')
    return file


def json_line(line: Any) -> bytes:
    return msgspec.json.encode(line) + b"\n"


@pytest.mark.parametrize(
    ("target", "at", "code"),
    [
        pytest.param("pod/a", "2026-03-02T12:30:00Z", 0, id="between the decisions"),
        pytest.param("pod/b", "2026-03-02T12:30:00Z", 2, id="before the pod was there"),
        pytest.param("pod/b", None, 1, id="at the end"),
        pytest.param("pod/a", None, 2, id="after the pod went"),
        pytest.param("pod/a", "2026-03-02T11:00:00Z", 2, id="before the first decision"),
    ],
)
def test_answers_from_a_record_at_a_time(target: str, at: str | None, code: int, tmp_path: Path) -> None:
    """The cluster is the one of the last decision no later than --at."""
    words = ["why", target, "--record", str(write_record(tmp_path)), *(["--at", at] if at else [])]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == code, result.output


def with_settings(file: Path, given: dict[str, Any]) -> Path:
    """Return a record whose decisions were made with settings."""
    lines = [json.loads(line) for line in file.read_text().splitlines()[:-1]]
    for line in lines:
        if line["line"] == "asked":
            line["given"] = given
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return file


@pytest.mark.parametrize(
    ("arguments", "price"),
    [
        pytest.param((), "$1.1000 an hour", id="those of the record"),
        pytest.param(("--set", "node-price=2"), "$2.1000 an hour", id="those that are given"),
    ],
)
def test_a_record_is_asked_with_its_settings(arguments: tuple[str, ...], price: str, tmp_path: Path) -> None:
    """The settings of the operator that wrote a record hold, unless others are given."""
    settings = provisioning_settings(parse_settings({"node-price": "1"}))
    call: partial[Any] = partial(
        provision,
        ClusterState(serves=None).view(),
        load_catalog("kwok"),
        ProvisioningMemory(),
        settings=settings,
    )
    file = with_settings(write_record(tmp_path), given(call, lambda _: Origin(0, 0)))
    at = ("--at", "2026-03-02T12:30:00Z")
    result = CliRunner().invoke(main, ["why", "pod/a", "--record", str(file), *at, *arguments])
    assert price in result.stdout, result.output


def test_settings_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    """A record of a version with other settings is answered with those that are given."""
    file = with_settings(write_record(tmp_path), {"settings": {"later": 1}})
    result = CliRunner().invoke(main, ["why", "pod/b", "--record", str(file)])
    assert (result.exit_code, "the settings in it cannot be read" in result.stderr) == (2, True)
    assert (
        CliRunner().invoke(main, ["why", "pod/b", "--record", str(file), "--set", "node-price=0"]).exit_code
        == 1
    )


def test_a_record_says_why_a_node_was_bought(tmp_path: Path) -> None:
    """The creation that a record tells of is among the reasons of a node; other effects are not."""
    words = ["why", "node/n", "--record", str(write_record(tmp_path)), "-o", "json"]
    assert json.loads(CliRunner().invoke(main, words).stdout)["because"][2:4] == [
        "its NodeClaim was created at 2026-03-01T00:00:00Z: pods wait for it",
        "no pod runs on it",
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"hello\n", "line 1: this is not JSON", id="text"),
        pytest.param(b"", "no decision was made by its end", id="nothing"),
        pytest.param(
            b'{"line":"lost","kind":"Pod","object":{}}\n', "line 1: a record begins with", id="no beginning"
        ),
        pytest.param(
            b'{"line":"begun","format":1,"version":"0","at":"2025-01-01T00:00:00Z","serves":[]}\n',
            "line 1: the record has format 1, and this version reads format 3",
            id="an old format",
        ),
        pytest.param(
            b'{"line":"begun","format":3,"version":"0","at":"2025-01-01T00:00:00Z","serves":[]}\n'
            b'{"line":"seen","kind":"Ghost","object":{}}\n',
            "line 2: there is no kind Ghost",
            id="no such kind",
        ),
    ],
)
def test_refuses_what_is_no_record(content: bytes, problem: str, tmp_path: Path) -> None:
    """A file that is no record is named with its line."""
    file = tmp_path / "flight.jsonl"
    file.write_bytes(content)
    result = CliRunner().invoke(main, ["why", "pod/a", "--record", str(file)])
    assert result.exit_code == 2
    assert problem in result.stderr
