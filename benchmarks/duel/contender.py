"""
One contender: a cluster of its own, its operator as a process, and kubectl that tells what happens there.

A cluster has a home of its own below the folder of the run, and sees nothing of the environment that could
lead to another cluster or another account. The operator's processor time and memory are those that Linux
counts for its process.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from benchmarks.duel import DuelError
from benchmarks.duel.loads import AWS, CLUSTER, cluster_objects, listed
from benchmarks.duel.observation import Observation, planned_share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from benchmarks.duel.loads import Object
    from benchmarks.duel.observation import Offering, Sample

GO: Final = "go"
NO_HIGHSPY: Final = "no-highspy"
SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    GO: (),
    "default": (),
    "classic": ("consolidation-strategy=classic",),
    "global": ("consolidation-strategy=global",),
    "greedy": ("packing-policy=greedy",),
    "steer": ("steer-scale-down=true",),
    "no-nominate": ("nominate-pods=false",),
    NO_HIGHSPY: (),
}
"""The contenders with a name, and the settings of our operator that are not as shipped."""

_PASSED: Final = ("PATH", "LANG", "LC_ALL", "TMPDIR", "KUBEBUILDER_ASSETS")
_PATIENCE: Final = 180
"""Seconds for the operator to get ready."""

_KIB: Final = 1024
_BETWEEN: Final = "|"
"""Between two fields; kubectl writes tabs as spaces."""

_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "pods": (".metadata.uid", ".status.phase"),
    "nodes": (
        ".metadata.name",
        r".metadata.labels.node\.kubernetes\.io/instance-type",
        r".metadata.labels.topology\.kubernetes\.io/zone",
        r".metadata.labels.karpenter\.sh/capacity-type",
    ),
}


class Programs(NamedTuple):
    """What a contender is made of."""

    karpenter: str
    """Our command: it makes the clusters of all contenders."""

    kubectl: str
    go: Path | None = None
    """Karpenter in Go for the provider of the duel; None where it is no contender."""


def settings_of(name: str) -> tuple[str, ...]:
    """
    Return the settings that a contender's name stands for, each as NAME=VALUE; several are joined by `+`.

    Raises ValueError for a name that stands for none.
    """
    if name in SETTINGS:
        return SETTINGS[name]
    settings = tuple(name.split("+"))
    if not all("=" in each for each in settings):
        raise ValueError(
            f"there is no contender {name!r}; allowed are {', '.join(SETTINGS)} or SETTING=VALUE"
        )
    return settings


class Contender:
    """An operator with a cluster; a context, at whose end both are gone."""

    def __init__(
        self,
        name: str,
        programs: Programs,
        *,
        folder: Path,
        provider: str,
        control_plane: str,
        prices: Mapping[Offering, float],
    ) -> None:
        self.name = name
        self.observation = Observation(prices)
        self.log = folder / "operator.log"
        self._programs, self._provider, self._control_plane = programs, provider, control_plane
        self._folder = folder
        self._environment = {each: os.environ[each] for each in _PASSED if each in os.environ}
        self._environment |= {"HOME": str(folder), "XDG_STATE_HOME": str(folder)}
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._watches: dict[str, subprocess.Popen[str]] = {}
        self._threads: list[threading.Thread] = []
        self._operator: subprocess.Popen[bytes] | None = None
        self._metrics_port, self._probe_port = free_port(), free_port()
        self._started_with = 0.0

    def __enter__(self) -> Self:
        """Start the cluster, what is in it before the first pod, and the operator."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        try:
            self._start_cluster()
            self._start_operator()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End the operator, what watches the cluster, and the cluster."""
        self._ending.set()
        if self._operator is not None:
            self._operator.send_signal(signal.SIGTERM)
            try:
                self._operator.wait(30)
            except subprocess.TimeoutExpired:
                self._operator.kill()
                self._operator.wait()
        with self._lock:
            for watch in self._watches.values():
                watch.kill()
        for thread in self._threads:
            thread.join()
        self._karpenter("local", "down")

    def begin(self) -> None:
        """Let processor time count from now on."""
        self._started_with = self._processor()

    def apply(self, objects: Sequence[Object]) -> None:
        """
        Ask the cluster for objects, as users do.

        Raises DuelError when it refuses them.
        """
        if not objects:
            return
        words = ("apply", "--server-side", "--force-conflicts", "-f", "-")
        done = self._run([self._programs.kubectl, *words], json.dumps(listed(objects)))
        if done.returncode:
            raise DuelError(f"the cluster of {self.name} refuses objects: {done.stderr.strip()[-300:]}")

    def interrupt(self, chance: Random) -> None:
        """Let AWS take one spot instance away, two minutes after a warning."""
        path = r'{range .items[*]}{.spec.providerID}{"\n"}{end}'
        spot = ("get", "nodes", "-l", "karpenter.sh/capacity-type=spot", "-o", f"jsonpath={path}")
        found = sorted(self._run([self._programs.kubectl, *spot]).stdout.split())
        if found:
            self._karpenter("local", "aws", "interrupt", chance.choice(found).rpartition("/")[2])

    def sample(self, at: float) -> Sample:
        """
        Return what there is in the cluster.

        Raises DuelError when the operator has ended, or nothing is seen any more.
        """
        self._check_operator()
        if not all(thread.is_alive() for thread in self._threads):
            raise DuelError(f"the cluster of {self.name} is not watched any more")
        with self._lock:
            return self.observation.sample(at)

    def usage(self) -> tuple[float, float]:
        """Return the operator's seconds of processor time since `begin`, and the most MiB that it held."""
        text = Path(f"/proc/{self._pid}/status").read_text("utf-8")
        peak = next(line for line in text.splitlines() if line.startswith("VmHWM:"))
        return self._processor() - self._started_with, int(peak.split()[1]) / _KIB

    def planned(self) -> float:
        """Return the share of pods that run where they were planned; not a number if none was planned."""
        if self.name == GO:
            return math.nan
        address = f"http://127.0.0.1:{self._metrics_port}/metrics"
        with urllib.request.urlopen(address, timeout=30) as answer:
            return planned_share(answer.read().decode())

    @property
    def _pid(self) -> int:
        assert self._operator is not None
        return self._operator.pid

    def _processor(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _start_cluster(self) -> None:
        words = ["local", "up", "--provider", self._provider, "--control-plane", self._control_plane]
        if self._provider == AWS:
            words += ["--cluster-name", CLUSTER]
        done = self._karpenter(*words)
        if done.returncode:
            raise DuelError(f"the cluster of {self.name} does not start: {done.stderr.strip()[-300:]}")
        for word in shlex.split(done.stdout):
            variable, equals, value = word.partition("=")
            if equals:
                self._environment[variable] = value
        crds = self._karpenter("crds").stdout
        self._run([self._programs.kubectl, "apply", "--server-side", "-f", "-"], crds)
        for remaining in range(20, -1, -1):
            try:
                self.apply(cluster_objects(self._provider))
                break
            except DuelError:  # the definitions are served a moment after they were accepted
                if not remaining:
                    raise
                time.sleep(1)
        for kind in _FIELDS:
            thread = threading.Thread(target=self._watch, args=(kind,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _start_operator(self) -> None:
        variables = {
            "METRICS_PORT": str(self._metrics_port),
            "HEALTH_PROBE_PORT": str(self._probe_port),
            "DISABLE_LEADER_ELECTION": "true",
            "KUBERNETES_MIN_VERSION": "1.19.0-0",
            "KARPENTER_SERVICE": "karpenter",
            "SYSTEM_NAMESPACE": "kube-system",
        }
        if self.name == GO:
            command = [str(self._programs.go)]
        else:
            command = [self._programs.karpenter, "run", "--log-form", "json", "--provider", self._provider]
            for setting in settings_of(self.name):
                option, _, value = setting.partition("=")
                command += [f"--{option}", value]
        if self.name == NO_HIGHSPY:
            hidden = self._folder / "hidden"
            hidden.mkdir()
            (hidden / "highspy.py").write_text("raise ImportError\n")
            variables["PYTHONPATH"] = str(hidden)
        with self.log.open("wb") as log:
            self._operator = subprocess.Popen(  # noqa: S603  our own words
                command, env={**self._environment, **variables}, stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + _PATIENCE
        while not self._ready():
            self._check_operator()
            if time.monotonic() > deadline:
                raise DuelError(f"{self.name} is not ready after {_PATIENCE} s; hint: see {self.log}")
            time.sleep(0.5)

    def _ready(self) -> bool:
        with suppress(OSError):
            address = f"http://127.0.0.1:{self._probe_port}/readyz"
            with urllib.request.urlopen(address, timeout=5) as answer:
                return bool(answer.status == 200)
        return False

    def _check_operator(self) -> None:
        assert self._operator is not None
        code = self._operator.poll()
        if code is not None:
            lines = self.log.read_text("utf-8", "replace").splitlines()
            said = lines[-1][:300] if lines else "nothing"
            raise DuelError(f"the operator {self.name} ended with {code}: {said}; hint: see {self.log}")

    def _watch(self, kind: str) -> None:
        """Tell the observation what happens to pods or nodes; a watch that the server ends is begun anew."""
        fields = "".join(f'{{"{_BETWEEN}"}}{{.object{each}}}' for each in _FIELDS[kind])
        path = f'jsonpath={{.type}}{fields}{{"\\n"}}'
        command = [self._programs.kubectl, "get", kind, "-n", "default", "-w", "--output-watch-events"]
        while not self._ending.is_set():
            with self._lock:
                self.observation.forget(kind)
                watch = self._watches[kind] = subprocess.Popen(  # noqa: S603  our own words
                    [*command, "-o", path],
                    env=self._environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
            assert watch.stdout is not None
            for line in watch.stdout:
                self._observe(kind, line.rstrip("\n").split(_BETWEEN))
            watch.wait()
            self._ending.wait(0.5)

    def _observe(self, kind: str, words: Sequence[str]) -> None:
        with self._lock:
            if kind == "pods":
                event, uid, phase = words
                self.observation.pod(event, uid, phase, time.monotonic())
            else:
                event, name, instance_type, zone, capacity_type = words
                self.observation.node(event, name, (instance_type, zone, capacity_type))

    def _karpenter(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self._run([self._programs.karpenter, *words])

    def _run(self, command: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603  our own words
            command, env=self._environment, input=text, capture_output=True, text=True, check=False
        )


def free_port() -> int:
    """Return a port of this machine that is free now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
