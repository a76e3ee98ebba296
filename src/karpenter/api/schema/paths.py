"""Where a field is, spelled as the API spells it: ``spec.taints[0].key``, ``metadata.labels[app]``."""


def child(path: str, name: str) -> str:
    """Return the path of a named field."""
    return f"{path}.{name}" if path else name


def key(path: str, name: str) -> str:
    """Return the path of a map's entry."""
    return f"{path}[{name}]"


def index(path: str, position: int) -> str:
    """Return the path of a list's item."""
    return f"{path}[{position}]"
