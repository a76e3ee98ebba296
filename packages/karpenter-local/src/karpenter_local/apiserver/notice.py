"""
The directory of a running cluster, by which other processes find it, ask for its status, and stop it.

    kubeconfig   how to reach it
    notice.json  what it is: its process, its address, since when
    running      locked for as long as the process lives, so that a crash cannot leave a lie behind
    log          what it logged, if it runs in the background
"""

import fcntl
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from karpenter.base.files import make_private_folder, private

KUBERNETES = "1.36"
"""The version of Kubernetes that a local cluster has if no other one is asked for."""

STOP_SECONDS = 15.0
"""Seconds that a cluster has to stop before it is made to."""


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Facts that a running cluster publishes about itself."""

    pid: int
    name: str = ""
    """How the cluster is called in the cloud."""

    url: str
    kubeconfig: str
    control_plane: str
    started: str
    data_dir: str = ""
    """Where its state is kept on disk; empty if nowhere."""

    karpenter: str = ""
    """Where the operator in the same process serves its metrics; empty if none runs."""

    log: str = ""
    """Where it logs; empty if it runs in a terminal."""

    environment: dict[str, str] = {}
    """What programs have to find in their environment, besides the kubeconfig, to use what is there."""


class AlreadyRunning(RuntimeError):  # noqa: N818  says what is the case
    """A cluster runs in this directory."""

    def __init__(self, directory: Path) -> None:
        super().__init__(f"a cluster is running in {directory}")
        self.directory = directory


def default_directory(environ: Mapping[str, str]) -> Path:
    """Return the directory of a cluster for which none is given."""
    state = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME", "")) / ".local" / "state")
    return Path(state) / "karpenter-local"


class ClusterDirectory:
    """The directory of one cluster."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig"
        self.log = directory / "log"
        self._facts = directory / "notice.json"
        self._lock = directory / "running"
        self._held: int | None = None

    def hold(self) -> None:
        """
        Claim the directory for this process, until it ends or lets go.

        Raises:
            AlreadyRunning: another process has it.
        """
        make_private_folder(self.directory)
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise AlreadyRunning(self.directory) from None
        self._held = descriptor
        self._facts.unlink(missing_ok=True)

    def post(self, facts: ClusterFacts) -> None:
        draft = self._facts.with_suffix(".draft")
        with open(draft, "wb", opener=private) as file:
            file.write(msgspec.json.encode(facts))
        draft.replace(self._facts)

    def withdraw(self) -> None:
        """Say that the cluster is gone, and let go of the directory."""
        self._facts.unlink(missing_ok=True)
        self.kubeconfig.unlink(missing_ok=True)
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def is_held(self) -> bool:
        """Say whether a process has claimed the directory."""
        if not self._lock.exists():
            return False
        descriptor = os.open(self._lock, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        else:
            return False
        finally:
            os.close(descriptor)

    def read(self) -> ClusterFacts | None:
        """Return what the running cluster says of itself; None if there is none, or it is not up yet."""
        if not self.is_held():
            return None
        try:
            return msgspec.json.decode(self._facts.read_bytes(), type=ClusterFacts)
        except (OSError, msgspec.DecodeError):
            return None

    def end(self, facts: ClusterFacts, *, seconds: float = STOP_SECONDS) -> bool:
        """Ask the cluster to stop, and wait until it has; say whether it did so by itself."""
        os.kill(facts.pid, signal.SIGTERM)
        deadline = time.monotonic() + seconds
        while self.is_held():
            if time.monotonic() > deadline:
                os.kill(facts.pid, signal.SIGKILL)
                return False
            time.sleep(0.05)
        return True
