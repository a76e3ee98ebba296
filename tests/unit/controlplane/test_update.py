import importlib.util
from pathlib import Path
from types import ModuleType

import click
import pytest

ROOT = Path(__file__).parents[3]

UPSTREAM = """module k8s.io/kubernetes

go 1.26.0

require (
	example.com/other v1.2.3
	k8s.io/api v0.0.0
	k8s.io/klog/v2 v2.140.0
	k8s.io/kubectl v0.0.0
)
"""


@pytest.fixture(scope="module")
def update() -> ModuleType:
    """The script, loaded by its path."""
    spec = importlib.util.spec_from_file_location("update", ROOT / "controlplane" / "update.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_libraries_of_the_same_repository_are_replaced(update: ModuleType) -> None:
    """What is required at no version is taken at the one that goes with Kubernetes'."""
    written = update.render("v1.36.3", UPSTREAM)

    assert "require k8s.io/kubernetes v1.36.3\n" in written
    assert "\tk8s.io/api => k8s.io/api v0.36.3\n\tk8s.io/kubectl => k8s.io/kubectl v0.36.3\n)\n" in written
    assert "klog" not in written
    assert "go 1.26.0\n\ngodebug default=go1.26\n" in written


def test_another_form_is_refused(update: ModuleType) -> None:
    """A module file that is laid out otherwise needs a person."""
    with pytest.raises(click.ClickException, match=r"v1\.99\.0 is not of the known form"):
        update.render("v1.99.0", "module x\n")


def test_the_module_file_is_as_the_script_writes_it(update: ModuleType) -> None:
    """The tools and the version that are built are those that the script names."""
    text = (ROOT / "controlplane" / "go.mod").read_text()

    assert all(f"\t{tool}\n" in text for tool in update.TOOLS)
