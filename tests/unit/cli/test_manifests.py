"""``karpenter manifests``: what it prints, and what a cluster makes of it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner, Result

from karpenter.cli import main
from karpenter.kube.targets import untyped
from karpenter_local.cluster import LocalCluster
from karpenter_local.virtual import VirtualClock, run_virtual

if TYPE_CHECKING:
    from pathlib import Path

    from karpenter.kube.client import Client

NAMED = ("--set", "settings.clusterName=blue")


def run(*arguments: str, text: str | None = None) -> Result:
    """Run ``karpenter manifests`` with these arguments."""
    return CliRunner().invoke(main, ["manifests", *arguments], input=text)


def test_both_forms_say_the_same() -> None:
    """YAML is a stream of objects, JSON one list of the same."""
    objects = list(yaml.safe_load_all(run(*NAMED).stdout))

    assert json.loads(run(*NAMED, "-o", "json").stdout)["items"] == objects
    assert objects[0]["kind"] == "CustomResourceDefinition"
    assert objects[-1]["kind"] == "Deployment"


def test_values_from_files(tmp_path: Path) -> None:
    """Files of values are laid over each other, and standard input is one."""
    file = tmp_path / "values.yaml"
    file.write_text("settings: {clusterName: blue}\nreplicas: 1\n")
    done = run("-f", str(file), "-f", "-", "--skip-crds", text="replicas: 3\n")
    [deployment] = [each for each in yaml.safe_load_all(done.stdout) if each["kind"] == "Deployment"]

    assert deployment["spec"]["replicas"] == 3


@pytest.mark.parametrize(
    ("arguments", "problem", "hint"),
    [
        pytest.param([], "settings.clusterName is required", "--set NAME=VALUE", id="no name"),
        pytest.param(
            [*NAMED, "--set", "replica=1"], "no value replica; did you mean", "values.yaml", id="typo"
        ),
        pytest.param([*NAMED, "-f", "-"], "stdin: not a mapping of values", "values.yaml", id="no mapping"),
        pytest.param(
            [*NAMED, "--set", "controller.image.repository=public.ecr.aws/karpenter/controller"],
            "the image of another operator, which cannot run here",
            "set controller.image.repository",
            id="an image of another operator",
        ),
    ],
)
def test_what_is_refused(arguments: list[str], problem: str, hint: str) -> None:
    """A value that is missing or unknown is one line, and a hint."""
    refused = run(*arguments, text="[1]")

    assert refused.exit_code == 2
    error, told = refused.stderr.splitlines()
    assert problem in error
    assert hint in told


def test_the_namespace_where_asked() -> None:
    """With --create-namespace the first object is the namespace, as Helm would make it."""
    first, *_ = yaml.safe_load_all(run(*NAMED, "-n", "karpenter", "--create-namespace").stdout)

    assert first == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karpenter"}}


def test_templates_are_rendered() -> None:
    """A setting that is a template names values, and one that cannot be rendered is refused by its name."""
    text = "global: {clusterName: blue}\nsettings: {clusterName: 'x-{{ .Values.global.clusterName }}'}\n"
    done = run("-f", "-", text=text)
    [deployment] = [each for each in yaml.safe_load_all(done.stdout) if each["kind"] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    refused = run("-f", "-", text="settings: {clusterName: '{{ .Values.global.clusterName }}'}")

    assert {"name": "CLUSTER_NAME", "value": "x-blue"} in container["env"]
    assert refused.exit_code == 2
    assert "settings.clusterName: there is nothing to find clusterName in" in refused.stderr


def test_what_is_not_helms_does_not_say_so() -> None:
    """Objects that kubectl applies are not labelled as Helm's; values of older charts are warned about."""
    done = run(*NAMED, "--set", "webhook.enabled=false")
    labels = next(yaml.safe_load_all(run(*NAMED, "--skip-crds").stdout))["metadata"]["labels"]

    assert labels["app.kubernetes.io/managed-by"] == "kubectl"
    assert done.exit_code == 0
    assert done.stderr.startswith("warning: webhook has no effect")


def test_a_cluster_takes_them() -> None:
    """The API server accepts every object, and a second time nothing changes."""
    objects = list(yaml.safe_load_all(run(*NAMED, "--set", "settings.cloudProvider=kwok").stdout))

    async def apply(client: Client, each: dict[str, Any]) -> str:
        namespaced = "namespace" in each["metadata"]
        name = each["kind"].lower()
        plural = f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
        target = untyped(each["apiVersion"], plural, kind=each["kind"], namespaced=namespaced)
        made = await client.apply(target, each)
        return str(made["metadata"]["resourceVersion"])

    async def scenario() -> None:
        async with LocalCluster(VirtualClock(), seed=1) as cluster:
            for each in objects:
                await apply(cluster.client, each)
            await asyncio.sleep(5)  # controllers write what they have to say
            before = [await apply(cluster.client, each) for each in objects]
            assert [await apply(cluster.client, each) for each in objects] == before

    run_virtual(scenario())


def test_policies_for_iam() -> None:
    """The documents by their names, for the cluster, the region and the account that are named."""
    found = json.loads(run(*NAMED, "--iam", "cn-north-1/111122223333", "-o", "json").stdout)

    assert "KarpenterControllerNodeLifecyclePolicy-blue" in found
    queue = found["KarpenterControllerInterruptionPolicy-blue"]["Statement"][0]["Resource"]
    assert queue == "arn:aws-cn:sqs:cn-north-1:111122223333:blue"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param(
            [*NAMED, "--iam", "us-west-2"], "'us-west-2' is not a region and an account", id="where"
        ),
        pytest.param(["--iam", "us-west-2/111122223333"], "settings.clusterName", id="for which cluster"),
    ],
)
def test_policies_need_to_know(arguments: list[str], problem: str) -> None:
    """One sentence says what is missing."""
    refused = run(*arguments)

    assert refused.exit_code == 2
    assert problem in refused.stderr


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param(("--kubernetes-version", "1.29"), 0, id="1.29 has none"),
        pytest.param(("--kubernetes-version", "v1.29.4-eks-1"), 0, id="a version of EKS is read"),
        pytest.param(("--kubernetes-version", "1.30"), 3, id="1.30 has all"),
        pytest.param((), 3, id="a version that is not known has all"),
    ],
)
def test_admission_policies_are_for_clusters_that_serve_them(version: tuple[str, ...], expected: int) -> None:
    """An older cluster would refuse the kind; without a version, a note says what it needs."""
    sets = ("--set", "settings.steerScaleDown=true,settings.surgeBeforeEvict=true")
    result = run(*NAMED, *sets, *version)
    kinds = [each["kind"] for each in yaml.safe_load_all(result.stdout)]

    assert kinds.count("ValidatingAdmissionPolicy") == expected
    assert kinds.count("ValidatingAdmissionPolicyBinding") == expected
    assert ("need Kubernetes 1.30" in result.stderr) is (not version)


def test_a_version_that_is_none() -> None:
    """The option is named, with what it takes."""
    result = run(*NAMED, "--kubernetes-version", "latest")

    assert result.exit_code == 2
    assert "'latest' is not a version of Kubernetes" in result.stderr
    assert "hint: such as 1.29" in result.stderr


@pytest.mark.parametrize(
    ("repository", "said"),
    [
        pytest.param("karpenter", True, id="no registry"),
        pytest.param("registry.example/karpenter", False, id="a registry"),
    ],
)
def test_an_image_that_no_registry_has_is_said(repository: str, said: bool) -> None:
    """Data goes to standard output all the same."""
    sets = f"settings.clusterName=blue,controller.image.repository={repository}"
    result = CliRunner().invoke(main, ["manifests", "--set", sets])

    assert ("no registry has the image karpenter:" in result.stderr) is said
    assert result.exit_code == 0
