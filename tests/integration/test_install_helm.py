"""
``karpenter install`` and ``uninstall`` where the program ``helm`` is there, as users type them.

The cluster and the account are embedded; helm is the real one, and is asked what it knows of the release.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import shlex
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner, Result

from karpenter.cli.group import main
from karpenter.install.text import helm_command
from karpenter_local import kubeconfig
from karpenter_local.sandbox.options import AwsOptions, ClusterOptions
from karpenter_local.sandbox.sandbox import Sandbox
from tests.helm import Helm, find_helm
from tests.integration.kubectl import Kubectl
from tests.unit.cloud.aws.world import embedded
from tests.unit.install.test_plan import plan

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


REAL_TIME = True
NEEDS_KUBECTL = True
pytestmark = pytest.mark.helm


class Terminal:
    """A user with a kubeconfig, keys of an account, and helm on the PATH."""

    def __init__(self, home: Path) -> None:
        self.helm = Helm(home, home / "kubeconfig")
        self.kubectl = Kubectl(home / "kubeconfig", home)

    async def karpenter(self, *words: str, code: int = 0) -> Result:
        """Type a command; the cluster is in this process, and goes on meanwhile."""
        result = await asyncio.to_thread(CliRunner().invoke, main, list(words))
        assert result.exit_code == code, result.output
        return result

    async def releases(self) -> list[dict[str, Any]]:
        """Return what helm has installed, in any state."""
        listed = await asyncio.to_thread(self.helm.ok, "list", "--all-namespaces", "--all", "-o", "json")
        return list(json.loads(listed))

    async def release(self) -> dict[str, Any]:
        """Return what helm says of the one release."""
        [found] = await self.releases()
        return found

    async def run_helm(self, *words: str) -> str:
        return await asyncio.to_thread(self.helm.ok, *words, "--namespace", "kube-system")

    async def environment(self) -> dict[str, str]:
        """Return the environment of the operator's container."""
        path = "jsonpath={.spec.template.spec.containers[0].env}"
        text = await self.kubectl.ok(f"get -n kube-system deployment/karpenter -o {path}")
        return {each["name"]: each.get("value", "") for each in json.loads(text)}


@pytest.fixture
async def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Terminal]:
    """Return a user of a cluster on which nothing is installed."""
    program = find_helm()
    assert program is not None
    sandbox = Sandbox(
        name="blue",
        clock="real",
        cluster=ClusterOptions(kubernetes="1.32", definitions=False, http=True),
        cloud=AwsOptions(types=("m5.large",), server=embedded(), bare=True, tagged=False, node_class=False),
        operators=0,
    )
    async with sandbox:
        kubeconfig.write(tmp_path / "kubeconfig", sandbox.running.kubeconfig)
        for name, value in sandbox.cloud.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("PATH", str(program.parent), prepend=":")
        yield Terminal(tmp_path)


INSTALL = ("install", "-c", "blue", "--yes", "--no-wait")


async def test_a_release_is_helms_own(user: Terminal) -> None:
    """Helm installs and upgrades it, what others changed is found and brought back, and nothing is left."""
    said = await user.karpenter(*INSTALL)
    first = await user.release()
    await user.karpenter("install", "-c", "blue", "--check")

    assert "made         release karpenter 0.1.0 in kube-system" in said.stdout
    assert (first["name"], first["revision"], first["status"]) == ("karpenter", "1", "deployed")
    manifest = await user.run_helm("get", "manifest", "karpenter")
    # Helm keeps the comments of templates that make nothing, which are documents without content.
    assert "Deployment" in {each["kind"] for each in yaml.safe_load_all(manifest) if each}
    managed = "deployment/karpenter --show-managed-fields -o jsonpath={.metadata.managedFields[0].manager}"
    assert await user.kubectl.ok(f"get -n kube-system {managed}") == "helm"

    again = await user.karpenter(*INSTALL)
    assert "exists       release karpenter" in again.stdout
    assert (await user.release())["revision"] == "1"

    await user.karpenter(*INSTALL, "--set", "logLevel=debug")
    assert (await user.release())["revision"] == "2"
    assert json.loads(await user.run_helm("get", "values", "karpenter", "-o", "json"))["logLevel"] == "debug"
    assert (await user.environment())["LOG_LEVEL"] == "debug"

    await user.run_helm("rollback", "karpenter", "1")
    differs = await user.karpenter("install", "-c", "blue", "--check", "--set", "logLevel=debug", code=1)
    assert "differs      release karpenter" in differs.stdout
    await user.karpenter(*INSTALL, "--set", "logLevel=debug")
    assert (await user.release())["revision"] == "4"

    gone = await user.karpenter("uninstall", "-c", "blue", "--yes")
    assert gone.stdout.rstrip().endswith("nothing of ours is left")
    assert await user.releases() == []
    left = await user.kubectl.ok("get deploy,sa,role,svc,pdb,secret -n kube-system -o name")
    assert "karpenter" not in left


async def test_a_release_that_we_recorded_is_taken_over(user: Terminal) -> None:
    """What was installed without helm is a release to helm: it lists, upgrades, rolls back and removes it."""
    await user.karpenter(*INSTALL, "--no-helm", "--set", "replicas=1")
    ours = await user.release()

    assert (ours["name"], ours["chart"], ours["status"]) == ("karpenter", "karpenter-0.1.0", "deployed")
    assert json.loads(await user.run_helm("get", "values", "karpenter", "-o", "json"))["replicas"] == 1

    await user.karpenter(*INSTALL, "--set", "replicas=1,logLevel=debug")
    assert (await user.release())["revision"] == "2"
    assert (await user.environment())["LOG_LEVEL"] == "debug"

    await user.run_helm("rollback", "karpenter", "1")
    assert (await user.environment()).get("LOG_LEVEL") != "debug"

    await user.karpenter(*INSTALL, "--no-helm", "--set", "replicas=1,logLevel=error")
    assert (await user.environment())["LOG_LEVEL"] == "error"
    assert (await user.release())["revision"] == "4"

    await user.run_helm("uninstall", "karpenter")
    gone = await user.karpenter("uninstall", "-c", "blue", "--yes", "--force")
    assert gone.stdout.rstrip().endswith("nothing of ours is left")


async def test_what_helm_refuses_is_said(user: Terminal) -> None:
    """Its last line is the error, the step is named, and the next run goes on."""
    await user.karpenter(*INSTALL)
    name = "sh.helm.release.v1.karpenter.v1"
    secret = json.loads(await user.kubectl.ok(f"get secret -n kube-system {name} -o json"))
    # base64 of Kubernetes around base64 of Helm around gzip.
    packed = base64.b64decode(base64.b64decode(secret["data"]["release"]))
    release = json.loads(gzip.decompress(packed))
    release["info"]["status"] = "pending-upgrade"
    packed = base64.b64encode(gzip.compress(json.dumps(release).encode()))
    secret["data"]["release"] = base64.b64encode(packed).decode()
    await user.kubectl.ok("replace -f -", stdin=json.dumps(secret))

    refused = await user.karpenter(*INSTALL, "--set", "logLevel=debug", code=2)

    assert "error: step controller: helm upgrade: " in refused.stderr
    assert "another operation (install/upgrade/rollback) is in progress" in refused.stderr
    assert "helm rollback karpenter -n kube-system" in refused.stderr


async def test_a_cluster_that_refuses_us_leaves_the_account_as_it_is(user: Terminal, tmp_path: Path) -> None:
    """A token that has expired is found before the first step, and the hint says what helps."""
    config = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    config["users"][0]["user"]["token"] = "expired"
    (tmp_path / "expired").write_text(yaml.safe_dump(config))
    refused = await user.karpenter(*INSTALL, "--kubeconfig", str(tmp_path / "expired"), code=2)
    roles = await user.karpenter("get", "iam-role", "--search", "KarpenterNodeRole", code=1)

    assert "the cluster does not accept the credentials of the kubeconfig: " in refused.stderr
    assert "hint: they may have expired: aws sso login" in refused.stderr
    assert "no iam-role found" in roles.stderr


async def test_an_example_as_data(user: Terminal) -> None:
    """With -o json only JSON goes to standard output."""
    made = await user.karpenter("example", "inflate", "-c", "blue", "-o", "json")
    gone = await user.karpenter("example", "inflate", "-c", "blue", "--delete", "-o", "json")

    assert json.loads(made.stdout)["outcome"] == "installed"
    assert json.loads(gone.stdout)["outcome"] == "removed"
    assert 'installed "example-inflate"' in made.stderr


VALUES: dict[str, Any] = {
    "braces": "{a",
    "comma": "a,b",
    "backslash": "a\\b",
    "null": "null",
    "empty": "",
    "boolean": "true",
    "exponent": "1e3",
    "blanks": " x ",
    "equals": "a=b",
    "k.e,y=[0]\\": "v",
    "lines": "a\nb",
    "quotes": 'it\'s "so"',
    "octal": "007",
    "mapping": {},
    "list": [],
    "number": 12345678,
    "fraction": 1.5,
    "no": False,
    "deeper": {"minus": "-5", "and": {"hex": "0x10"}},
}


def test_the_printed_command_states_the_values(tmp_path: Path) -> None:
    """A chart that prints its values, given the flags of the command, prints the values of the plan."""
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: echo\nversion: 0.1.0\n")
    (tmp_path / "templates" / "values.yaml").write_text("values: {{ .Values | toJson | quote }}\n")
    wanted = {"podAnnotations": VALUES, "replicas": 3}
    sets = (r"podLabels.example\.com/a=b\,c", "replicas=4")
    release = plan(values=(wanted,), sets=sets).release
    words = shlex.split("\n".join(helm_command(release)).replace("\\\n", ""))
    said = Helm(tmp_path).ok("template", "echo", tmp_path, *words[words.index("--version") + 2 :])
    values = json.loads(yaml.safe_load(said)["values"])

    assert values["podAnnotations"] == VALUES
    assert values["podLabels"] == {"example.com/a": "b,c"}
    assert values["replicas"] == 4
    assert values["settings"]["clusterName"] == "blue"
