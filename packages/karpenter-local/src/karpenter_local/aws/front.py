"""
The WSGI application of the embedded AWS, in front of moto.

It finds out whose request it is and what it asks for, writes that down, lets it go wrong where that was
wished for, answers what moto does not know of, and passes the rest on. Requests to the control interface go
to :mod:`.routes`.
"""

from __future__ import annotations

import difflib
import json
import re
from functools import cache
from io import BytesIO
from socket import SHUT_RDWR
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

import msgspec
import structlog
from botocore.session import Session
from werkzeug.wrappers import Request, Response

from karpenter_local.aws import eks, quotas
from karpenter_local.aws.account import Account, RecordedCall
from karpenter_local.aws.commitments import SAVINGS_PLANS
from karpenter_local.aws.faults import LoseAnswer, RefuseCall
from karpenter_local.aws.identity import KEYS, AwsCaller, caller_of, identify, owner_of
from karpenter_local.aws.prices import describe_services, get_products
from karpenter_local.aws.routes import PREFIX, ControlRoutes
from karpenter_local.aws.wire import REST, AwsError, answer, parameters, rest_call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Operation = Callable[[Account, Mapping[str, Any]], dict[str, Any]]

log = structlog.stdlib.get_logger(__name__)

_CREDENTIAL: Final = re.compile(rf"Credential={KEYS.pattern}/\d+/(?P<region>[^/]+)/(?P<service>[^/]+)/")
_CODE: Final = re.compile(rb'<Code>([\w.]+)</Code>|"__type": ?"(?:[^"]*#)?([\w.]+)"')
_SHIFTS: Final = "GetManagedResource"
_AUTH_FAILURE: Final = RefuseCall(
    code="AuthFailure",
    message="AWS was not able to validate the provided access credentials",
    status=401,
)
_JSON: Final = {"Content-Type": "application/x-amz-json-1.1"}
_FAILED: Final = 400
_UNKNOWN: Final = "InvalidAction"


class ResponseLost(ConnectionError):  # noqa: N818  says what has happened
    """An answer is lost on request, where there is no connection that could be closed."""


class AwsFrontend:
    """Stands before moto."""

    def __init__(self, imitation: Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]) -> None:
        self._imitation = imitation
        self.routes = ControlRoutes()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        request = Request(environ)
        if request.path.startswith(PREFIX):
            return self.routes.answer(request)(environ, start)
        signed = _CREDENTIAL.search(request.headers.get("Authorization", ""))
        caller = caller_of(signed["key"]) if signed else None
        service = signed["service"] if signed else "sts"
        if signed and caller is not None and signed["region"] not in _regions():
            return _refusal(service, _no_region(signed["region"], caller.account.region))(environ, start)
        if service == "sts" or caller is None:
            said = self._identify(request, caller) if service == "sts" else _refusal("", _AUTH_FAILURE)
            return said(environ, start)
        account = caller.account
        environ["HTTP_X_MOTO_ACCOUNT_ID"] = account.number
        call = _call(request, service, caller)
        account.record(call)
        fault = account.faults.pick(call.operation)
        if isinstance(fault, RefuseCall):
            account.refused(call, fault.code)
            return _refusal(call.service, fault)(environ, start)
        answered = self._answer(account, call, request, start)
        token = str(call.parameters.get("ClientToken", ""))
        if isinstance(fault, LoseAnswer) or (token and token in _lost(account)):
            _lost(account).add(token)
            list(answered)
            if "werkzeug.socket" not in environ:
                raise ResponseLost
            environ["werkzeug.socket"].shutdown(SHUT_RDWR)
            return []
        return answered

    @staticmethod
    def _identify(request: Request, caller: AwsCaller | None) -> Response:
        """Answer who a caller is, or give out the credentials of a role."""
        call = _call(request, "sts", caller)
        account = owner_of(str(call.parameters.get("RoleArn", "")))
        account = account or (caller.account if caller is not None else None)
        if account is None or call.operation not in _STS:
            return _refusal("", _AUTH_FAILURE)
        call = msgspec.structs.replace(call, time=account.now())
        account.record(call)
        fault = account.faults.pick(call.operation)
        if isinstance(fault, RefuseCall):
            account.refused(call, fault.code)
            return _refusal("iam", fault)
        return _answered(lambda _, said: identify(caller, call.operation, said), account, call, request)

    def _answer(
        self, account: Account, call: RecordedCall, request: Request, start: Callable[..., Any]
    ) -> Iterable[bytes]:
        environ = request.environ
        if call.operation == _SHIFTS:
            body = json.dumps({"arn": call.parameters["resourceIdentifier"], "zonalShifts": account.shifts})
            return Response(body, 200, {"Content-Type": "application/json"})(environ, start)
        operation = _beside(call.service, call.operation, call.parameters)
        if operation is not None:
            return _answered(operation, account, call, request)(environ, start)
        return self._imitated(account, call, environ, start)

    def _imitated(
        self, account: Account, call: RecordedCall, environ: dict[str, Any], start: Callable[..., Any]
    ) -> Iterable[bytes]:
        told: list[str] = []

        def begin(status: str, headers: Any, *more: Any) -> Any:
            told.append(status)
            told.extend(value for key, value in headers if key.lower() == "x-amzn-errortype")
            return start(status, headers, *more)

        try:
            answered = self._imitation(environ, begin)
        except Exception as error:  # noqa: BLE001  whatever moto fails by: it does not know the operation
            why = f"{call.service}:{call.operation} is not supported by the embedded AWS: {error!r}"
            log.warning("call.not_supported", operation=call.operation, because=repr(error))
            account.refused(call, _UNKNOWN)
            return _refusal(call.service, RefuseCall(code=_UNKNOWN, message=escape(why)))(environ, start)
        if not told or int(told[0].partition(" ")[0]) < _FAILED:
            return answered
        body = b"".join(answered)
        found = _CODE.search(body)
        account.refused(call, (found[1] or found[2]).decode() if found else told[-1])
        return [body]


_PRICING: Final = {"DescribeServices": describe_services, "GetProducts": get_products}
_STS: Final = frozenset({"GetCallerIdentity", "AssumeRole", "AssumeRoleWithWebIdentity"})


def _beside(service: str, operation: str, said: Mapping[str, Any]) -> Operation | None:
    """Return what answers an operation in the place of moto, if anything does."""
    if service == "eks":
        ours = operation != "UpdateClusterConfig" or "accessConfig" in said
        return eks.OPERATIONS.get(operation) if ours else None
    if service == "pricing":
        return _PRICING.get(operation)
    if service == "savingsplans":
        return SAVINGS_PLANS.get(operation) or _unknown(operation)
    if service == "servicequotas":
        return quotas.OPERATIONS.get(operation) or _unknown(operation)
    if service == "cloudformation":
        from karpenter_local.aws.cloudformation.operations import OPERATIONS  # noqa: PLC0415  only who uses it

        return OPERATIONS.get(operation) or _unknown(operation)
    return None


@cache
def _regions() -> frozenset[str]:
    """Return the regions that AWS has, as the SDK and moto know them."""
    known = Session()
    return frozenset(
        region
        for partition in known.get_available_partitions()
        for region in known.get_available_regions("ec2", partition)
    )


def _no_region(name: str, home: str) -> RefuseCall:
    """Refuse a region that does not exist; in AWS no host has its name."""
    close = [home, *difflib.get_close_matches(name, sorted(_regions() - {home}), n=2, cutoff=0.0)]
    message = f"there is no region {name!r}; there are {', '.join(close)} and other regions of AWS"
    return RefuseCall(code="InvalidRegion", message=message)


def _unknown(operation: str) -> Operation:
    def refuse(account: Account, said: Mapping[str, Any]) -> dict[str, Any]:
        del account, said
        raise AwsError(_UNKNOWN, f"{operation} is not supported by the embedded AWS")

    return refuse


def _answered(operation: Operation, account: Account, call: RecordedCall, request: Request) -> Response:
    said = call.parameters
    try:
        if call.service not in REST:
            said = parameters(call.service, call.operation, request)
        result: dict[str, Any] | AwsError = operation(account, said)
    except AwsError as error:
        account.refused(call, error.code)
        result = error
    return answer(call.service, call.operation, result, request)


def _lost(account: Account) -> set[str]:
    """Return the tokens of requests whose answers are lost for good."""
    lost: set[str] = account.answers.setdefault("", set())
    return lost


def _call(request: Request, service: str, caller: AwsCaller | None) -> RecordedCall:
    """Return what a request asks for; of one that is not understood, only the service."""
    body = request.get_data(cache=True)
    request.environ["wsgi.input"] = BytesIO(body)
    who = caller.principal if caller is not None else ""
    now = caller.account.now() if caller is not None else None
    target = request.headers.get("X-Amz-Target")
    if target:
        return RecordedCall(service, target.rpartition(".")[2], json.loads(body or b"{}"), who, now)
    if service in REST:
        found = rest_call(service, request)
        return (
            RecordedCall(service, found.operation, found.parameters, who, now)
            if found
            else RecordedCall(service, "", {}, who, now)
        )
    form = dict(parse_qsl(body.decode(), keep_blank_values=True))
    return RecordedCall(service, form.get("Action", ""), form, who, now)


def _refusal(service: str, fault: RefuseCall) -> Response:
    if service in {"ec2", ""}:
        body = (
            f"<Response><Errors><Error><Code>{fault.code}</Code><Message>{fault.message}</Message></Error>"
            "</Errors><RequestID>1</RequestID></Response>"
        )
        return Response(body, fault.status, {"Content-Type": "text/xml"})
    if service in {"iam", "sts", "cloudformation"}:
        body = (
            f"<ErrorResponse><Error><Type>Sender</Type><Code>{fault.code}</Code>"
            f"<Message>{fault.message}</Message></Error><RequestId>1</RequestId></ErrorResponse>"
        )
        return Response(body, fault.status, {"Content-Type": "text/xml"})
    headers = {**_JSON, "x-amzn-ErrorType": fault.code}
    return Response(json.dumps({"__type": fault.code, "message": fault.message}), fault.status, headers)
