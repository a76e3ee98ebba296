from typing import Any

import pytest

from karpenter.telemetry.logging import HIDDEN, hide, hide_text

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "sent Authorization: Bearer abcdefghij", f"sent Authorization: Bearer {HIDDEN}", id="bearer"
        ),
        pytest.param(f"got {JWT}, sorry", f"got {HIDDEN}, sorry", id="signed web token"),
        pytest.param("k8s-aws-v1.aHR0cHM6Ly9zdHM", HIDDEN, id="token of a cluster on EKS"),
        pytest.param("key AKIAIOSFODNN7EXAMPLE used", f"key {HIDDEN} used", id="access key"),
        pytest.param("https://joe:hunter2@host/x", f"https://joe:{HIDDEN}@host/x", id="password in a URL"),
        pytest.param(
            "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", HIDDEN, id="private key"
        ),
        pytest.param("-----BEGIN PRIVATE KEY-----\nabc", HIDDEN, id="private key that was cut off"),
        pytest.param("no capacity in 3 offerings", "no capacity in 3 offerings", id="ordinary text"),
        pytest.param("https://host:6443/api", "https://host:6443/api", id="URL with a port"),
    ],
)
def test_text(text: str, expected: str) -> None:
    """Whatever looks like a secret is replaced, and nothing else."""
    assert hide_text(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(
            {"password": "x", "user": "joe"}, {"password": HIDDEN, "user": "joe"}, id="nested by key"
        ),
        pytest.param([JWT, 1, None, True], [HIDDEN, 1, None, True], id="in a list"),
        pytest.param({"b", "a"}, ["a", "b"], id="a set is written in order"),
        pytest.param(b"\0" * 16, "[16 bytes]", id="bytes are counted"),
        pytest.param(ValueError(f"refused {JWT}"), f"refused {HIDDEN}", id="in an object's text"),
    ],
)
def test_values(value: object, expected: object) -> None:
    """Secrets are found at any depth and in any type."""
    assert hide({"fact": value}) == {"fact": expected}


@pytest.mark.parametrize(
    "key", ["token", "DB_PASSWORD", "clientSecret", "api-key", "aws_access_key_id", "Cookie"]
)
def test_keys(key: str) -> None:
    """A key that says secret hides its value, whatever that looks like."""
    assert hide({key: "plain"}) == {key: HIDDEN}


def test_no_depth_is_too_deep() -> None:
    """A value that holds itself comes to an end."""
    endless: dict[str, Any] = {}
    endless["again"] = endless

    assert HIDDEN in str(hide(endless))
