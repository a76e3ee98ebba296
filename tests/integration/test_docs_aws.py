"""
The pages about AWS: every command that they print is run, as it is printed, in the order of the pages.

All pages are read in one shell, so that one cluster serves them all: each begins by starting it, which does
nothing when it is up. What needs an account is in blocks of another kind and is not run.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.kubectl import find_kubectl

REAL_TIME = True
NEEDS_KUBECTL = True

ROOT = Path(__file__).parents[2]
PAGES = (
    "concepts/nodeclass.md",
    "reference/iam.md",
    "guides/getting-started-eks.md",
    "reference/embedded-aws.md",
    "guides/troubleshooting-aws.md",
)
BLOCK = re.compile(r"^```console\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
WITHIN = 240.0
TYPED = """
typed() {
  for attempt in 1 2 3; do
    echo "$1" >&2
    eval "$1" && return
    sleep 2
  done
  return 1
}
"""
"""How a command is typed: once more if it fails, for the machine that it names may just be leaving."""


GUIDE = (
    "kubectl apply -f seeds/tutorial.yaml",
    "kubectl wait --for=condition=Ready ec2nodeclass/default --timeout=60s",
    "kubectl apply -f seeds/inflate.yaml",
    "kubectl scale deployment inflate --replicas 1",
    "kubectl rollout status deployment inflate --timeout=120s",
    "karpenter local aws instances",
)
"""What a guide of somebody else tells its readers to type, with its manifests as they are printed there."""


def commands(page: str) -> Iterator[str]:
    for block in BLOCK.finditer((ROOT / "docs" / page).read_text("utf-8")):
        for line in block["text"].splitlines():
            assert line.startswith("$ "), f"{page} shows {line!r} among commands"
            yield line.removeprefix("$ ")


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Return the environment of a user who has just installed everything; what they start is ended."""
    kubectl = find_kubectl()
    assert kubectl is not None
    folders = (str(Path(sys.executable).parent), str(kubectl.parent), os.environ["PATH"])
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "seeds").symlink_to(ROOT / "tests" / "data" / "seeds")
    found = {"PATH": ":".join(folders), "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    yield found
    subprocess.run(["karpenter", "local", "down"], env=found, check=True, capture_output=True)  # noqa: S607  ours


@pytest.mark.tour
def test_every_command_of_the_pages_works(environment: dict[str, str], tmp_path: Path) -> None:
    """Whoever follows another guide, and then types what the pages print, gets what they promise."""
    pages = [command for page in PAGES for command in commands(page)]
    up = next(command for command in pages if " local up " in command)
    typed = [f"typed {_quoted(command)}" for command in (up, *GUIDE, *pages)]
    script = "\n".join(["set -o pipefail", TYPED, *(f"{each} || exit 1" for each in typed)])

    done = subprocess.run(  # noqa: S603  what our own pages say
        ["bash", "-c", script],  # noqa: S607  the shell of the user
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert 'deployment "inflate" successfully rolled out' in done.stdout
    assert "ami-0d6c6ac554d62a745" in done.stdout
    assert "kubelet: registered as ip-10-0-" in done.stdout
    assert (
        "SubnetsReady: SubnetsNotFound: no subnet of us-west-2 has tag karpenter.sh/discovery=nowhere"
        in done.stdout
    )
    assert '{"done":"sold out: us-west-2a"}' in done.stdout


def _quoted(command: str) -> str:
    return "'" + command.replace("'", "'\\''") + "'"
