"""
The part of a plan that is in the cluster: read, compared, applied, deleted.

Objects are applied server-side, as ``karpenter-install``; an object is as planned when every field that the
plan states is so in the cluster, whatever else others have added. With the program ``helm`` the chart is
installed by it; without, its objects are applied and the release is recorded as Helm would.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from karpenter.api.manifests import read_documents
from karpenter.api.meta import InvalidObject
from karpenter.chart.chart import files as chart_files
from karpenter.chart.tree import CHART, LEASE
from karpenter.install.observe import ABSENT, ResourceState
from karpenter.install.options import InstallationError
from karpenter.install.plan import set_values
from karpenter.install.release import (
    OWNED,
    SECRET_TYPE,
    ReleaseRecord,
    latest,
    managed,
    read_release,
    release_secret,
    superseded,
)
from karpenter.install.resources import AwsAuthMapping, ClusterResource, HelmRelease, Json, KubernetesObject
from karpenter.kube.errors import NotFound
from karpenter.kube.patches import MergePatch
from karpenter.kube.rest import Selection
from karpenter.kube.targets import Untyped, untyped

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from karpenter.base.clock import Clock
    from karpenter.kube.client import Client

MANAGER: Final = "karpenter-install"
_RBAC: Final = "rbac.authorization.k8s.io/v1"
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_KINDS: Final = {
    ("v1", "ConfigMap"): ("configmaps", True),
    ("v1", "Namespace"): ("namespaces", False),
    ("v1", "Node"): ("nodes", False),
    ("v1", "Pod"): ("pods", True),
    ("v1", "Secret"): ("secrets", True),
    ("v1", "Service"): ("services", True),
    ("v1", "ServiceAccount"): ("serviceaccounts", True),
    (_ADMISSION, "ValidatingAdmissionPolicy"): ("validatingadmissionpolicies", False),
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): ("validatingadmissionpolicybindings", False),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): ("customresourcedefinitions", False),
    ("apps/v1", "Deployment"): ("deployments", True),
    ("coordination.k8s.io/v1", "Lease"): ("leases", True),
    ("karpenter.k8s.aws/v1", "EC2NodeClass"): ("ec2nodeclasses", False),
    ("karpenter.sh/v1", "NodeClaim"): ("nodeclaims", False),
    ("karpenter.sh/v1", "NodePool"): ("nodepools", False),
    ("monitoring.coreos.com/v1", "ServiceMonitor"): ("servicemonitors", True),
    ("networking.k8s.io/v1", "NetworkPolicy"): ("networkpolicies", True),
    ("policy/v1", "PodDisruptionBudget"): ("poddisruptionbudgets", True),
    (_RBAC, "ClusterRole"): ("clusterroles", False),
    (_RBAC, "ClusterRoleBinding"): ("clusterrolebindings", False),
    (_RBAC, "Role"): ("roles", True),
    (_RBAC, "RoleBinding"): ("rolebindings", True),
}
_MOST_DIFFERENCES: Final = 8
_BUSY: Final = "another operation (install/upgrade/rollback) is in progress"
"""What Helm says of a release that a run of it left in the middle."""

_LEASE_SECONDS: Final = 15.0
"""How long a lease lasts that is not renewed."""

_EARLY_ENOUGH: Final = 2.0
"""Seconds between two looks at something that is awaited."""


def target_for(api_version: str, kind: str) -> Untyped:
    plural, namespaced = _KINDS[api_version, kind]
    return untyped(api_version, plural, kind=kind, namespaced=namespaced)


SECRETS: Final = target_for("v1", "Secret")
CONFIG_MAPS: Final = target_for("v1", "ConfigMap")
DEPLOYMENTS: Final = target_for("apps/v1", "Deployment")
LEASES: Final = target_for("coordination.k8s.io/v1", "Lease")
PODS: Final = target_for("v1", "Pod")


_VERSION_LABELS: Final = tuple(
    f"metadata.labels.{label} " for label in ("helm.sh/chart", "app.kubernetes.io/version")
)
"""Labels that follow from the version of the chart, which the record of the release has."""


class HelmProgram:
    """The program ``helm``, and which cluster it is told to use."""

    def __init__(self, program: str, *, options: Sequence[str] = ()) -> None:
        self.program = program
        self._options = tuple(options)

    async def run(self, *arguments: str, hints: Mapping[str, str] | None = None) -> str:
        """
        Run it and return what it printed; `hints` say what helps when its error has some words.

        Raises:
            InstallationError: it failed; the message is its last line.
        """
        process = await asyncio.create_subprocess_exec(
            self.program,
            *arguments,
            *self._options,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        if process.returncode:
            said = err.decode(errors="replace").strip().splitlines()
            problem = said[-1] if said else "failed"
            hint = next((text for words, text in (hints or {}).items() if words in problem), "")
            raise InstallationError(f"helm {arguments[0]}: {problem.removeprefix('Error: ')}", hint=hint)
        return out.decode(errors="replace")

    async def upgrade(self, release: HelmRelease) -> None:
        """Install or upgrade a release of the chart that ships with us."""
        with tempfile.TemporaryDirectory(prefix="karpenter-chart-") as folder:
            for name, text in stamped_chart(release).items():
                path = Path(folder) / release.chart / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            values = Path(folder) / "values.yaml"
            values.write_text(yaml.safe_dump(_plain(release.values)), encoding="utf-8")
            sets = [word for each in release.sets for word in ("--set", each)]
            await self.run(
                "upgrade",
                "--install",
                release.name,
                str(Path(folder) / release.chart),
                "--namespace",
                release.namespace,
                "--create-namespace",
                "--skip-crds",
                "--values",
                str(values),
                *sets,
                hints={_BUSY: _busy(release)},
            )


def _busy(release: HelmRelease) -> str:
    where = f"{release.name} -n {release.namespace}"
    return (
        f"if no other helm runs: helm rollback {where}, or helm uninstall {where} if there is no revision"
        " before; then run the same command again"
    )


def stamped_chart(release: HelmRelease) -> dict[str, str]:
    found = chart_files()
    about = yaml.safe_load(found["Chart.yaml"])
    about |= {"version": release.chart_version, "appVersion": release.app_version}
    return {**found, "Chart.yaml": yaml.safe_dump(about)}


class ClusterApi:
    """Does to a cluster what a plan says."""

    def __init__(self, client: Client, *, clock: Clock, helm: HelmProgram | None = None) -> None:
        self.client = client
        self.helm = helm
        self._clock = clock

    async def observe(self, resource: ClusterResource) -> ResourceState:
        match resource:
            case AwsAuthMapping():
                return await self._mapping(resource)
            case KubernetesObject():
                live = await self.find(resource.body)
                return compared(live, resource.body) if live is not None else ABSENT
            case HelmRelease():
                return await self._release(resource)

    async def make(self, resource: ClusterResource) -> None:
        match resource:
            case AwsAuthMapping():
                await self._map(resource)
            case KubernetesObject():
                await self.apply(resource.body)
            case HelmRelease() if self.helm is not None and resource.chart == CHART:
                await self.helm.upgrade(resource)
            case HelmRelease():
                await self._install(resource)

    async def find(self, body: Json) -> dict[str, Any] | None:
        """Return the object of that kind and name; None if there is none, or not even its kind."""
        meta = body["metadata"]
        target = target_for(body["apiVersion"], body["kind"])
        try:
            return await self.client.get(target, meta["name"], namespace=meta.get("namespace", ""))
        except NotFound:
            return None

    async def apply(self, body: Json) -> None:
        await self.client.apply(target_for(body["apiVersion"], body["kind"]), body)

    async def delete(self, body: Json) -> bool:
        """Ask for an object to go; say whether it was there."""
        meta = body["metadata"]
        target = target_for(body["apiVersion"], body["kind"])
        try:
            await self.client.delete(
                target, meta["name"], namespace=meta.get("namespace", ""), propagation="Background"
            )
        except NotFound:
            return False
        return True

    async def every(self, api_version: str, kind: str, *, labels: str = "") -> list[dict[str, Any]]:
        """Return the objects of a kind; none, if the cluster does not know the kind."""
        try:
            page = await self.client.list(target_for(api_version, kind), Selection(labels=labels))
        except NotFound:
            return []
        return list(page.items)

    async def count(self, definition: Json) -> int:
        """Return how many objects there are of the kind that a definition defines."""
        spec = definition["spec"]
        names = spec["names"]
        kind = untyped(
            f"{spec['group']}/{spec['versions'][0]['name']}",
            names["plural"],
            kind=names["kind"],
            namespaced=spec["scope"] == "Namespaced",
        )
        try:
            return len((await self.client.list(kind)).items)
        except NotFound:
            return 0

    async def change(self, api_version: str, kind: str, name: str, change: MergePatch) -> None:
        """Change part of an object of the whole cluster, if it is still there."""
        with suppress(NotFound):
            await self.client.patch(target_for(api_version, kind), name, change)

    async def releases(self, name: str = "") -> list[ReleaseRecord]:
        """Return what Helm has installed: the last revision of every release, or of one."""
        labels = f"{OWNED},name={name}" if name else OWNED
        secrets = await self.every("v1", "Secret", labels=labels)
        return latest(read_release(each) for each in secrets if each.get("type") == SECRET_TYPE)

    async def leads(self, release: HelmRelease, *, since: datetime, within: float) -> AsyncIterator[str]:
        """
        Wait until a replica of the operator leads, and yield now and then what is waited for.

        Raises:
            InstallationError: none does in time; the message says what its pods say.
        """
        deadline = self._clock.monotonic() + within
        told = ""
        while True:
            holder = await self.leader(release.namespace, since)
            if holder:
                yield f"{holder} leads"
                return
            state = await self._deployment_state(release)
            if state != told:
                told = state
                yield state
            if self._clock.monotonic() >= deadline:
                raise InstallationError(
                    f"no replica of the operator leads after {within:g} s: {state}",
                    hint=await self._look_at(release),
                )
            await asyncio.sleep(_EARLY_ENOUGH)

    async def ready(self, bodies: Sequence[Json], *, within: float) -> AsyncIterator[str]:
        """
        Wait until objects are Ready, and yield what is waited for when that changes.

        Raises:
            InstallationError: one is not in time; the message has its conditions.
        """
        deadline = self._clock.monotonic() + within
        told = ""
        while True:
            states = [_not_ready(each, await self.find(each)) for each in bodies]
            state = "; ".join(filter(None, states))
            if not state:
                yield f"{' and '.join(map(_title, bodies))} are Ready"
                return
            if state != told:
                told = state
                yield state
            if self._clock.monotonic() >= deadline:
                raise InstallationError(
                    f"after {within:g} s: {state}", hint="karpenter doctor says what helps"
                )
            await asyncio.sleep(_EARLY_ENOUGH)

    async def stopped(self, release: HelmRelease, *, within: float) -> None:
        """
        Wait until no replica of the operator can do anything: its pods are gone, and none leads.

        Raises:
            InstallationError: one still runs.
        """
        labels = _selector(release)
        deadline = self._clock.monotonic() + within
        while True:
            pods = await self.every("v1", "Pod", labels=labels)
            # One that is killed leaves its lease as it is; no other replica may take it before it ends.
            since = self._clock.now() - timedelta(seconds=_LEASE_SECONDS)
            holder = await self.leader(release.namespace, since)
            if not pods and not holder:
                return
            if self._clock.monotonic() >= deadline:
                left = ", ".join(pod["metadata"]["name"] for pod in pods) or holder
                raise InstallationError(f"the operator still runs after {within:g} s: {left}")
            await asyncio.sleep(_EARLY_ENOUGH / 4)

    async def leader(self, namespace: str, since: datetime) -> str:
        try:
            lease = await self.client.get(LEASES, LEASE, namespace=namespace)
        except NotFound:
            return ""
        spec = lease.get("spec") or {}
        renewed = str(spec.get("renewTime") or "")
        # A lease that was not renewed since we began is that of a replica that has gone.
        fresh = renewed[:19] >= since.strftime("%Y-%m-%dT%H:%M:%S")
        return str(spec.get("holderIdentity") or "") if fresh else ""

    async def _deployment_state(self, release: HelmRelease) -> str:
        bodies = [each for each in release.objects if each["kind"] == "Deployment"]
        live = await self.find(bodies[0]) if bodies else None
        if live is None:
            return "there is no Deployment"
        ready = (live.get("status") or {}).get("readyReplicas") or 0
        wanted = live["spec"].get("replicas", 1)
        pods = await self.every("v1", "Pod", labels=_selector(release))
        reasons = {reason for pod in pods for reason in _waits(pod)}
        said = f": {'; '.join(sorted(reasons))}" if reasons else ""
        return f"{ready} of {wanted} replicas are ready{said}"

    async def _look_at(self, release: HelmRelease) -> str:
        """Return the command that shows why the operator's pods do not work."""
        selector = f"-n {release.namespace} -l {_selector(release)}"
        pods = await self.every("v1", "Pod", labels=_selector(release))
        if any(_has_run(each) for each in pods):
            return f"kubectl logs {selector} --prefix --tail=-1"
        return f"kubectl describe pods {selector}" if pods else f"kubectl describe replicasets {selector}"

    async def _release(self, release: HelmRelease) -> ResourceState:
        differences: list[str] = []
        found = 0
        for body in release.objects:
            live = await self.find(body)
            name = f"{body['kind']} {body['metadata']['name']}"
            if live is None:
                differences.append(f"{name} is missing")
            else:
                found += 1
                differences += [
                    f"{name}: {each}"
                    for each in compared(live, body).differences
                    if not each.startswith(_VERSION_LABELS)
                ]
        records = await self.releases(release.name)
        if not found and not records:
            return ABSENT
        record = next((each for each in records if each.namespace == release.namespace), None)
        if record is None:
            differences.append("the release is not recorded")
        elif record.chart_version != release.chart_version:
            differences.append(f"chart {record.chart_version} becomes {release.chart_version}")
        elsewhere = [f"also in namespace {each.namespace}" for each in records if each is not record]
        return ResourceState(differences=tuple(differences), ours=True, notes=tuple(elsewhere))

    async def _install(self, release: HelmRelease) -> None:
        bodies = _bodies(release)
        for body in bodies:
            await self.apply(body)
        records = await self.releases(release.name)
        before = next((each for each in records if each.namespace == release.namespace), None)
        record = ReleaseRecord(
            name=release.name,
            namespace=release.namespace,
            revision=before.revision + 1 if before else 1,
            status="deployed",
            chart=release.chart,
            chart_version=release.chart_version,
            app_version=release.app_version,
            updated="",
            config=set_values(release) if release.chart == CHART else _plain(release.values),
        )
        files = stamped_chart(release) if release.chart == CHART else {}
        secret = release_secret(record, now=self._clock.now(), files=files, objects=bodies)
        await self.apply(secret)
        if before is not None:
            await self._supersede(before)

    async def _supersede(self, record: ReleaseRecord) -> None:
        """Let the revision before say that it is not the one in force."""
        name = f"sh.helm.release.v1.{record.name}.v{record.revision}"
        secret = await self.client.get(SECRETS, name, namespace=record.namespace)
        await self.client.patch(SECRETS, name, MergePatch(superseded(secret)), namespace=record.namespace)

    async def remove_release(self, release: HelmRelease) -> None:
        """Delete the objects of a release in reverse, and what remembers it."""
        for body in reversed(_bodies(release)):
            await self.delete(body)
        for secret in await self.every("v1", "Secret", labels=f"{OWNED},name={release.name}"):
            if secret.get("type") == SECRET_TYPE and secret["metadata"]["namespace"] == release.namespace:
                await self.delete(secret)

    async def _mapping(self, wanted: AwsAuthMapping) -> ResourceState:
        roles = _map_roles(await self._aws_auth())
        mine = next((each for each in roles if each.get("rolearn") == wanted.role), None)
        if mine is None:
            return ABSENT
        same = mine.get("username") == wanted.username and set(wanted.groups) <= set(mine.get("groups") or ())
        return ResourceState(differences=() if same else ("its user or its groups differ",), ours=True)

    async def _map(self, wanted: AwsAuthMapping) -> None:
        live = await self._aws_auth()
        roles = [each for each in _map_roles(live) if each.get("rolearn") != wanted.role]
        roles.append({"rolearn": wanted.role, "username": wanted.username, "groups": list(wanted.groups)})
        await self._write_aws_auth(live, roles)

    async def unmap(self, wanted: AwsAuthMapping) -> bool:
        """Take the role out of aws-auth; say whether it was there."""
        live = await self._aws_auth()
        roles = _map_roles(live)
        kept = [each for each in roles if each.get("rolearn") != wanted.role]
        if len(kept) == len(roles):
            return False
        await self._write_aws_auth(live, kept)
        return True

    async def _aws_auth(self) -> dict[str, Any] | None:
        return await self.find(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "aws-auth", "namespace": "kube-system"},
            }
        )

    async def _write_aws_auth(self, live: dict[str, Any] | None, roles: list[Any]) -> None:
        data = {"mapRoles": yaml.safe_dump(roles, sort_keys=False)}
        if live is None:
            body = {"metadata": {"name": "aws-auth", "namespace": "kube-system"}, "data": data}
            await self.client.create(CONFIG_MAPS, body, namespace="kube-system")
            return
        # Only if it has not changed since: others write their roles into the same text.
        change = MergePatch({"data": data}, version=live["metadata"]["resourceVersion"])
        await self.client.patch(CONFIG_MAPS, "aws-auth", change, namespace="kube-system")


def compared(live: Json, planned: Json) -> ResourceState:
    """Return in which fields an object is not as planned."""
    found = list(_different(planned, live, ""))
    if len(found) > _MOST_DIFFERENCES:
        rest = len(found) - _MOST_DIFFERENCES
        found = [*found[:_MOST_DIFFERENCES], f"and {rest} more"]
    return ResourceState(differences=tuple(found), ours=True)


def _different(planned: Any, live: Any, path: str) -> Iterator[str]:
    if isinstance(planned, dict) and isinstance(live, dict):
        for key, value in planned.items():
            where = f"{path}.{key}" if path else str(key)
            if key in live:
                yield from _different(value, live[key], where)
            elif value not in ({}, [], None, ""):
                yield f"{where} is missing"
    elif isinstance(planned, list) and isinstance(live, list) and len(planned) == len(live):
        for number, (one, other) in enumerate(zip(planned, live, strict=True)):
            yield from _different(one, other, f"{path}[{number}]")
    elif planned != live and str(planned) != str(live):
        yield f"{path} differs"


def _bodies(release: HelmRelease) -> list[dict[str, Any]]:
    return [managed(each, name=release.name, namespace=release.namespace) for each in release.objects]


def _selector(release: HelmRelease) -> str:
    """Return the labels of the operator's pods, as kubectl takes them."""
    [deployment] = [each for each in release.objects if each["kind"] == "Deployment"]
    return ",".join(f"{key}={value}" for key, value in deployment["spec"]["selector"]["matchLabels"].items())


def _title(body: Json) -> str:
    return f"{body['kind']} {body['metadata']['name']}"


def _not_ready(body: Json, live: Json | None) -> str:
    """Say why an object is not Ready; empty if it is."""
    conditions = ((live or {}).get("status") or {}).get("conditions") or ()
    if any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions):
        return ""
    others = [each for each in conditions if each.get("type") not in {"Ready", "NodeRegistrationHealthy"}]
    reasons = [
        ": ".join(filter(None, (each.get("reason", ""), each.get("message", ""))))
        for each in others
        if each.get("status") != "True"
    ]
    # What waits for something else says less than what it waits for.
    first = [each for each in reasons if not each.startswith(_FOLLOWS)] or reasons
    return f"{_title(body)} is not Ready" + (f" ({'; '.join(dict.fromkeys(first))})" if first else "")


_FOLLOWS: Final = ("DependenciesNotReady", "AwaitingReconciliation")


def _has_run(pod: Json) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any(each.get("restartCount") or "waiting" not in (each.get("state") or {}) for each in statuses)


def _waits(pod: Json) -> Iterator[str]:
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield str(condition.get("message") or condition.get("reason") or "not scheduled")
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            yield str(waiting["reason"])


def _map_roles(config: dict[str, Any] | None) -> list[dict[str, Any]]:
    """
    Return the roles of aws-auth.

    Raises:
        InstallationError: its text is not a list of roles.
    """
    text = ((config or {}).get("data") or {}).get("mapRoles") or "[]"
    try:
        found = next(read_documents(text, source="mapRoles", repeated=[]), None)
    except InvalidObject as error:
        raise InstallationError(f"ConfigMap kube-system/aws-auth: {error}") from error
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InstallationError("ConfigMap kube-system/aws-auth: mapRoles is not a list of roles")
    return found


def _plain(values: Json) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(yaml.safe_dump(dict(values)))
    return found
