"""Tables as a client asks for them, and how to look at one."""

from typing import Any

from tests.contract.kubernetes.api import Api, Object, done

IMAGE = "registry.example/app:1"

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


def table(api: Api, resource: str, name: str = "", **query: object) -> Object:
    """Return the server's table of one object or of all."""
    return done(api.send("GET", api.path(resource, name), headers=TABLE, **query))


def columns(found: Object) -> str:
    """Return the names of the columns; those for ``-o wide`` are in brackets."""
    names = [(each["name"], each["priority"]) for each in found["columnDefinitions"]]
    return ", ".join(f"[{name}]" if priority else name for name, priority in names)


def cells(found: Object) -> list[Any]:
    """Return the cells of the only row, without the age."""
    [row] = found["rows"]
    named = zip(found["columnDefinitions"], row["cells"], strict=True)
    return [cell for column, cell in named if column["name"] not in {"Age", "Created At"}]
