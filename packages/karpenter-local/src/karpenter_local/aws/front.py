"""
The WSGI application of the embedded AWS, in front of moto.

It identifies the account and the operation of a request, records the call, injects faults, answers operations
that moto does not have, and passes the rest to moto. Requests to the control interface go to :mod:`.routes`.
"""

from __future__ import annotations

import json
import re
from io import BytesIO
from socket import SHUT_RDWR
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote

from werkzeug.wrappers import Request, Response

from karpenter_local.aws.account import ACCOUNTS, RecordedCall
from karpenter_local.aws.faults import LoseAnswer, RefuseCall
from karpenter_local.aws.identity import ASSUMING, KEYS, assume, owner_of
from karpenter_local.aws.prices import get_products
from karpenter_local.aws.routes import PREFIX, ControlRoutes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from karpenter_local.aws.account import Account

_CREDENTIAL: Final = re.compile(rf"Credential={KEYS.pattern}/\d+/[^/]+/(?P<service>[^/]+)/")
_CLUSTER: Final = re.compile(r"/clusters/(?P<name>[^/]+)")
_SHIFTS: Final = "GetManagedResource"
_AUTH_FAILURE: Final = RefuseCall(code="AuthFailure", message="the credentials are not known", status=401)
_JSON: Final = {"Content-Type": "application/x-amz-json-1.1"}


class ResponseLost(ConnectionError):  # noqa: N818  says what has happened
    """An answer is lost on request, where there is no connection that could be closed."""


class AwsFrontend:
    """Answers requests, or passes them to moto."""

    def __init__(self, imitation: Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]) -> None:
        self._imitation = imitation
        self.routes = ControlRoutes()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        request = Request(environ)
        if request.path.startswith(PREFIX):
            return self.routes.answer(request)(environ, start)
        signed = _CREDENTIAL.search(request.headers.get("Authorization", ""))
        if signed is None or signed["service"] == "sts":
            return self._identify(request)(environ, start)
        account = ACCOUNTS.get(signed["number"])
        if account is None:
            return _refusal("", _AUTH_FAILURE)(environ, start)
        environ["HTTP_X_MOTO_ACCOUNT_ID"] = account.number
        call = _call(request, signed["service"])
        account.record(call)
        fault = account.faults.pick(call.operation)
        if isinstance(fault, RefuseCall):
            return _refusal(call.service, fault)(environ, start)
        answer = self._answer(account, call, environ, start)
        token = str(call.parameters.get("ClientToken", ""))
        if isinstance(fault, LoseAnswer) or (token and token in _lost(account)):
            _lost(account).add(token)
            list(answer)
            if "werkzeug.socket" not in environ:
                raise ResponseLost
            environ["werkzeug.socket"].shutdown(SHUT_RDWR)
            return []
        return answer

    @staticmethod
    def _identify(request: Request) -> Response:
        """Answer STS requests, which need no credentials of the account."""
        call = _call(request, "sts")
        account = owner_of(str(call.parameters.get("RoleArn", "")))
        if call.operation not in ASSUMING or account is None:
            return _refusal("", _AUTH_FAILURE)
        account.record(call)
        fault = account.faults.pick(call.operation)
        if isinstance(fault, RefuseCall):
            return _refusal("iam", fault)
        return assume(account, call.operation, call.parameters)

    def _answer(
        self, account: Account, call: RecordedCall, environ: dict[str, Any], start: Callable[..., Any]
    ) -> Iterable[bytes]:
        if (call.service, call.operation) == ("pricing", "GetProducts"):
            body = json.dumps(get_products(account, dict(call.parameters)))
            return Response(body, 200, _JSON)(environ, start)
        if call.operation == _SHIFTS:
            body = json.dumps({"arn": call.parameters["resourceIdentifier"], "zonalShifts": account.shifts})
            return Response(body, 200, {"Content-Type": "application/json"})(environ, start)
        return self._imitation(environ, start)


def _lost(account: Account) -> set[str]:
    """Return the tokens of requests whose answers are lost for good."""
    lost: set[str] = account.answers.setdefault("", set())
    return lost


def _call(request: Request, service: str) -> RecordedCall:
    body = request.get_data(cache=True)
    request.environ["wsgi.input"] = BytesIO(body)
    target = request.headers.get("X-Amz-Target")
    if target:
        return RecordedCall(service, target.rpartition(".")[2], json.loads(body or b"{}"))
    if service == "eks":
        named = _CLUSTER.match(request.path)
        operation = "DescribeCluster" if named and request.method == "GET" else "CreateCluster"
        return RecordedCall(service, operation, {"name": named["name"]} if named else {})
    if service == "arc-zonal-shift":
        return RecordedCall(
            service, _SHIFTS, {"resourceIdentifier": unquote(request.path.partition("s/")[2])}
        )
    form = dict(parse_qsl(body.decode(), keep_blank_values=True))
    return RecordedCall(service, form.get("Action", ""), form)


def _refusal(service: str, fault: RefuseCall) -> Response:
    if service in {"ec2", ""}:
        body = (
            f"<Response><Errors><Error><Code>{fault.code}</Code><Message>{fault.message}</Message></Error>"
            "</Errors><RequestID>1</RequestID></Response>"
        )
        return Response(body, fault.status, {"Content-Type": "text/xml"})
    if service == "iam":
        body = (
            f"<ErrorResponse><Error><Type>Sender</Type><Code>{fault.code}</Code>"
            f"<Message>{fault.message}</Message></Error><RequestId>1</RequestId></ErrorResponse>"
        )
        return Response(body, fault.status, {"Content-Type": "text/xml"})
    headers = {**_JSON, "x-amzn-ErrorType": fault.code}
    return Response(json.dumps({"__type": fault.code, "message": fault.message}), fault.status, headers)
