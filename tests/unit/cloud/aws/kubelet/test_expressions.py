"""Kubelet settings that depend on the instance type."""

from typing import Any

import pytest

from karpenter.cloud.aws.kubelet.expressions import (
    BadExpression,
    InstanceTypeVariables,
    check_expression,
    evaluate,
    evaluate_amount,
    evaluate_pods,
    expressions_of,
    is_expression,
)

M5 = InstanceTypeVariables(
    instance_type="m5.large", vcpus=2, memory_mib=8192, default_enis=3, ips_per_eni=10, max_pods=29
)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("42", 42),
        ("vcpus", 2),
        ("memory_mib / 1024", 8),
        ("default_enis * (ips_per_eni - 1) + 2", 29),
        ("max_pods - 4", 25),
        ("min(max_pods, 20)", 20),
        ("max(max_pods, 110)", 110),
        ("min(vcpus * 10, 15)", 15),
        ("vcpus > 4 ? 100 : 50", 50),
        ("instance_type.startsWith('m5') ? 1 : 2", 1),
        ("instance_type == 'm5.large' ? 7 : 8", 7),
        ("instance_type in ['a', 'm5.large'] ? 7 : 8", 7),
        ("instance_type.endsWith('.metal') || vcpus >= 2 ? 3 : 4", 3),
        ("size(instance_type)", 8),
        ("7.9", 7),
        ("double(vcpus) * 1.75", 3),
        ("int(3.7)", 3),
        ("min(2.5, 3)", 2),
        ("max(1, 2.5) * 2.0", 5),
        ("-vcpus", -2),
        ("vcpus % 2", 0),
    ],
)
def test_evaluate(source: str, expected: int) -> None:
    """It comes to a whole number; fractions are cut off."""
    assert evaluate(source, M5) == expected


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("vcpus *", "is no expression"),
        ("", "is no expression"),
        ("cores * 2", "speaks of cores"),
        ("shell('rm')", "calls shell"),
        ("instance_type", "is not a number"),
        ("vcpus > 1", "is not a number"),
        ("vcpus / 0", "cannot be worked out"),
        ("1.0 / 0.0", "is not finite"),
        ("instance_type + 1", "cannot be worked out"),
        ("[1, 2]", "is not a number"),
    ],
)
def test_what_comes_to_nothing(source: str, problem: str) -> None:
    """It is told with the expression, and with the type where that matters."""
    with pytest.raises(BadExpression, match=problem):
        evaluate(source, M5)


@pytest.mark.parametrize("source", ["vcpus *", "cores", "shell('x')"])
def test_what_can_never_work_is_told_without_a_machine(source: str) -> None:
    """So that a class is refused before anything is listed."""
    with pytest.raises(BadExpression):
        check_expression(source)


@pytest.mark.parametrize(
    ("source", "expected"), [("0", 0), ("110", 110), ("2147483647", 2**31 - 1)], ids=["none", "some", "most"]
)
def test_pods(source: str, expected: int) -> None:
    """As many as a kubelet can be told."""
    assert evaluate_pods(source, M5) == expected


@pytest.mark.parametrize("source", ["-1", "2147483648", "vcpus - 3"])
def test_numbers_of_pods_that_no_kubelet_takes(source: str) -> None:
    """They are refused for the type that they come out for."""
    with pytest.raises(BadExpression, match=r"m5\.large"):
        evaluate_pods(source, M5)


@pytest.mark.parametrize(
    ("resource", "source", "expected"),
    [
        ("cpu", "60", "60m"),
        ("cpu", "61", "70m"),
        ("cpu", "0", "0m"),
        ("memory", "16", "16Mi"),
        ("memory", "17", "32Mi"),
        ("memory", "11 * max_pods + 255", "576Mi"),
        ("ephemeral-storage", "3", "3Gi"),
        ("pid", "1000", "1000"),
    ],
)
def test_amounts(resource: str, source: str, expected: str) -> None:
    """With the unit of the resource, rounded up to what the guides of the images use."""
    assert evaluate_amount(resource, source, M5) == expected


def test_a_negative_amount_is_refused() -> None:
    """Nothing can be set aside less than not at all."""
    with pytest.raises(BadExpression, match=r"is negative for m5\.large"):
        evaluate_amount("cpu", "vcpus - 10", M5)


@pytest.mark.parametrize(
    ("written", "expected"),
    [("100m", False), ("1Gi", False), ("50", False), ("vcpus * 10", True), ("", True), (100, False)],
)
def test_is_expression(written: Any, expected: bool) -> None:
    """Whatever is no quantity."""
    assert is_expression(written) is expected


def test_expressions_of() -> None:
    """By where they stand; plain amounts are none."""
    kubelet = {
        "maxPods": "vcpus",
        "kubeReserved": {"cpu": "vcpus * 10", "memory": "1Gi"},
        "systemReserved": {"memory": "memory_mib / 100"},
        "evictionHard": {"memory.available": "5%"},
    }

    assert expressions_of(kubelet) == {
        "maxPods": "vcpus",
        "kubeReserved.cpu": "vcpus * 10",
        "systemReserved.memory": "memory_mib / 100",
    }
