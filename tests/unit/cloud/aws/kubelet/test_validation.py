"""What kubelet settings of a class may say."""

from typing import Any

import pytest

from karpenter.cloud.aws.amifamily.family import family_of
from karpenter.cloud.aws.kubelet.validation import MAPPED, check_family, check_settings, percentage

SOFT = {"evictionSoft": {"memory.available": "5%"}, "evictionSoftGracePeriod": {"memory.available": "1m"}}


@pytest.mark.parametrize(
    "kubelet",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"maxPods": 110}, id="a number of pods"),
        pytest.param({"maxPods": "vcpus * 10"}, id="an expression"),
        pytest.param({"podsPerCore": 0}, id="zero"),
        pytest.param({"clusterDNS": ["10.0.0.10", "10.0.0.11"]}, id="two addresses"),
        pytest.param(
            {"evictionHard": {"memory.available": "100Mi", "nodefs.available": "10%"}}, id="thresholds"
        ),
        pytest.param({"evictionHard": {"memory.available": "0%"}}, id="no threshold"),
        pytest.param({"evictionHard": {"memory.available": "100%"}}, id="all of it"),
        pytest.param({"evictionHard": {"memory.available": "12.5%"}}, id="a fraction"),
        pytest.param(SOFT, id="a soft threshold with its grace period"),
        pytest.param({"kubeReserved": {"cpu": "100m", "pid": "100"}}, id="reservations"),
        pytest.param({"kubeReserved": {"cpu": "vcpus * 10"}}, id="a reservation that is an expression"),
        pytest.param(
            {"imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80}, id="image limits"
        ),
        pytest.param({"imageGCHighThresholdPercent": 0}, id="one image limit"),
        pytest.param({"shutdownGracePeriod": "30s"}, id="a duration"),
        pytest.param({"featureGates": {"A": True}}, id="a map of flags"),
        pytest.param({"memoryThrottlingFactor": 0.9}, id="a fraction of a number"),
        pytest.param({"logging": {"verbosity": 2, "flushFrequency": "5s"}}, id="an object"),
        pytest.param({"logging": {"flushFrequency": 5}}, id="a frequency that is a number"),
        pytest.param(
            {"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}]}, id="a list of objects"
        ),
        pytest.param({"staticPodURLHeader": {"a": ["b"]}}, id="a map of lists"),
        pytest.param({"maxPods": None}, id="a setting that is not set"),
        pytest.param({"registerWithTaints": []}, id="no taints"),
    ],
)
def test_what_is_fine(kubelet: dict[str, Any]) -> None:
    """Nothing is said about it."""
    assert check_settings(kubelet) == ()


@pytest.mark.parametrize(
    ("kubelet", "problem"),
    [
        ({"maxPodz": 1}, "maxPodz: unknown setting"),
        ({"logging": {"loud": True}}, "logging.loud: unknown setting"),
        ({"reservedMemory": [{"node": 0}]}, "reservedMemory[0].node: unknown setting"),
        ({"maxPods": True}, "maxPods: expected a whole number of 32 bits"),
        ({"maxPods": 2**31}, "maxPods: expected a whole number of 32 bits"),
        ({"podPidsLimit": 2**63}, "podPidsLimit: expected a whole number of 64 bits"),
        ({"cpuCFSQuota": "true"}, "cpuCFSQuota: expected true or false"),
        ({"clusterDNS": "10.0.0.10"}, "clusterDNS: expected a list"),
        ({"clusterDNS": [1]}, "clusterDNS[0]: expected a text"),
        ({"evictionHard": ["x"]}, "evictionHard: expected a map"),
        ({"evictionHard": {"memory.available": 5}}, "evictionHard.memory.available: expected a text"),
        ({"logging": 1}, "logging: expected an object"),
        ({"memoryThrottlingFactor": "much"}, "memoryThrottlingFactor: expected a number"),
        ({"syncFrequency": "soon"}, "syncFrequency:"),
        ({"reservedMemory": [{"limits": {"memory": "x"}}]}, "reservedMemory[0].limits.memory:"),
        ({"registerWithTaints": [{"key": "a"}]}, "registerWithTaints: taints are set by the pool"),
        ({"evictionHard": {"disk": "5%"}}, "evictionHard.disk: is none of memory.available"),
        ({"evictionMinimumReclaim": {"disk": "5%"}}, "evictionMinimumReclaim.disk: is none of"),
        ({"evictionHard": {"memory.available": "101%"}}, "is not a percentage between 0% and 100%"),
        ({"evictionHard": {"memory.available": "-5%"}}, "is not a percentage between 0% and 100%"),
        ({"evictionHard": {"memory.available": "%"}}, "is not a percentage between 0% and 100%"),
        ({"evictionHard": {"memory.available": "-5Mi"}}, "memory.available: may not be negative"),
        ({"evictionHard": {"memory.available": "much"}}, "evictionHard.memory.available:"),
        ({"evictionSoft": {"memory.available": "5%"}}, "needs an entry in evictionSoftGracePeriod"),
        ({"evictionSoftGracePeriod": {"memory.available": "1m"}}, "needs an entry in evictionSoft"),
        (
            {**SOFT, "evictionSoftGracePeriod": {"memory.available": "-1m"}},
            "evictionSoftGracePeriod.memory.available: may not be negative",
        ),
        (
            {**SOFT, "evictionSoftGracePeriod": {"memory.available": "soon"}},
            "evictionSoftGracePeriod.memory.available:",
        ),
        ({"kubeReserved": {"gpu": "1"}}, "kubeReserved.gpu: is none of cpu, memory, ephemeral-storage, pid"),
        ({"systemReserved": {"cpu": "-100m"}}, "systemReserved.cpu: may not be negative"),
        ({"imageGCHighThresholdPercent": 101}, "imageGCHighThresholdPercent: 101 is not between 0 and 100"),
        ({"imageGCLowThresholdPercent": -1}, "imageGCLowThresholdPercent: -1 is not between 0 and 100"),
        (
            {"imageGCHighThresholdPercent": 80, "imageGCLowThresholdPercent": 80},
            "must be greater than imageGCLowThresholdPercent",
        ),
        ({"podsPerCore": -1}, "podsPerCore: may not be negative"),
        ({"evictionMaxPodGracePeriod": -1}, "evictionMaxPodGracePeriod: may not be negative"),
        ({"maxPods": -1}, "maxPods: may not be negative"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong(kubelet: dict[str, Any], problem: str) -> None:
    """Each problem is a sentence that begins with the setting."""
    assert any(problem in each for each in check_settings(kubelet))


def test_all_problems_are_told() -> None:
    """All problems are reported at once."""
    assert len(check_settings({"podsPerCore": -1, "maxPods": -1, "kubeReserved": {"gpu": "1"}})) == 3


@pytest.mark.parametrize("family", ["AL2", "Bottlerocket", "Windows2019", "Windows2022", "Windows2025"])
def test_most_families_take_some_settings_only(family: str) -> None:
    """Their start scripts have no flag for the others."""
    found = check_family({"shutdownGracePeriod": "30s", "maxPods": 1}, family_of(family))

    assert found == (f"shutdownGracePeriod: {family} does not take this setting",)


@pytest.mark.parametrize("family", ["AL2023", "Custom"])
def test_some_families_take_any(family: str) -> None:
    """AL2023 passes them on, and of a custom image only the user knows."""
    assert check_family({"shutdownGracePeriod": "30s", "clusterDNS": ["a", "b"]}, family_of(family)) == ()


@pytest.mark.parametrize(
    ("family", "name", "value", "taken"),
    [
        *(("AL2", name, None, True) for name in MAPPED),
        ("Bottlerocket", "podsPerCore", 2, True),
        ("Windows2022", "podsPerCore", 2, True),
        ("AL2", "clusterDNS", ["a", "b"], True),
        ("Windows2022", "clusterDNS", ["a", "b"], True),
        ("Bottlerocket", "clusterDNS", ["a"], True),
    ],
)
def test_settings_by_family(family: str, name: str, value: Any, taken: bool) -> None:
    """Twelve settings are taken by all of them, with two exceptions."""
    assert (check_family({name: value}, family_of(family)) == ()) is taken


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5%", 5.0),
        ("0%", 0.0),
        ("100%", 100.0),
        (".5%", 0.5),
        ("5.%", 5.0),
        ("101%", None),
        ("x%", None),
        ("5", None),
    ],
)
def test_percentage(text: str, expected: float | None) -> None:
    """A number between 0 and 100, or nothing."""
    assert percentage(text) == expected
