"""
The README in a new environment: its pip line, and then every line that it prints.

Nothing of this checkout's own environment is there, so that a library which is missing from the pip line is
missing here. It asks the package index, so it runs only when asked for (``make readme``).
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.readme
ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text("utf-8")
WITHIN = 600.0
OPTIONAL = ("karpenter.cdk", "karpenter_local.testing")
"""Packages whose libraries are extras that the README does not name."""

IMPORT_ALL = f"""
import importlib, pkgutil, karpenter, karpenter_local
skipped = {OPTIONAL}
for package in (karpenter, karpenter_local):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.startswith(skipped) and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
"""
BARE = "local up --provider aws --bare --cluster-name blue --node-group main,type=m5.large,count=2"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of a user who has typed the README's pip line, and nothing else."""
    home = tmp_path_factory.mktemp("home")
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "KUBE", "XDG_"))
    }
    found = {
        **kept,
        "HOME": str(home),
        "PATH": f"{home}/new/bin:{os.environ['PATH']}",
        "XDG_STATE_HOME": f"{home}/state",
    }
    line = re.search(r"^pip install .*$", TEXT, re.MULTILINE)
    assert line is not None
    subprocess.run([sys.executable, "-m", "venv", f"{home}/new"], check=True)  # noqa: S603  Python itself
    run(f"python -m {line[0]} --quiet", found)
    return found


def run(line: str, environment: dict[str, str]) -> str:
    """Type a line at the root of the checkout, and return what it prints; it must succeed."""
    done = subprocess.run(  # noqa: S602  as a reader types it
        line,
        shell=True,
        executable="/bin/bash",
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_every_module_can_be_imported(environment: dict[str, str]) -> None:
    """No module needs a library that comes with the development lock alone."""
    run(f"python - <<'END'\n{IMPORT_ALL}END", environment)


def test_the_plan_is_the_one_that_is_shown(environment: dict[str, str]) -> None:
    """The plan is printed to the last character as the README has it, with its proof."""
    shown = re.search(r"^\$ (?P<line>karpenter plan .*)\n(?P<output>(?s:.*?))^```", TEXT, re.MULTILINE)
    assert shown is not None
    printed = run(shown["line"], {**environment, "COLUMNS": "120"})

    assert [line.rstrip() for line in printed.splitlines()] == shown["output"].rstrip().splitlines()


@pytest.mark.parametrize("line", ["karpenter demo", "karpenter demo --provider aws"])
def test_the_demos_run(line: str, environment: dict[str, str]) -> None:
    """Both demos of the README come to their end."""
    assert line in TEXT
    run(line, environment)


def test_every_command_of_the_table_can_say_what_it_does(environment: dict[str, str]) -> None:
    """Every command has help, with an example."""
    for command in re.findall(r"^\| `karpenter (\S+)` \|", TEXT, re.MULTILINE):
        assert "karpenter" in run(f"karpenter {command} --help", environment)


def test_an_account_is_installed_into_and_read(environment: dict[str, str]) -> None:
    """What needs the SDK of AWS works: install, get and doctor on the embedded AWS."""
    lines = (
        f'eval "$(karpenter {BARE})"',
        "karpenter install -c blue --dry-run",
        "karpenter get iam-role",
        "karpenter top --once",
    )
    try:
        run(" && ".join(lines), environment)
    finally:
        run("karpenter local down", environment)
