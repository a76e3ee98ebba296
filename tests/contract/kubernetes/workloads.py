"""What the tests of every workload controller ask for."""

from tests.contract.kubernetes.api import Api, Object, eventually
from tests.contract.kubernetes.machines import bury, run_all


def owner_of(found: Object) -> tuple[str, str, bool, bool]:
    """Return kind and name of the controller, and its two flags."""
    [owner] = found["metadata"]["ownerReferences"]
    return owner["kind"], owner["name"], owner["controller"], owner["blockOwnerDeletion"]


def settled(api: Api, resource: str, name: str, **expected: object) -> Object:
    """Wait until the status says what is expected, and return the object."""

    def probe() -> Object | None:
        found = api.read(resource, name)
        status = found["status"]
        agrees = all(status.get(key, 0) == value for key, value in expected.items())
        return found if agrees else None

    return eventually(probe)


def pump(api: Api, labels: str = "app=web") -> None:
    """Be the kubelet for a moment: run what is new, end what was told to go."""
    bury(api, labels)
    run_all(api, labels)
