"""
Which proxy leads to a server, from the environment.

Reads HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY in either case, as other Kubernetes clients do:
NO_PROXY may hold host names (which cover their subdomains), addresses, networks such as ``10.0.0.0/8``, each
with an optional port, or ``*``. Pure: the environment is an argument.
"""

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


def proxy_for(server: str, environ: Mapping[str, str]) -> str:
    """Return the proxy for a server's URL; empty if there is none."""
    url = urlsplit(server)
    host = url.hostname or ""
    port = url.port or _PORTS.get(url.scheme, 0)
    proxy = _read(environ, f"{url.scheme}_proxy") or _read(environ, "all_proxy")
    if not proxy or _is_local(host):
        return ""
    if any(_covers(rule.strip(), host, port) for rule in _read(environ, "no_proxy").split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _read(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name) or ""


def _is_local(host: str) -> bool:
    """A proxy elsewhere could not reach our loopback, so none is used for it."""
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _covers(rule: str, host: str, port: int) -> bool:
    if rule == "*":
        return True
    if "/" in rule:
        try:
            return _is_address(host) and ip_address(host) in ip_network(rule, strict=False)
        except ValueError:
            return False
    name, _, of_port = rule.partition(":") if rule.count(":") == 1 else (rule, "", "")
    if not name or (of_port and of_port != str(port)):
        return False
    name = name.strip("[]").lstrip("*").lower()
    return host == name.lstrip(".") or host.endswith("." + name.lstrip("."))


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
