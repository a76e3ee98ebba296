"""
Ports on loopback that are free right now.

A port is found by asking the system for one and letting it go, so another process may take it before it is
used: the caller must be ready to ask again.
"""

import socket
from contextlib import ExitStack

from karpenter_local.certificates import LOOPBACK


def free_ports(count: int) -> tuple[int, ...]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return tuple(each.getsockname()[1] for each in sockets)
