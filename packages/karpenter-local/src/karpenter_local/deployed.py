"""
The operator of a Deployment, on a cluster on this machine: a process in the place of its container.

Containers of the embedded cluster are simulated, and so an installed operator would do nothing. Here a pod of
the chart that runs gets a process: ``karpenter run`` with the environment that the pod states, a kubeconfig
for its token, and the credentials of the role that its service account names. Of several replicas only one
gets a process, because only one works at a time. What it writes is the log of its pod.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import structlog

from karpenter.kube.errors import KubeError, NotFound
from karpenter.kube.rest import Selection
from karpenter.kube.targets import untyped
from karpenter_local.apiserver.verbs.logs import ContainerLog

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Mapping

    from karpenter.kube.client import Client

log = structlog.stdlib.get_logger(__name__)

COMMAND: Final = (sys.executable, "-m", "karpenter.cli", "run", "--log-form", "text")
OPERATOR_LOG: Final = "karpenter.log"
LABEL: Final = "app.kubernetes.io/name=karpenter"
ROLE: Final = "eks.amazonaws.com/role-arn"
_POLL_SECONDS: Final = 0.5
_STOP_WITHIN: Final = 10.0
_MAX_LOOKS: Final = 4
"""Looks for which a replica that runs waits for those that do not yet."""

_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE")
_PODS: Final = untyped("v1", "pods", kind="Pod", namespaced=True)
_ACCOUNTS: Final = untyped("v1", "serviceaccounts", kind="ServiceAccount", namespaced=True)


def container_environment(pod: Mapping[str, Any]) -> dict[str, str]:
    """Return what a pod's first container finds in its environment, as far as the pod states it."""
    found: dict[str, str] = {}
    for each in pod["spec"]["containers"][0].get("env") or ():
        path = ((each.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath", "")
        if "value" in each:
            found[each["name"]] = str(each["value"])
        elif path.startswith("metadata."):
            found[each["name"]] = str(pod["metadata"].get(path.removeprefix("metadata."), ""))
    return found


def process_environment(
    pod: Mapping[str, Any], *, kubeconfig: str, role: str, token: str, around: Mapping[str, str]
) -> dict[str, str]:
    found = {**around, **container_environment(pod)}
    # Ports of a pod are its own; on this machine any two free ones do.
    found |= {"METRICS_PORT": "0", "HEALTH_PROBE_PORT": "0", "KUBECONFIG": kubeconfig}
    found.setdefault("LEADER_ELECTION_NAMESPACE", pod["metadata"]["namespace"])
    if role:
        found = {key: value for key, value in found.items() if key not in _KEYS}
        found |= {"AWS_ROLE_ARN": role, "AWS_WEB_IDENTITY_TOKEN_FILE": token}
    return found


def _shown_first(pod: Mapping[str, Any]) -> tuple[str, str, str]:
    """
    Return by what ``kubectl logs deployment/karpenter`` sorts: the pod that has been ready for longest.

    https://github.com/kubernetes/kubectl/blob/master/pkg/util/podutils/podutils.go (ByLogging)
    """
    meta = pod["metadata"]
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = (str(each.get("lastTransitionTime")) for each in conditions if each.get("type") == "Ready")
    return next(ready, "never"), str(meta.get("creationTimestamp", "")), str(meta["name"])


@asynccontextmanager
async def deployed(
    client: Client,
    *,
    kubeconfig: str,
    environment: Mapping[str, str],
    logs: Path,
    published: dict[str, ContainerLog] | None = None,
) -> AsyncIterator[None]:
    """
    Run the operator for as long as a pod of its Deployment runs; `kubeconfig` is the text of one.

    An API server that has no kubelets to ask reads the logs of pods in `published`.
    """
    with TemporaryDirectory(prefix="karpenter-pod-") as folder:
        written = Path(folder) / "kubeconfig"
        written.write_text(kubeconfig, encoding="utf-8")
        token = Path(folder) / "token"
        token.write_text("a token of the service account", encoding="utf-8")
        around = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        around |= environment
        runner = _Runner(client, str(written), str(token), around, logs, published)
        task = asyncio.create_task(runner.follow(), name="deployed operator")
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await runner.stop()


class _Runner:
    """Keeps one process for the first pod that runs."""

    def __init__(  # noqa: PLR0917  made in one place
        self,
        client: Client,
        kubeconfig: str,
        token: str,
        around: Mapping[str, str],
        logs: Path,
        published: dict[str, ContainerLog] | None,
    ) -> None:
        self._client = client
        self._kubeconfig = kubeconfig
        self._token = token
        self._around = around
        self._logs = logs
        self._published = {} if published is None else published
        self._pod = ""
        self._looks = 0
        self._process: Process | None = None

    async def follow(self) -> None:
        """Start and stop the process as pods come and go."""
        while True:
            with suppress(KubeError):
                await self._look()
            await asyncio.sleep(_POLL_SECONDS)

    async def _look(self) -> None:
        page = await self._client.list(_PODS, Selection(labels=LABEL))
        staying = [pod for pod in page.items if not pod["metadata"].get("deletionTimestamp")]
        running = [pod for pod in staying if (pod.get("status") or {}).get("phase") == "Running"]
        uids = [pod["metadata"]["uid"] for pod in running]
        if self._process is not None and (self._pod not in uids or self._process.returncode is not None):
            await self.stop()
        if self._process is None and running:
            # The other replicas are about to run: of all of them, the one that kubectl logs shows.
            self._looks += 1
            if len(running) < len(staying) and self._looks < _MAX_LOOKS:
                return
            self._looks = 0
            await self._start(min(running, key=_shown_first))
        self._stand_by(running)

    def _stand_by(self, running: list[dict[str, Any]]) -> None:
        """Let the replicas without a process say so in their logs, and forget those that are gone."""
        uids = {pod["metadata"]["uid"] for pod in running}
        for uid in self._published.keys() - uids:
            del self._published[uid]
        text = "This replica stands by: on this machine only one replica has a process.\n"
        for uid in uids - self._published.keys():
            self._published[uid] = ContainerLog(text=text)

    async def _start(self, pod: Mapping[str, Any]) -> None:
        meta = pod["metadata"]
        environment = process_environment(
            pod,
            kubeconfig=self._kubeconfig,
            role=await self._role(pod),
            token=self._token,
            around=self._around,
        )
        self._logs.mkdir(parents=True, exist_ok=True)
        path = self._logs / OPERATOR_LOG
        with path.open("ab") as out:
            before = self._published.get(meta["uid"])
            if before is None or before.path is None:  # one that was started again goes on with its log
                self._published[meta["uid"]] = ContainerLog(path=path, begin=out.tell())
            self._process = await asyncio.create_subprocess_exec(
                *COMMAND, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=out
            )
        self._pod = meta["uid"]
        log.info("operator.process_started", pod=meta["name"], process=self._process.pid)

    async def _role(self, pod: Mapping[str, Any]) -> str:
        name = pod["spec"].get("serviceAccountName") or "default"
        try:
            account = await self._client.get(_ACCOUNTS, name, namespace=pod["metadata"]["namespace"])
        except NotFound:
            return ""
        return str((account["metadata"].get("annotations") or {}).get(ROLE, ""))

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                async with asyncio.timeout(_STOP_WITHIN):
                    await process.wait()
            except TimeoutError:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        log.info("operator.process_stopped", process=process.pid, code=process.returncode)
