"""Where the tests of Terraform find providers before they ask the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import terraform

if TYPE_CHECKING:
    from pathlib import Path

HERE = "linux_amd64"
AWS = "registry.terraform.io/hashicorp/aws"
UNPACKED = f"{AWS}/5.100.0/{HERE}/terraform-provider-aws_v5.100.0_x5"


@pytest.fixture(autouse=True)
def _linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")


def put(folder: Path, name: str = UNPACKED) -> Path:
    (folder / name).parent.mkdir(parents=True)
    (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("folder", "names"),
    [
        pytest.param("mirror", {"TERRAFORM_MIRROR": "mirror"}, id="what TERRAFORM_MIRROR names"),
        pytest.param("cache", {"TF_PLUGIN_CACHE_DIR": "cache"}, id="the cache of plugins"),
        pytest.param("home/.terraform.d/plugins", {}, id="the folder in the home"),
        pytest.param("home/.local/share/terraform/plugins", {}, id="the data of the user"),
        pytest.param("data/terraform/plugins", {"XDG_DATA_HOME": "data"}, id="the data that XDG names"),
        pytest.param("usr/share/terraform/plugins", {}, id="the data of the machine"),
        pytest.param("usr/local/share/terraform/plugins", {}, id="the local data of the machine"),
        pytest.param(
            "shared/opentofu/plugins", {"XDG_DATA_DIRS": "shared"}, id="data folders that XDG names"
        ),
        pytest.param("opt/plugins", {}, id="a folder below opt"),
        pytest.param("usr/local/lib/terraform/plugins", {}, id="a folder two below the libraries"),
    ],
)
def test_a_provider_is_found(folder: str, names: dict[str, str], tmp_path: Path) -> None:
    """The AWS provider is found wherever Terraform, its user or the machine keeps it."""
    place = put(tmp_path / folder)
    environment = {"HOME": str(tmp_path / "home")} | {k: str(tmp_path / v) for k, v in names.items()}

    assert terraform.mirrors(environment, "terraform", tmp_path) == {place: [AWS]}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        pytest.param(f"{AWS}/terraform-provider-aws_5.100.0_{HERE}.zip", True, id="one that is packed"),
        pytest.param(f"{AWS}/5.100.0/darwin_arm64/terraform-provider-aws_v5", False, id="another system"),
        pytest.param(f"{AWS}/5.100.0.json", False, id="no program"),
        pytest.param(UNPACKED.replace("terraform.io", "opentofu.org"), False, id="the registry of tofu"),
    ],
)
def test_a_provider_must_run_here(name: str, found: bool, tmp_path: Path) -> None:
    """A folder counts only where it has a provider of the program's registry for this machine."""
    put(tmp_path / "opt/plugins", name)

    assert bool(terraform.mirrors({}, "terraform", tmp_path)) == found


def test_the_registry_is_asked_for_the_rest(tmp_path: Path) -> None:
    """The first folder that has a provider gives it; the registry gives what no folder has."""
    first = put(tmp_path / "mirror")
    put(tmp_path / "opt/plugins")
    found = terraform.mirrors({"TERRAFORM_MIRROR": str(first)}, "terraform", tmp_path)

    assert terraform.settings(found) == (
        "provider_installation {\n"
        f'  filesystem_mirror {{\n    path    = "{first}"\n    include = ["{AWS}"]\n  }}\n'
        f'  direct {{\n    exclude = ["{AWS}"]\n  }}\n'
        "}\n"
    )
