from __future__ import annotations

import pytest

from karpenter.top.config import FLAGS, TopConfigError, options_of, read_file, resolve
from karpenter.top.model import NodeSort

FILE = """
# a comment
context = blue
node-sort=creation=asc
resources=memory
disable-pricing=perhaps
unknown=1
no setting
"""


def test_the_file_has_lines_of_key_and_value() -> None:
    """Comments and lines that are no setting are left out; a value may hold an equals sign."""
    assert read_file(FILE) == {
        "context": "blue",
        "node-sort": "creation=asc",
        "resources": "memory",
        "disable-pricing": "perhaps",
    }


@pytest.mark.parametrize(
    ("flags", "environ", "file", "expected"),
    [
        pytest.param({"resources": "cpu"}, {}, FILE, ("resources", "cpu"), id="a flag wins over the file"),
        pytest.param({}, {}, FILE, ("resources", "memory"), id="the file wins over the default"),
        pytest.param({}, {}, "", ("resources", "cpu"), id="the default"),
        pytest.param({}, {"KUBECONFIG": "env"}, "kubeconfig=file", ("kubeconfig", "env"), id="KUBECONFIG"),
        pytest.param(
            {"kubeconfig": "flag"}, {"KUBECONFIG": "env"}, "", ("kubeconfig", "flag"), id="a flag beats it"
        ),
        pytest.param({}, {"CONTEXT": "env"}, "", ("context", ""), id="no other variable is read"),
    ],
)
def test_what_wins(
    flags: dict[str, str], environ: dict[str, str], file: str, expected: tuple[str, str]
) -> None:
    """A flag wins over KUBECONFIG, that over the file, and the file over the default."""
    values = resolve(flags, environ, file)
    assert set(values) == set(FLAGS)
    assert values[expected[0]] == expected[1]


def test_options() -> None:
    """Lists are split at commas, the order is read, and what is no truth value is false."""
    options = options_of(resolve({"extra-labels": "a, b/c"}, {}, FILE))
    assert options.extra_labels == ("a", "b/c")
    assert options.resources == ("memory",)
    assert options.order == NodeSort("creation", descending=False)
    assert options.pricing
    assert not options_of(resolve({"disable-pricing": "true"}, {}, "")).pricing


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ({"style": "red,green"}, 'three colors must be provided for the style, found 2 ("red,green")'),
        ({"style": "red,green,nothing"}, "--style: 'nothing' is no colour such as #04B575"),
        ({"node-selector": "a b"}, "--node-selector: 'a b' is no label selector"),
        ({"resources": ","}, "--resources: names no resource"),
        ({"resources": "cpuu"}, "--resources: there is no resource 'cpuu'; did you mean cpu?"),
        ({"node-sort": "foo=up"}, "--node-sort: 'up' is not asc or dsc"),
    ],
)
def test_what_cannot_be_used_is_refused(flags: dict[str, str], problem: str) -> None:
    """One sentence names the flag and what is allowed."""
    with pytest.raises(TopConfigError) as error:
        options_of(resolve(flags, {}, ""))
    assert str(error.value).startswith(problem)
