"""The embedded AWS as a server on loopback, and the accounts in it."""

from __future__ import annotations

import logging
from itertools import count
from threading import Thread
from typing import TYPE_CHECKING, Final, Self

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from karpenter_local.aws.account import ACCOUNTS, DEFAULT_REGION, Account
from karpenter_local.aws.answers import install
from karpenter_local.aws.front import AwsFrontend

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from botocore.session import Session

    from karpenter_local.aws.control import Control

LOOPBACK: Final = "127.0.0.1"
_NUMBERS: Final = count(1)


class EmbeddedAws:
    """An AWS on loopback. Entered, it answers; left, it has stopped."""

    retries: Final = True
    """Whether the SDK tries again by itself, as it does in production."""

    def __init__(self, *, port: int = 0) -> None:
        install()
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._front = AwsFrontend(DomainDispatcherApplication(create_backend_app))
        self._server = make_server(
            LOOPBACK, port, self._front, threaded=True, request_handler=MotoRequestHandler
        )
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self._server.server_port}"

    def account(self, *, region: str = DEFAULT_REGION, types: Iterable[str] | None = None) -> Account:
        """Return a new account, empty but for what AWS itself has."""
        made = Account(f"{next(_NUMBERS):012d}", region=region, types=types)
        ACCOUNTS[made.number] = made
        return made

    def attach(self, session: Session) -> None:
        """Do nothing: clients find this AWS by its address."""

    def obey(self, control: Control) -> None:
        """Let a hand command this AWS over HTTP."""
        self._front.routes.control = control
