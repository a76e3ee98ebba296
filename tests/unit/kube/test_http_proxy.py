"""The environment says which servers are reached through a proxy."""

import pytest

from karpenter.kube.http import proxy_for

PROXY = "http://gate:3128"


@pytest.mark.parametrize(
    ("server", "environ", "expected"),
    [
        pytest.param("https://api:6443", {}, "", id="no proxy"),
        pytest.param("https://api:6443", {"HTTPS_PROXY": PROXY}, PROXY, id="upper case"),
        pytest.param("https://api:6443", {"https_proxy": PROXY}, PROXY, id="lower case"),
        pytest.param("https://api:6443", {"HTTP_PROXY": PROXY}, "", id="the proxy of another scheme"),
        pytest.param("http://api", {"HTTP_PROXY": PROXY}, PROXY, id="plain HTTP"),
        pytest.param("https://api", {"ALL_PROXY": PROXY}, PROXY, id="the proxy of all schemes"),
        pytest.param("https://api", {"HTTPS_PROXY": "gate:3128"}, PROXY, id="a proxy without a scheme"),
        pytest.param(
            "https://localhost:6443", {"HTTPS_PROXY": PROXY}, "", id="never for this machine by name"
        ),
        pytest.param("https://127.0.0.1:6443", {"HTTPS_PROXY": PROXY}, "", id="nor by address"),
        pytest.param("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, "", id="nor by the newer address"),
    ],
)
def test_proxy_for(server: str, environ: dict[str, str], expected: str) -> None:
    """The proxy depends on the scheme; the machine itself is always reached directly."""
    assert proxy_for(server, environ) == expected


@pytest.mark.parametrize(
    ("server", "exempt", "expected"),
    [
        pytest.param("https://10.0.0.1", "10.0.0.0/8", "", id="a network covers its addresses"),
        pytest.param("https://11.0.0.1", "10.0.0.0/8", PROXY, id="and no others"),
        pytest.param("https://api.corp", "10.0.0.0/8", PROXY, id="and no names"),
        pytest.param("https://10.0.0.1", "10.0.0.0/99", PROXY, id="a network that is none covers nothing"),
        pytest.param("https://api.corp", "corp", "", id="a name covers what is under it"),
        pytest.param("https://api.corp", ".corp", "", id="also with a dot"),
        pytest.param("https://api.corp", "*.corp", "", id="also with a star"),
        pytest.param("https://apicorp", "corp", PROXY, id="but not what merely ends like it"),
        pytest.param("https://api.corp", "API.corp", "", id="in any case"),
        pytest.param("https://10.0.0.1:6443", "10.0.0.1:6443", "", id="an address with its port"),
        pytest.param("https://10.0.0.1:6443", "10.0.0.1:443", PROXY, id="not with another"),
        pytest.param("https://[fd00::1]:6443", "fd00::1", "", id="a newer address"),
        pytest.param("https://api", "*", "", id="everything"),
        pytest.param("https://api", " one , api ", "", id="one of several"),
        pytest.param("https://api", "", PROXY, id="nothing"),
    ],
)
def test_no_proxy(server: str, exempt: str, expected: str) -> None:
    """Names, addresses, networks and ports can be exempt."""
    assert proxy_for(server, {"HTTPS_PROXY": PROXY, "NO_PROXY": exempt}) == expected
