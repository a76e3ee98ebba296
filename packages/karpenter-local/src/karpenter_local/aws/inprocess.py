"""
The embedded AWS without a server: it answers in the thread that asks, and its chance can be repeated.

    with AwsInProcess(seed="7") as server:
        site = ClusterAccount(server, cluster="blue")

Nothing is sent anywhere: whatever the SDK would send is handed to the same front that the server has. Ids and
names are those that the seed stands for, so that two lives of the same seed are the same. There is one such
AWS at a time in a process, with one account.

The SDK does not retry, because it would wait in real time. Callers in virtual time retry themselves.
"""

from __future__ import annotations

from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from botocore.awsrequest import AWSPreparedRequest, AWSResponse, HeadersDict
from botocore.exceptions import ConnectionClosedError
from botocore.utils import parse_timestamp
from moto.core.base_backend import AccountSpecificBackend, BackendDict
from moto.moto_api._internal import mock_random
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.test import create_environ, run_wsgi_app

from karpenter_local.aws.account import ACCOUNTS, DEFAULT_REGION, Account
from karpenter_local.aws.answers import install
from karpenter_local.aws.front import AwsFrontend, ResponseLost

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from botocore.session import Session

NUMBER: Final = "100000000001"
_PARSE_TIME: Final = lru_cache(maxsize=4096)(parse_timestamp)
"""Reads times: an instance tells the same ones whenever it is described."""

_BODIES: Final = (bytes, bytearray)


class AwsInProcess:
    """An AWS in this process. Entered, its chance is that of the seed; left, its account is forgotten."""

    endpoint: Final = "http://aws.invalid"
    retries: Final = False

    def __init__(self, *, seed: str) -> None:
        install()
        self._front = AwsFrontend(DomainDispatcherApplication(self._service))
        self._seed = seed
        self._requests = 0
        self._chance: Any = None

    def __enter__(self) -> Self:
        self._chance = mock_random.getstate()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        mock_random.setstate(self._chance)
        ACCOUNTS.pop(NUMBER, None)
        services: list[Any] = BackendDict._instances  # type: ignore[misc]  # noqa: SLF001  it forgets all or none
        for service in services:
            service.pop(NUMBER, None)
        remembered: Any = AccountSpecificBackend._generate_regions  # noqa: SLF001  it keeps references to backends
        remembered.cache_clear()

    def account(self, *, region: str = DEFAULT_REGION, types: Iterable[str] | None = None) -> Account:
        """Return the account, empty but for what AWS itself has."""
        made = Account(NUMBER, region=region, types=types)
        ACCOUNTS[made.number] = made
        return made

    def attach(self, session: Session) -> None:
        answer: Any = InProcessWire(self._front, self.endpoint).answer
        session.register("before-send", answer)
        session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_PARSE_TIME)

    def _service(self, name: Any) -> Any:
        """Return a service whose chance depends on nothing but the seed and how much was asked before."""
        imitation = create_backend_app(name)

        def answer(environ: Any, start: Any) -> Iterable[bytes]:
            self._requests += 1
            mock_random.seed(f"{self._seed}/{self._requests}")
            return imitation(environ, start)

        return answer


class InProcessWire:
    """Hands what the SDK is about to send to a front in this process."""

    def __init__(self, front: AwsFrontend, endpoint: str) -> None:
        self._front = front
        self._endpoint = endpoint

    def answer(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        parts = urlsplit(request.url)
        environ = create_environ(
            path=parts.path or "/",
            query_string=parts.query,
            base_url=self._endpoint,
            method=request.method,
            headers=[(name, _text(value)) for name, value in request.headers.items()],
            data=_body(request.body),
        )
        try:
            chunks, status, headers = run_wsgi_app(self._front, environ, buffered=True)
        except ResponseLost as error:
            raise ConnectionClosedError(endpoint_url=request.url) from error
        code = int(status.partition(" ")[0])
        told: Any = HeadersDict(headers.items())
        return AWSResponse(request.url, code, told, _Raw(b"".join(chunks)))


class _Raw(BytesIO):
    """A body as the SDK reads it."""

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, _BODIES) else str(value)


def _body(body: Any) -> bytes:
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode()
    return bytes(body) if isinstance(body, _BODIES) else bytes(body.read())
