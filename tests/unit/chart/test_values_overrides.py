"""``--set`` and files of values: what they say, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.chart.chart import manifests
from karpenter.chart.known_values import VALUES, ChartValue
from karpenter.chart.objects import deployment
from karpenter.chart.tree import Release, Required, Templated
from karpenter.chart.values import (
    BadValue,
    default_values,
    lay_over,
    parse_set,
    put,
    retired_values,
    schema,
    values_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("replicas=1", [(["replicas"], 1)], id="a number"),
        pytest.param("a=true,b=false,c=null", [(["a"], True), (["b"], False), (["c"], None)], id="words"),
        pytest.param("a=1m", [(["a"], "1m")], id="text"),
        pytest.param("a=007", [(["a"], "007")], id="a number that would lose its zeros"),
        pytest.param("a=", [(["a"], "")], id="nothing"),
        pytest.param("a=b=c", [(["a"], "b=c")], id="an equals sign in the value"),
        pytest.param(r"a.b\.c/d=e", [(["a", "b.c/d"], "e")], id="a dot that is no step"),
        pytest.param(r"a=b\,c", [(["a"], "b,c")], id="a comma that is no end"),
        pytest.param("a={b,1}", [(["a"], ["b", 1])], id="a list"),
        pytest.param("a={}", [(["a"], [])], id="an empty list"),
        pytest.param("a[1].b=c", [(["a", 1, "b"], "c")], id="an item"),
    ],
)
def test_what_set_says(text: str, expected: list[tuple[list[str | int], Any]]) -> None:
    """Assignments are read as Helm reads them."""
    assert parse_set(text) == expected


@pytest.mark.parametrize("text", ["replicas", "=1", "a..b=1", "a[x]=1", "a]=1"])
def test_what_set_cannot_say(text: str) -> None:
    """What is no assignment is refused."""
    with pytest.raises(BadValue):
        parse_set(text)


@pytest.mark.parametrize(
    ("stated", "problem"),
    [
        pytest.param("replica=1", "the chart has no value replica; did you mean replicas", id="misspelt"),
        pytest.param("settings.x=1", r"the chart has no value settings\.x$", id="not there"),
        pytest.param(
            "settings.featureGates.foo=true",
            r"no value settings\.featureGates\.foo; settings\.featureGates has capacityBuffer, nodeOverlay, ",
            id="no gate, and none that is near",
        ),
        pytest.param("batchMaxDuration=1s", r"did you mean settings\.batchMaxDuration\?", id="elsewhere"),
        pytest.param("replicas.x=1", r"no value replicas\.x", id="below a number"),
        pytest.param("nodeSelector[0]=x", "no list with an item 0", id="an item of a mapping"),
        pytest.param("imagePullSecrets[9999]=x", "no list with an item 9999", id="a list without end"),
        pytest.param("imagePullSecrets.name=x", "no mapping to put name in", id="a name in a list"),
        pytest.param("imagePullSecrets.a.b=x", "no mapping to find a in", id="a path through a list"),
    ],
)
def test_what_the_chart_does_not_know(stated: str, problem: str) -> None:
    """A name that the chart does not know is refused, with the one that was probably meant."""
    with pytest.raises(BadValue, match=problem):
        values_of([], [stated])


def test_later_wins() -> None:
    """Files lie over defaults, and what is set over both; null takes away; mappings are merged."""
    files: list[dict[str, Any]] = [
        {"replicas": 3, "nodeSelector": {"a": "b"}, "dnsPolicy": None},
        {"logLevel": "debug"},
    ]
    values = values_of(files, ["replicas=4", "nodeSelector.c=d", "tolerations=null"])

    assert (values["replicas"], values["logLevel"]) == (4, "debug")
    assert values["nodeSelector"] == {"kubernetes.io/os": "linux", "a": "b", "c": "d"}
    assert "dnsPolicy" not in values
    assert "tolerations" not in values


def test_files_are_checked_to_the_bottom() -> None:
    """A name in a file that the chart does not know is refused, however deep."""
    with pytest.raises(BadValue, match=r"settings\.featureGates\.magic"):
        lay_over(default_values(), {"settings": {"featureGates": {"magic": True}}})


def test_items_are_made_as_needed() -> None:
    """A list grows to the item that is set."""
    values = default_values()
    put(values, ["controller", "env", 1, "name"], "B")

    assert values["controller"]["env"] == [None, {"name": "B"}]


@pytest.mark.parametrize(
    ("stated", "problem"),
    [
        pytest.param({"replicas": [1]}, "replicas: a list is not a whole number", id="a list"),
        pytest.param({"tolerations": "x"}, "tolerations: 'x' is not a list", id="a text"),
        pytest.param({"settings": 3}, "settings: a mapping is wanted, not 3", id="a number"),
        pytest.param(
            {"settings": {"minValuesPolicy": "Loose"}}, "'Loose' is not Strict or BestEffort", id="a policy"
        ),
        pytest.param({"replicas": "two"}, "replicas: 'two' is not a whole number", id="a word for a number"),
        pytest.param({"replicas": -1}, "replicas: -1 is less than 0", id="a negative number"),
        pytest.param({"replicas": "{{ 1 }}"}, "is not a whole number", id="a template where none is read"),
        pytest.param({"hostNetwork": "maybe"}, "hostNetwork: 'maybe' is not true or false", id="a maybe"),
        pytest.param({"dnsPolicy": "default"}, "did you mean Default?", id="a word of another case"),
        pytest.param(
            {"controller": {"resources": {"requests": {"cpu": "1core"}}}},
            r"controller\.resources\.requests\.cpu: '1core' is not an amount such as 500m, 2 or 1\.5Gi",
            id="an amount with a word",
        ),
        pytest.param(
            {"settings": {"batchMaxDuration": "tenseconds"}},
            r"settings\.batchMaxDuration: 'tenseconds' is not a duration such as 90s or 1h30m",
            id="a word for a duration",
        ),
        pytest.param(
            {"settings": {"featureGates": {"spotToSpotConsolidation": "maybe"}}},
            r"featureGates\.spotToSpotConsolidation: 'maybe' is not true or false",
            id="a gate that is half open",
        ),
        pytest.param(
            {"settings": {"priceFactors": "m5"}}, "'m5' is not NAME=FACTOR", id="a factor without a number"
        ),
    ],
)
def test_what_a_value_cannot_be(stated: dict[str, Any], problem: str) -> None:
    """A value of the wrong sort is refused by its name, as Helm refuses it by the schema."""
    with pytest.raises(BadValue, match=problem):
        values_of([stated], [])


@pytest.mark.parametrize(
    "stated",
    [
        pytest.param({"affinity": {"podAffinity": "x"}}, id="an affinity that is a text"),
        pytest.param({"topologySpreadConstraints": ["x"]}, id="a constraint that is a text"),
        pytest.param({"controller": {"env": ["x"]}}, id="a variable that is a text"),
        pytest.param({"controller": {"sidecarContainer": [1]}}, id="a container that is a number"),
    ],
)
def test_what_is_below_a_value_is_a_mapping(stated: dict[str, Any]) -> None:
    """What the chart must look into is refused where it cannot."""
    with pytest.raises(BadValue, match="a mapping is wanted"):
        manifests(Release(values=values_of([stated], ["settings.clusterName=blue"])))


def test_values_of_older_charts_are_accepted() -> None:
    """What charts once had is accepted, and a sentence for each says that it has no effect."""
    values = values_of([{"webhook": {"enabled": True}}], ["settings.aws.clusterName=x,settings.aws.tags.a=b"])

    aws, webhook = retired_values(values)

    assert aws.startswith("settings.aws has no effect: its values are under settings")
    assert webhook.startswith("webhook has no effect: there is no webhook")
    assert retired_values(default_values()) == []


def test_values_shared_between_charts_are_accepted() -> None:
    """Helm hands ``global`` to every chart, and charts around ours decide by ``enabled``."""
    values = values_of([{"global": {"x": {"y": 1}}, "enabled": True}], ["global.clusterName=blue"])

    assert values["global"] == {"x": {"y": 1}, "clusterName": "blue"}


def test_the_schema_knows_every_default() -> None:
    """The schema allows no name beside those that are known, and describes each."""
    root = schema()

    assert root["additionalProperties"] is False
    assert root["properties"]["settings"]["additionalProperties"] is False
    assert {"global", "enabled", "webhook", *default_values()} - {"webhook"} <= set(root["properties"])
    assert root["properties"]["settings"]["properties"]["minValuesPolicy"]["enum"] == [
        "Strict",
        "BestEffort",
        "",
        None,
    ]


def placeholders(tree: Any) -> Iterator[Any]:
    """Yield everything in a tree of the chart."""
    yield tree
    if isinstance(tree, dict):
        below: Any = tree.values()
    else:
        below = tree if isinstance(tree, list | tuple) else ()
    if isinstance(tree, msgspec.Struct):
        below = msgspec.structs.asdict(tree).values()
    for each in below:
        yield from placeholders(each)


@pytest.mark.parametrize("chart_value", VALUES, ids=lambda each: each.path)
def test_what_the_chart_reads_as_a_template(chart_value: ChartValue) -> None:
    """A text may be a template exactly where the chart evaluates it."""
    evaluated = {each.path for each in placeholders(deployment()) if isinstance(each, Templated | Required)}

    assert chart_value.template == (chart_value.path in evaluated)
