"""Folders that cannot be written, and files without an end: one sentence, and the exit code 2."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from karpenter.cli import main

if TYPE_CHECKING:
    from pathlib import Path

RENDER = (
    "render helm-values -c blue --account 111122223333 --region us-west-2 --issuer https://x.example"
    " --subnet subnet-1 --security-group sg-1 --write"
)


@pytest.mark.parametrize(
    "command", ["crds --write", "dashboards render --write", RENDER, "local up --data-dir"]
)
def test_a_file_in_the_place_of_a_folder(command: str, tmp_path: Path) -> None:
    """What cannot be written is named, with what the system says."""
    (tmp_path / "file").write_text("", "utf-8")

    result = CliRunner().invoke(main, [*command.split(), str(tmp_path / "file" / "folder")])

    assert result.exit_code == 2
    assert "cannot be written: Not a directory" in result.stderr
    assert result.stdout == ""


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--in-place on a full disk leaves the file as it was."""
    file = tmp_path / "pool.yaml"
    file.write_text(
        "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: a}\n"
        "spec: {template: {spec: {nodeClassRef: {name: a}, requirements: []}}}\n"
    )
    before = file.read_text()

    def is_full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", is_full)
    result = CliRunner().invoke(main, ["convert", "-f", str(file), "--in-place"])

    assert result.exit_code == 2
    assert f"error: --in-place: {file} cannot be written: No space left on device" in result.stderr
    assert file.read_text() == before


@pytest.mark.parametrize(
    "command",
    [
        "validate -f",
        "plan --catalog kwok -f",
        "plan -f examples/kwok --catalog",
        "replay",
        "shadow report",
        "why pod/a --record",
        "console -o json --record",
        "console -o json --plan",
        "top --once --kubeconfig",
        "convert -f",
        "hash -f",
        "doctor --log",
        "definition check",
    ],
)
def test_a_file_without_an_end(command: str) -> None:
    """A device that never ends is too large, and fills no memory."""
    result = CliRunner().invoke(main, [*command.split(), "/dev/zero"])

    assert result.exit_code == 2
    assert "File too large" in result.stderr


def test_an_interruption_while_importing() -> None:
    """Ctrl-C before a command has begun ends the program with 130 and says nothing."""
    code = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'karpenter.cli.group': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from karpenter.command import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)  # noqa: S603

    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")
