"""kubectl, as a user types it, against an embedded cluster."""

import asyncio
import os
import shutil
from pathlib import Path

import msgspec

from karpenter_local.controlplane.binaries import ASSETS, BUILT


def find_kubectl() -> Path | None:
    """Return kubectl: where KUBEBUILDER_ASSETS says, the one that was built, or the one on the PATH."""
    root = Path(__file__).parents[2]
    places = [Path(named)] if (named := os.environ.get(ASSETS)) else []
    for place in (*places, root / BUILT):
        if (place / "kubectl").is_file():
            return place / "kubectl"
    found = shutil.which("kubectl")
    return Path(found) if found else None


class Said(msgspec.Struct, frozen=True):
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str


class Kubectl:
    """Runs kubectl with one kubeconfig."""

    def __init__(self, kubeconfig: Path, home: Path) -> None:
        program = find_kubectl()
        assert program is not None
        self._program = program
        self._environment = {
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(home),
            "PATH": os.environ.get("PATH", ""),
            "NO_PROXY": "127.0.0.1",
        }

    async def __call__(self, line: str, *, stdin: str = "") -> Said:
        """Run a command, given as it is typed after ``kubectl``."""
        process = await asyncio.create_subprocess_exec(
            self._program,
            *line.split(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
        )
        out, err = await asyncio.wait_for(process.communicate(stdin.encode()), 60)
        assert process.returncode is not None
        return Said(process.returncode, out.decode(), err.decode())

    async def ok(self, line: str, *, stdin: str = "") -> str:
        """Run a command that must succeed, and return what it printed."""
        said = await self(line, stdin=stdin)
        assert said.code == 0, f"kubectl {line}: {said.err or said.out}"
        return said.out.strip()
