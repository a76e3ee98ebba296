"""The real helm: found where ``make controlplane`` puts it, and typed as a user types it."""

import os
import subprocess
from pathlib import Path

from karpenter_local.controlplane.binaries import ASSETS, BUILT

ROOT = Path(__file__).parents[1]


def find_helm() -> Path | None:
    """
    Return helm: where KUBEBUILDER_ASSETS says, or the one that was built.

    One that happens to be on the PATH is not taken: what older versions refuse and print differs.
    """
    places = [Path(named)] if (named := os.environ.get(ASSETS)) else []
    found = [place / "helm" for place in (*places, ROOT / BUILT)]
    return next((each for each in found if os.access(each, os.X_OK)), None)


class Helm:
    """Runs helm, with one home and, if there is one, one cluster."""

    def __init__(self, home: Path, kubeconfig: Path | None = None) -> None:
        program = find_helm()
        assert program is not None
        self._program = program
        self._environment = {"HOME": str(home), "PATH": os.environ.get("PATH", ""), "NO_PROXY": "127.0.0.1"}
        if kubeconfig is not None:
            self._environment["KUBECONFIG"] = str(kubeconfig)

    def __call__(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command, given as it is typed after ``helm``."""
        return subprocess.run(  # noqa: S603  our own words
            [self._program, *words],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def ok(self, *words: str | Path) -> str:
        """Run a command that must succeed, and return what it printed."""
        done = self(*words)
        assert done.returncode == 0, f"helm {words}: {done.stderr or done.stdout}"
        return done.stdout
