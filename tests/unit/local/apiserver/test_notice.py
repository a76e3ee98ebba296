"""Where a running cluster leaves word of itself."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from karpenter_local.apiserver.notice import AlreadyRunning, ClusterDirectory, ClusterFacts, default_directory

FACTS = ClusterFacts(
    pid=os.getpid(), url="https://127.0.0.1:1", kubeconfig="k", control_plane="embedded", started="now"
)

HOLDER = """
import signal, sys, time
from pathlib import Path
from karpenter_local.apiserver.notice import ClusterDirectory
if {stubborn}:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
notice = ClusterDirectory(Path(sys.argv[1]))
notice.hold()
print("held", flush=True)
time.sleep(60)
"""


def test_posted_and_withdrawn(tmp_path: Path) -> None:
    """What is posted is read while its process lives, and gone when it is withdrawn."""
    notice = ClusterDirectory(tmp_path / "here")
    assert notice.read() is None

    notice.hold()
    assert notice.read() is None
    notice.post(FACTS)
    assert ClusterDirectory(tmp_path / "here").read() == FACTS

    notice.withdraw()
    assert not notice.is_held()
    assert notice.read() is None


def test_one_at_a_time(tmp_path: Path) -> None:
    """Two clusters cannot share a directory."""
    notice = ClusterDirectory(tmp_path)
    notice.hold()

    with pytest.raises(AlreadyRunning, match="a cluster is running in"):
        ClusterDirectory(tmp_path).hold()
    notice.withdraw()


def test_a_crash_leaves_no_lie(tmp_path: Path) -> None:
    """What a process posted counts for nothing once it is dead."""
    notice = ClusterDirectory(tmp_path)
    notice.hold()
    notice.post(FACTS)
    assert notice._held is not None
    os.close(notice._held)

    assert ClusterDirectory(tmp_path).read() is None


@pytest.mark.parametrize(
    ("stubborn", "by_itself"), [(False, True), (True, False)], ids=["it obeys", "it does not"]
)
def test_end(tmp_path: Path, stubborn: bool, by_itself: bool) -> None:
    """A process is asked to stop, and made to if it does not."""
    script = HOLDER.format(stubborn=stubborn)
    with subprocess.Popen(  # noqa: S603  our own Python
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        facts = ClusterFacts(pid=process.pid, url="", kubeconfig="", control_plane="", started="")

        assert ClusterDirectory(tmp_path).end(facts, seconds=10.0 if by_itself else 0.2) is by_itself

    assert process.returncode == -(signal.SIGTERM if by_itself else signal.SIGKILL)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"XDG_STATE_HOME": "/state"}, "/state/karpenter-local"),
        ({"HOME": "/home/me"}, "/home/me/.local/state/karpenter-local"),
    ],
    ids=["where the desktop says", "under the home directory"],
)
def test_default_directory(environ: dict[str, str], expected: str) -> None:
    """A cluster's word is left where state belongs."""
    assert str(default_directory(environ)) == expected
