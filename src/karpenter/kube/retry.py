"""
Whether a request that failed may be sent again.

Sent again is what cannot have happened (nothing was sent, or the server said that it was too busy to try)
and what may happen twice without harm (reads, and applying the same object). Any other write that got no
answer may have been carried out: its caller has to look before doing it again.

An eviction that a disruption budget refuses is an answer and not a fault: it is never repeated here.
"""

from karpenter.kube.errors import KubeError, Refused, ServerFailed, TooManyRequests, Unreachable
from karpenter.kube.patch import Apply
from karpenter.kube.transport import Request


def may_repeat(request: Request, error: KubeError) -> bool:
    """Return whether `request`, which failed with `error`, may be sent again as it is."""
    match error:
        case Unreachable():
            return not error.sent or harmless(request)
        case TooManyRequests():
            return not request.path.endswith("/eviction")
        case ServerFailed():
            # With a Retry-After the server turned the request away at the door.
            return harmless(request) or error.retry_after is not None
        case _:
            return False


def harmless(request: Request) -> bool:
    """Return whether it makes no difference if `request` is carried out once or twice."""
    return request.method == "GET" or request.header("content-type") == Apply.content_type


def asked_wait(error: KubeError) -> float:
    """Return how long the server asked us to wait; zero if it did not."""
    return (error.retry_after or 0.0) if isinstance(error, Refused) else 0.0
