"""The page about security: its tables are what is granted, and the tests that it names exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from karpenter.chart import permissions
from karpenter.chart.permissions import ADMINISTRATION, CLUSTER, LEASE_NAMESPACE, SYSTEM, Permission
from karpenter.chart.tree import Equals, Given, IsFalse, IsNotFalse

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "internals" / "security.md"
SOURCE = ROOT / "packages" / "karpenter" / "src" / "karpenter"
STARTS = re.compile(
    r"(^|\.)(Popen|create_subprocess_\w+|check_output|check_call|getoutput|posix_spawn|os\.system|os\.popen)$"
)
EVALUATES = frozenset({"eval", "exec", "pickle.loads", "yaml.load", "subprocess.run"})
HEADING = "| in | resources | verbs | only with |\n|---|---|---|---|\n"


def rows() -> str:
    """Return the table of what the operator is granted, as the page has it."""
    lines = []
    for where, granted in (
        ("the cluster", CLUSTER),
        ("the namespace of the lease", LEASE_NAMESPACE),
        (f"`{permissions.SYSTEM_NAMESPACE}`", SYSTEM),
    ):
        for each in granted:
            group = f".{each.group}" if each.group else ""
            resources = ", ".join(f"`{name}{group}`" for name in each.resources)
            if each.names:
                resources += ", one by its name"
            lines.append(f"| {where} | {resources} | {', '.join(each.verbs)} | {condition(each, where)} |\n")
    return "".join(lines)


def condition(permission: Permission, where: str) -> str:
    """Return the setting that a permission comes with."""
    match permission.when:
        case Given(paths):
            return " or ".join(f"`{path}`" for path in paths)
        case Equals(path, text):
            return f"`{path}={text}`"
        case IsFalse(path):
            return f"`{path}=false`"
        case IsNotFalse(path):
            return f"`{path}` other than `false`"
        case _:
            return "`settings.cloudProvider=aws`" if "kube-system" in where else ""


def test_every_permission_is_on_the_page() -> None:
    """The table lists every rule of the operator's roles, in order."""
    expected = f"<!-- permissions -->\n{HEADING}{rows()}<!-- end of permissions -->"

    assert expected in PAGE.read_text("utf-8")


def test_the_page_is_right_about_what_is_not_granted() -> None:
    """No Secrets, no ConfigMaps, no roles, no new pods, nothing for all groups or all resources."""
    every = [
        (each.group, resource, verb)
        for each in (*CLUSTER, *LEASE_NAMESPACE, *SYSTEM)
        for resource in each.resources
        for verb in each.verbs
    ]
    touched = {resource for _, resource, _ in every}

    assert not touched & {"secrets", "configmaps", "roles", "clusterroles", "rolebindings", "*"}
    assert ("", "pods", "create") not in every
    assert not {verb for _, _, verb in every} & {"impersonate", "escalate", "bind", "*", "deletecollection"}
    assert {each.group.partition(".")[0] for each in ADMINISTRATION} == {"karpenter"}


def test_the_tests_that_it_names_exist() -> None:
    """Every statement can be looked up."""
    named = set(re.findall(r"`(tests/[\w/.]+)`", PAGE.read_text("utf-8")))

    assert len(named) > 15
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_no_shell_is_started() -> None:
    """Helm and exec plugins are the programs that are started; nothing starts a shell or evaluates text."""
    starts, evaluates = [], []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if STARTS.search(called):
                starts.append((path.name, called))
            if called in EVALUATES:
                evaluates.append((path.name, called))

    assert starts == [
        ("kubernetes.py", "asyncio.create_subprocess_exec"),
        ("execplugin.py", "asyncio.create_subprocess_exec"),
    ]
    assert evaluates == []
