from pathlib import Path

import pytest

from karpenter_local.controlplane.binaries import ASSETS, BUILT, BinariesMissing, find_binaries


def put(directory: Path, *names: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        program = directory / name
        program.touch(mode=0o755)


def test_the_environment_names_the_directory(tmp_path: Path) -> None:
    """KUBEBUILDER_ASSETS decides, whatever was built elsewhere."""
    put(tmp_path / BUILT, "etcd", "kube-apiserver")
    put(tmp_path / "assets", "etcd", "kube-apiserver", "kubectl")

    found = find_binaries({ASSETS: str(tmp_path / "assets")}, start=tmp_path)

    assert found.etcd == tmp_path / "assets" / "etcd"
    assert found.kubectl == tmp_path / "assets" / "kubectl"


def test_what_was_built_is_found_from_below(tmp_path: Path) -> None:
    """A command run somewhere in the project finds the project's binaries."""
    put(tmp_path / BUILT, "etcd", "kube-apiserver")
    below = tmp_path / "docs" / "guides"
    below.mkdir(parents=True)

    assert find_binaries({}, start=below).apiserver == tmp_path / BUILT / "kube-apiserver"


def test_only_two_are_needed(tmp_path: Path) -> None:
    """Without a controller manager and a scheduler there is still an API."""
    put(tmp_path, "etcd", "kube-apiserver")

    found = find_binaries({ASSETS: str(tmp_path)})

    assert (found.controller_manager, found.scheduler, found.kubectl) == (None, None, None)


@pytest.mark.parametrize(
    ("there", "missing", "sentence"),
    [
        pytest.param((), ("etcd", "kube-apiserver"), "no etcd and no kube-apiserver in ", id="both"),
        pytest.param(("etcd",), ("kube-apiserver",), "no kube-apiserver in ", id="one"),
    ],
)
def test_what_is_missing_is_named(
    tmp_path: Path, there: tuple[str, ...], missing: tuple[str, ...], sentence: str
) -> None:
    """The refusal names the directory, the programs and what helps."""
    put(tmp_path, *there)

    with pytest.raises(BinariesMissing) as caught:
        find_binaries({ASSETS: str(tmp_path)})

    assert caught.value.names == missing
    assert str(caught.value) == f"{sentence}{tmp_path}; hint: make controlplane"


def test_a_file_that_cannot_be_run_does_not_count(tmp_path: Path) -> None:
    """A half-written download is not a program."""
    put(tmp_path, "etcd", "kube-apiserver")
    (tmp_path / "etcd").chmod(0o644)

    with pytest.raises(BinariesMissing):
        find_binaries({ASSETS: str(tmp_path)})
