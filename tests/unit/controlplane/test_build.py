import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAMS = ("etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler")


def build(copy: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the build of a copy of the project, on a machine without Go."""
    (copy / "controlplane").mkdir(parents=True)
    (copy / "controlplane" / "helm").mkdir()
    for name in ("build.py", "go.mod", "go.sum", "helm/go.mod", "helm/go.sum"):
        (copy / "controlplane" / name).write_bytes((ROOT / "controlplane" / name).read_bytes())
    without_go = {
        key: value for key, value in os.environ.items() if key not in {"PATH", "KUBEBUILDER_ASSETS"}
    }
    return subprocess.run(  # noqa: S603  our own script
        [sys.executable, str(copy / "controlplane" / "build.py")],
        env={**without_go, "PATH": "", **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_machine_without_go_is_told_so(tmp_path: Path) -> None:
    """Nothing is built, and that is not a failure."""
    ended = build(tmp_path)

    assert ended.returncode == 0
    control_plane, helm = ended.stderr.splitlines()
    assert control_plane.startswith(
        "controlplane: skipped, there is no Go on this machine to build kube-apiserver"
    )
    assert (
        helm == "controlplane: skipped, there is no Go on this machine to build helm with; hint: install Go"
    )
    assert not (tmp_path / ".controlplane").exists()


def test_assets_that_are_complete_are_left_alone(tmp_path: Path) -> None:
    """Where KUBEBUILDER_ASSETS has everything, there is nothing to do."""
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in PROGRAMS:
        (assets / name).touch(mode=0o755)

    ended = build(tmp_path / "copy", KUBEBUILDER_ASSETS=str(assets))

    assert ended.returncode == 0
    assert ended.stderr.startswith(f"{assets}: the control plane is there\n")
    assert "kube-apiserver" not in ended.stderr
