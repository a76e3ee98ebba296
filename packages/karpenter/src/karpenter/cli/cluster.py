"""How commands talk to a cluster: without a log, and with every refusal in one sentence and what helps."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from karpenter.cli.errors import CommandError
from karpenter.kube.errors import Forbidden, KubeError, NotConfigured, Unauthorized, Unreachable

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

T = TypeVar("T")


def run_quietly(work: Coroutine[Any, Any, T]) -> T:
    """Run something that talks to a cluster, without the log of requests that are sent again."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    return asyncio.run(work)


@contextmanager
def told_in_one_sentence() -> Iterator[None]:
    """Turn what a cluster refuses into the error of a command, with a hint where there is one."""
    try:
        yield
    except KubeError as error:
        raise cluster_refusal(error) from error


def cluster_refusal(error: KubeError) -> CommandError:
    """Return what is wrong between us and a cluster, and what helps."""
    if isinstance(error, NotConfigured):
        return CommandError(str(error), hint="aws eks update-kubeconfig --name CLUSTER writes the kubeconfig")
    if isinstance(error, Unauthorized):
        return CommandError(
            f"the cluster does not accept the credentials of the kubeconfig: {error}",
            hint="they may have expired: aws sso login, or aws eks update-kubeconfig --name CLUSTER",
        )
    if isinstance(error, Forbidden):
        return CommandError(str(error), hint="kubectl auth can-i --list shows what you may do")
    if isinstance(error, Unreachable):
        return CommandError(str(error), hint="kubectl get nodes shows whether the cluster can be reached")
    return CommandError(str(error), hint=error.hint)
