from importlib.metadata import EntryPoint

import pytest

from karpenter.cloud import registry
from karpenter.cloud.kwok.cloudprovider import connect
from karpenter.cloud.registry import BrokenProvider, UnknownProvider, find_provider, provider_names


def install(monkeypatch: pytest.MonkeyPatch, **providers: str) -> None:
    points = tuple(EntryPoint(name, value, registry.GROUP) for name, value in providers.items())
    monkeypatch.setattr(registry, "_installed", lambda: points)


def test_built_in() -> None:
    """The cloud in memory is always there."""
    assert find_provider("kwok") is connect
    assert provider_names()[0] == "kwok"


def test_a_package_brings_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point adds a provider by its name."""
    install(monkeypatch, rack="karpenter.cloud.kwok.cloudprovider:connect", attic="x:y")

    assert find_provider("rack") is connect
    assert provider_names() == ("kwok", "aws", "attic", "rack")


def test_the_group_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entry points of the group karpenter.providers are looked up, and no others."""
    asked = []

    def entry_points(**given: str) -> tuple[EntryPoint, ...]:
        asked.append(given)
        return ()

    monkeypatch.setattr(registry, "entry_points", entry_points)
    provider_names()

    assert asked == [{"group": "karpenter.providers"}]


def test_an_unknown_name() -> None:
    """The error lists what there is, and guesses what was meant."""
    with pytest.raises(
        UnknownProvider, match=r"there is no provider 'kwoc'; there are .*kwok.*; did you mean kwok\?"
    ):
        find_provider("kwoc")


def test_nothing_similar(monkeypatch: pytest.MonkeyPatch) -> None:
    """No guess is better than a wild one."""
    install(monkeypatch)
    with pytest.raises(UnknownProvider, match=r"there is no provider 'zzz'; there are aws, kwok$"):
        find_provider("zzz")


@pytest.mark.parametrize(
    ("name", "target", "text"),
    [
        pytest.param("rack", "no_such_module:connect", "No module named 'no_such_module'", id="no module"),
        pytest.param("rack", "karpenter.cloud.kwok:nothing", "has no attribute 'nothing'", id="no function"),
        pytest.param("rack", "karpenter.cloud.registry:GROUP", "is not a function", id="something else"),
        pytest.param("kwok", "other:connect", "both claim the name", id="a name that is taken"),
    ],
)
def test_broken(name: str, target: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider that cannot be used says why in one sentence."""
    install(monkeypatch, **{name: target})
    with pytest.raises(BrokenProvider, match=f"provider {name!r} cannot be used: .*{text}"):
        find_provider(name)
