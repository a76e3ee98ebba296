"""
What an installation needs before anything is made: nodes for the operator's pods, and an image to pull.

Only reads. An image in ECR is looked up through the API of AWS, any other one in its registry, as kubelets do
it, but without their credentials: what a registry does not answer about is not held against the image.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import msgspec

from karpenter.api.labels import NODEPOOL
from karpenter.api.node import Taint
from karpenter.api.pod import Toleration
from karpenter.cloud.aws.errors import AwsApiError
from karpenter.cloud.errors import CloudError
from karpenter.core.model.taints import first_untolerated
from karpenter.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from karpenter.install.account import AccountApi
    from karpenter.install.kubernetes import ClusterApi
    from karpenter.install.plan import InstallationPlan
    from karpenter.install.resources import Json

_ECR: Final = re.compile(r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?")
_LOOPBACK: Final = re.compile(r"(localhost|127\.\d+\.\d+\.\d+)(:\d+)?")
_DOCKER_HUB: Final = "registry-1.docker.io"
_PARAMETER: Final = re.compile(r'(\w+)="([^"]*)"')
# https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pulling-manifests
_ACCEPTED: Final = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json,"
    " application/vnd.docker.distribution.manifest.list.v2+json,"
    " application/vnd.docker.distribution.manifest.v2+json"
)
_ANSWERS_WITHIN: Final = aiohttp.ClientTimeout(total=10)
_OK: Final = 200
_UNAUTHORIZED: Final = 401
_NOT_FOUND: Final = 404
_SIMULATED: Final = "+embedded"
"""What an embedded API server adds to its version: its containers are simulated and need no image."""


class PreflightProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that keeps the operator's pods from running."""

    problem: str
    hint: str = ""
    certain: bool = True
    """False for what could not be found out."""


class ImageName(msgspec.Struct, frozen=True, kw_only=True):
    """The name of an image, in its parts."""

    registry: str
    """The host, with its port; empty where the name has none."""

    repository: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> ImageName:
        # https://github.com/distribution/reference: the first part is a host if it has a dot or a colon.
        name, _, digest = text.partition("@")
        first, slash, rest = name.partition("/")
        registry = first if slash and ("." in first or ":" in first or first == "localhost") else ""
        path = rest if registry else name
        repository, colon, tag = path.partition(":")
        return cls(
            registry=registry,
            repository=repository,
            tag=tag if colon else "" if digest else "latest",
            digest=digest,
        )


async def find_problems(
    plan: InstallationPlan, aws: AccountApi, cluster: ClusterApi | None
) -> list[PreflightProblem]:
    """
    Return what would keep the operator from running; without a cluster, what its image alone tells.

    Raises:
        KubeError: the cluster does not answer.
    """
    simulated = cluster is not None and await _is_simulated(cluster)
    nodes = await _node_problem(plan, cluster) if cluster is not None else None
    image = await _image_problem(plan, aws)
    if image is not None and simulated:
        said = f"{image.problem}; this cluster is embedded and runs it all the same, a real one does not"
        image = PreflightProblem(problem=said, certain=False)
    return [each for each in (nodes, image) if each is not None]


async def _is_simulated(cluster: ClusterApi) -> bool:
    answer = await cluster.client.send(Request(method="GET", path="/version"))
    return _SIMULATED.encode() in answer.body


async def _node_problem(plan: InstallationPlan, cluster: ClusterApi) -> PreflightProblem | None:
    deployment = operator_deployment(plan)
    pod = deployment["spec"]["template"]["spec"]
    replicas = int(deployment["spec"]["replicas"])
    nodes = await cluster.every("v1", "Node")
    refusals = [(each["metadata"]["name"], why_not(each, pod)) for each in nodes]
    fit = [name for name, reason in refusals if not reason]
    if len(fit) >= replicas:
        return None
    if fit:
        said = f"{len(fit)} of {len(nodes)} nodes take the operator's {replicas} replicas, of which each"
        return PreflightProblem(problem=f"{said} has a node of its own: the others wait", certain=False)
    if not nodes:
        found = "the cluster has no node"
    else:
        found = "; ".join(f"{name} {reason}" for name, reason in sorted(refusals)[:3])
        found = f"none of {len(nodes)} nodes takes them: {found}"
    several = "a replica needs a node" if replicas == 1 else f"{replicas} replicas need a node each"
    return PreflightProblem(
        problem=f"the operator's pods have no place: {found}",
        hint=f"{several} that the operator does not launch itself:\n{node_commands(plan, max(replicas, 1))}",
    )


def operator_deployment(plan: InstallationPlan) -> Json:
    return next(each for each in plan.release.objects if each["kind"] == "Deployment")


def why_not(node: Json, pod: Json) -> str:
    """Say why a node does not take the operator's pods; empty if it does, as far as room goes unasked."""
    labels = node["metadata"].get("labels") or {}
    spec = node.get("spec") or {}
    if NODEPOOL in labels:
        return f"is of NodePool {labels[NODEPOOL]}"
    if spec.get("unschedulable"):
        return "is cordoned"
    conditions = (node.get("status") or {}).get("conditions") or ()
    if not any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions):
        return "is not Ready"
    for key, value in (pod.get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            return f"has no label {key}={value}"
    taints = msgspec.convert(spec.get("taints") or [], tuple[Taint, ...])
    tolerations = msgspec.convert(pod.get("tolerations") or [], tuple[Toleration, ...])
    taint = first_untolerated(tolerations, (each for each in taints if each.effect in _KEEPS_AWAY))
    return f"has the taint {taint.key}:{taint.effect}" if taint is not None else ""


_KEEPS_AWAY: Final = frozenset({"NoSchedule", "NoExecute"})


def node_commands(plan: InstallationPlan, count: int) -> str:
    """Return the command that makes nodes for the operator, and what else there is."""
    facts = plan.facts
    return (
        f"  eksctl create nodegroup --cluster {facts.cluster} --region {facts.region} --name karpenter"
        f" --node-type m5.large --nodes {count}\n"
        f"or a Fargate profile for namespace {plan.release.namespace}; --no-wait installs all the same"
    )


async def _image_problem(plan: InstallationPlan, aws: AccountApi) -> PreflightProblem | None:
    text = operator_image(plan)
    image = ImageName.parse(text)
    if "/" not in image.repository and not image.registry:
        # Kubelets look for it among the official images of Docker Hub.
        return PreflightProblem(
            problem=f"image {text}: the name has no registry, so that no node can pull it",
            hint=build_commands(plan),
        )
    ecr = _ECR.fullmatch(image.registry)
    try:
        if ecr is not None and ecr["region"] == plan.facts.region:
            exists = _is_in_ecr(aws, image, ecr["account"])
        else:
            exists = await _is_in_registry(image)
    except _Unanswered as error:
        return PreflightProblem(problem=f"image {text}: {error}", certain=False)
    if exists:
        return None
    return PreflightProblem(
        problem=f"image {text}: {image.registry or _DOCKER_HUB} does not have it", hint=build_commands(plan)
    )


class _Unanswered(Exception):  # noqa: N818  says what has happened
    """The registry does not say whether it has an image."""


def operator_image(plan: InstallationPlan) -> str:
    return str(operator_deployment(plan)["spec"]["template"]["spec"]["containers"][0]["image"])


def _is_in_ecr(aws: AccountApi, image: ImageName, account: str) -> bool:
    named = {"imageDigest": image.digest} if image.digest else {"imageTag": image.tag}
    try:
        aws.call(
            "ecr", "DescribeImages", registryId=account, repositoryName=image.repository, imageIds=[named]
        )
    except AwsApiError as error:
        if error.code in {"RepositoryNotFoundException", "ImageNotFoundException"}:
            return False
        raise _Unanswered(f"it was not looked up: {error}") from error
    except CloudError as error:
        raise _Unanswered(f"it was not looked up: {error}") from error
    return True


async def _is_in_registry(image: ImageName) -> bool:
    host = image.registry or _DOCKER_HUB
    if host == "docker.io":
        host = _DOCKER_HUB
    scheme = "http" if _LOOPBACK.fullmatch(host) else "https"
    url = f"{scheme}://{host}/v2/{image.repository}/manifests/{image.digest or image.tag}"
    try:
        async with aiohttp.ClientSession(timeout=_ANSWERS_WITHIN, trust_env=True) as session:
            status, challenge = await _head(session, url)
            if status == _UNAUTHORIZED and (token := await _token(session, challenge)):
                status, _ = await _head(session, url, {"Authorization": f"Bearer {token}"})
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        said = str(error) or "it takes too long"
        raise _Unanswered(f"{host} does not answer: {said}") from error
    if status in {_OK, _NOT_FOUND}:
        return status == _OK
    raise _Unanswered(f"{host} does not say whether it has it (HTTP {status})")


async def _head(
    session: aiohttp.ClientSession, url: str, headers: Mapping[str, str] | None = None
) -> tuple[int, str]:
    async with session.head(url, headers={"Accept": _ACCEPTED, **(headers or {})}) as answer:
        return answer.status, answer.headers.get("WWW-Authenticate", "")


async def _token(session: aiohttp.ClientSession, challenge: str) -> str:
    """Return the token that a registry gives without credentials; empty if it gives none."""
    # https://distribution.github.io/distribution/spec/auth/token/
    scheme, _, rest = challenge.partition(" ")
    told = dict(_PARAMETER.findall(rest))
    if scheme.lower() != "bearer" or not told.get("realm"):
        return ""
    asked = {key: told[key] for key in ("service", "scope") if key in told}
    async with session.get(told["realm"], params=asked) as answer:
        if answer.status != _OK:
            return ""
        body: dict[str, Any] = await answer.json(content_type=None)
    return str(body.get("token") or body.get("access_token") or "")


def build_commands(plan: InstallationPlan) -> str:
    """Return the commands that build the image and push it to its registry, or to ECR where it has none."""
    return "\n".join(("build and push it, in a checkout of this project:", *_build(plan)))


def _build(plan: InstallationPlan) -> Iterator[str]:
    facts = plan.facts
    image = ImageName.parse(operator_image(plan))
    suffix = ".cn" if facts.partition == "aws-cn" else ""
    own = f"{facts.account}.dkr.ecr.{facts.region}.amazonaws.com{suffix}"
    host = image.registry or own
    repository = f"{host}/{image.repository}"
    tagged = f"{repository}:{image.tag or plan.release.app_version}"
    if host == own:
        yield f"  aws ecr create-repository --repository-name {image.repository} --region {facts.region}"
        yield (
            f"  aws ecr get-login-password --region {facts.region} | docker login --username AWS"
            f" --password-stdin {host}"
        )
    yield "  python -m pip wheel --no-deps --wheel-dir dist ./packages/karpenter"
    yield f"  docker build --tag {tagged} . && docker push {tagged}"
    if not image.registry:
        yield f"then add --set controller.image.repository={repository}"


def as_hint(problems: Iterable[PreflightProblem]) -> str:
    return "\n".join(each.hint for each in problems if each.hint)
