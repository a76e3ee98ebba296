"""What an installation needs before anything is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from botocore.exceptions import ClientError

from karpenter.install.account import AccountApi
from karpenter.install.permissions import needed_actions
from karpenter.install.preflight import (
    ImageName,
    PreflightProblem,
    build_commands,
    find_problems,
    operator_deployment,
    why_not,
)
from tests.unit.install.test_plan import FACTS, plan

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ECR = "123456789012.dkr.ecr.us-west-2.amazonaws.com"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        pytest.param("karpenter:0.1.0", ("", "karpenter", "0.1.0", ""), id="a name alone has no registry"),
        pytest.param("mine/karpenter", ("", "mine/karpenter", "latest", ""), id="Docker Hub"),
        pytest.param(
            "registry.example:5000/a/karpenter:1",
            ("registry.example:5000", "a/karpenter", "1", ""),
            id="a registry with a port",
        ),
        pytest.param(
            "localhost/karpenter@sha256:ab",
            ("localhost", "karpenter", "", "sha256:ab"),
            id="a digest instead of a tag",
        ),
    ],
)
def test_the_name_of_an_image(text: str, parts: tuple[str, ...]) -> None:
    """The first part is a registry if it looks like a host, as Docker reads it."""
    assert msgspec.structs.astuple(ImageName.parse(text)) == parts


def node(**changes: Any) -> dict[str, Any]:
    """Return a node that takes the operator's pods, with changes."""
    labels = {"kubernetes.io/os": "linux", **changes.pop("labels", {})}
    ready = changes.pop("ready", "True")
    return {
        "metadata": {"name": "a", "labels": labels},
        "spec": changes,
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param(node(), "", id="a plain node"),
        pytest.param(node(labels={"karpenter.sh/nodepool": "x"}), "is of NodePool x", id="a machine of ours"),
        pytest.param(node(unschedulable=True), "is cordoned", id="a cordoned node"),
        pytest.param(node(ready="False"), "is not Ready", id="a node that is not ready"),
        pytest.param(
            node(labels={"kubernetes.io/os": "windows"}), "has no label kubernetes.io/os=linux", id="Windows"
        ),
        pytest.param(
            node(taints=[{"key": "gpu", "effect": "NoSchedule"}]),
            "has the taint gpu:NoSchedule",
            id="tainted",
        ),
        pytest.param(
            node(taints=[{"key": "CriticalAddonsOnly", "effect": "NoSchedule"}]), "", id="one it tolerates"
        ),
        pytest.param(
            node(taints=[{"key": "a", "effect": "PreferNoSchedule"}]), "", id="one that only prefers"
        ),
    ],
)
def test_which_nodes_take_the_operator(found: dict[str, Any], reason: str) -> None:
    """A node that it launches itself is none, nor one that its pods do not tolerate."""
    pod = operator_deployment(plan())["spec"]["template"]["spec"]

    assert why_not(found, pod) == reason


@pytest.fixture
async def registry() -> AsyncIterator[str]:
    """Return the address of a registry that has one image; `private` is not for us."""

    async def manifest(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer t":
            realm = f"http://{request.host}/token"
            said = f'Bearer realm="{realm}",service="r",scope="repository:karpenter:pull"'
            return web.Response(status=401, headers={"WWW-Authenticate": said})
        if request.match_info["name"] == "private":
            return web.Response(status=403)
        return web.Response(status=200 if request.match_info["tag"] == "0.1.0" else 404)

    async def token(request: web.Request) -> web.Response:
        assert request.query == {"service": "r", "scope": "repository:karpenter:pull"}
        return web.json_response({"token": "t"})

    application = web.Application()
    application.router.add_head("/v2/{name}/manifests/{tag}", manifest)
    application.router.add_get("/token", token)
    async with TestServer(application) as server:
        yield f"127.0.0.1:{server.port}"


async def problem_of(*sets: str, aws: Any = None) -> PreflightProblem | None:
    """Return what is wrong with the image of an installation."""
    found = await find_problems(plan(sets=sets), aws, None)
    return found[0] if found else None


@pytest.mark.parametrize(
    ("image", "certain", "said"),
    [
        pytest.param("karpenter:0.1.0", None, "", id="an image that is there"),
        pytest.param("karpenter:0.2.0", True, "does not have it", id="a tag that is not"),
        pytest.param("private:0.1.0", False, "does not say whether it has it (HTTP 403)", id="a private one"),
    ],
)
async def test_an_image_in_a_registry(registry: str, image: str, certain: bool | None, said: str) -> None:
    """It is asked for as kubelets do it, with the token that the registry gives to all."""
    name, _, tag = image.partition(":")
    found = await problem_of(f"controller.image.repository={registry}/{name},controller.image.tag={tag}")

    assert (found.certain if found else None) == certain
    assert said in (found.problem if found else "")


async def test_a_registry_that_does_not_answer() -> None:
    """It is said, and held against nothing."""
    found = await problem_of("controller.image.repository=127.0.0.1:1/karpenter")

    assert found is not None
    assert not found.certain
    assert "127.0.0.1:1 does not answer" in found.problem


class EcrClient:
    """An ECR that answers with an error, or with nothing."""

    def __init__(self, code: str) -> None:
        self._code = code

    def describe_images(self, **asked: Any) -> dict[str, Any]:
        assert asked["imageIds"] == [{"imageTag": "0.1.0"}]
        if self._code:
            raise ClientError({"Error": {"Code": self._code, "Message": "said"}}, "DescribeImages")
        return {"imageDetails": []}


@pytest.mark.parametrize(
    ("code", "certain"),
    [
        pytest.param("", None, id="it is there"),
        pytest.param("RepositoryNotFoundException", True, id="no repository"),
        pytest.param("ImageNotFoundException", True, id="no such tag"),
        pytest.param("AccessDeniedException", False, id="we may not look"),
    ],
)
async def test_an_image_in_ecr(code: str, certain: bool | None) -> None:
    """AWS is asked with the credentials of the person who installs."""
    aws = AccountApi(lambda _: EcrClient(code))
    found = await problem_of(f"controller.image.repository={ECR}/karpenter", aws=aws)

    assert (found.certain if found else None) == certain


def test_the_action_for_ecr_is_listed() -> None:
    """Who installs from ECR must be allowed to look there, and otherwise need not be."""
    given = plan(sets=(f"controller.image.repository={ECR}/karpenter",))

    assert "ecr:DescribeImages" in needed_actions(given)
    assert "ecr:DescribeImages" not in needed_actions(plan())


async def test_an_image_without_a_registry() -> None:
    """The default one is to be built: the commands are those of this account and region."""
    found = await problem_of()

    assert found is not None
    assert found.problem == "image karpenter:0.1.0: the name has no registry, so that no node can pull it"
    assert found.hint.splitlines()[1:] == [
        "  aws ecr create-repository --repository-name karpenter --region us-west-2",
        (
            "  aws ecr get-login-password --region us-west-2 | docker login --username AWS"
            f" --password-stdin {ECR}"
        ),
        "  python -m pip wheel --no-deps --wheel-dir dist ./packages/karpenter",
        f"  docker build --tag {ECR}/karpenter:0.1.0 . && docker push {ECR}/karpenter:0.1.0",
        f"then add --set controller.image.repository={ECR}/karpenter",
    ]


def test_an_image_is_pushed_to_where_it_is_named() -> None:
    """And the value that names it is not said again."""
    lines = build_commands(plan(sets=("controller.image.repository=r.example/k",))).splitlines()

    assert lines[1:] == [
        "  python -m pip wheel --no-deps --wheel-dir dist ./packages/karpenter",
        "  docker build --tag r.example/k:0.1.0 . && docker push r.example/k:0.1.0",
    ]


def test_ecr_in_china() -> None:
    """Its hosts end otherwise."""
    facts = msgspec.structs.replace(FACTS, region="cn-north-1", partition="aws-cn")

    assert "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/karpenter" in build_commands(plan(facts))
