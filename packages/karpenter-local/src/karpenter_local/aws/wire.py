"""
How requests and answers of AWS look on the wire, by the SDK's own description of each service.

:func:`rest_call` finds out which operation a REST request asks for, :func:`parameters` what it was given, and
:func:`answer` writes a result or an error as the service would. None of it knows what operations do.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import msgspec
from moto.core.errors import COMMON_ERROR_CODES
from moto.core.exceptions import ServiceException
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import determine_request_protocol
from moto.core.serialize import get_serializer_class
from moto.core.utils import get_service_model
from werkzeug.wrappers import Request, Response

if TYPE_CHECKING:
    from moto.core.model import OperationModel, ServiceModel

REST: Final = frozenset({"eks", "arc-zonal-shift", "savingsplans"})
"""Services whose operations are told apart by method and path."""

COMMON_ERROR_CODES.extend(["AccessDenied", "InvalidAction"])  # of every service, and in no description

_NAMES: Final = {"servicequotas": "service-quotas"}
"""What the SDK calls services whose requests are signed for another name."""

_FIELD: Final = re.compile(r"\{(\w+)\+?\}")


class AwsError(ServiceException):
    """A call is refused, with an error code of the service."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)


class RestCall(msgspec.Struct, frozen=True):
    """A REST request, understood."""

    operation: str
    parameters: dict[str, Any]


class _Route(msgspec.Struct, frozen=True):
    method: str
    path: re.Pattern[str]
    operation: str


@cache
def service(name: str) -> ServiceModel:
    return get_service_model(_NAMES.get(name, name))


def rest_call(name: str, request: Request) -> RestCall | None:
    """Return what a REST request asks for; None when the service has no such operation."""
    # Slashes inside of ARNs are escaped, and only so told apart from those between the parts of a path.
    path = urlsplit(request.environ.get("RAW_URI") or request.path).path
    for route in _routes(name):
        found = route.path.fullmatch(path) if route.method == request.method else None
        if found is not None:
            fields = {key: unquote(value) for key, value in found.groupdict().items()}
            operation = service(name).operation_model(route.operation)
            return RestCall(route.operation, _parsed(operation, "rest-json", request, fields))
    return None


def parameters(name: str, operation: str, request: Request) -> dict[str, Any]:
    """Return what an operation was given by a request of the query or JSON protocol."""
    described = service(name)
    protocol = determine_request_protocol(described, request.content_type)
    return _parsed(described.operation_model(operation), protocol, request, {})


def answer(name: str, operation: str, result: dict[str, Any] | AwsError, request: Request) -> Response:
    described = service(name)
    protocol = (
        determine_request_protocol(described, request.content_type) if name not in REST else "rest-json"
    )
    serializer = get_serializer_class(described.service_name, protocol)
    written = serializer(described.operation_model(operation)).serialize(result)
    return Response(written["body"], written["status_code"], dict(written["headers"]))


def _parsed(
    operation: OperationModel, protocol: str, request: Request, fields: dict[str, str]
) -> dict[str, Any]:
    parser = PROTOCOL_PARSERS[protocol](operation)
    parsed: dict[str, Any] = parser.parse(
        {
            "method": request.method,
            "values": request.values,
            "headers": request.headers,
            "body": request.get_data(cache=True),
            "url_path": request.path,
            "url_params": fields,
        }
    )
    return parsed


@cache
def _routes(name: str) -> tuple[_Route, ...]:
    """Return how paths lead to the operations of a service, those with fewer fields first."""
    described = service(name)
    found = []
    for operation in described.operation_names:
        http = described.operation_model(operation).http
        path = http["requestUri"].partition("?")[0]
        pattern = "".join(
            part if number % 2 == 0 else f"(?P<{part}>.+)" if f"{{{part}+}}" in path else f"(?P<{part}>[^/]+)"
            for number, part in enumerate(_FIELD.split(path))
        )
        found.append(_Route(http["method"], re.compile(pattern), operation))
    return tuple(sorted(found, key=lambda each: each.path.groups))
