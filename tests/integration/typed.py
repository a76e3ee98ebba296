"""
The real kubectl, typed as a user types it.

Looked for where ``KUBEBUILDER_ASSETS`` points, then where ``make controlplane`` puts it, then on the path.
A machine without one cannot say whether users can use the server, so that is a failure and not something to
skip.
"""

import os
import shutil
import subprocess
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]


class KubectlMissing(Exception):  # noqa: N818  reads as what is the matter
    """There is no kubectl on this machine."""

    def __init__(self) -> None:
        super().__init__("no kubectl was found; hint: make controlplane, or set KUBEBUILDER_ASSETS")


def find_kubectl() -> Path:
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    places = [Path(assets) / "kubectl"] if assets else []
    places.append(ROOT / ".controlplane" / "bin" / "kubectl")
    if on_path := shutil.which("kubectl"):
        places.append(Path(on_path))
    for place in places:
        if os.access(place, os.X_OK):
            return place
    raise KubectlMissing


class Typed(msgspec.Struct, frozen=True):
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def rows(self) -> list[list[str]]:
        """A printed table as words, without its heading."""
        return [line.split() for line in self.lines[1:]]


class Kubectl:
    """A kubectl that talks to one cluster."""

    def __init__(self, program: Path, kubeconfig: Path, home: Path) -> None:
        self._program = program
        self._environment = {
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(home),
            "TMPDIR": str(home),
        }

    def type(self, *words: str, stdin: str = "", seconds: float = 60, **environment: str) -> Typed:
        """Run a command to its end, whatever that is."""
        done = subprocess.run(  # noqa: S603  the words are ours
            [self._program, *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
            env={**self._environment, **environment},
        )
        return Typed(done.returncode, done.stdout, done.stderr)

    def __call__(self, *words: str, **options: str) -> Typed:
        typed = self.type(*words, **options)  # type: ignore[arg-type]  # all that is passed on is text
        assert typed.code == 0, f"kubectl {' '.join(words)} failed: {typed.err}{typed.out}"
        return typed

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(  # noqa: S603  the words are ours
            [self._program, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environment,
        )
