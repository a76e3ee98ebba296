"""The scale of a workload: how many replicas it has and wants, in one shape for every kind that has some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter_local.apiserver import bodies, errors, options
from karpenter_local.apiserver.admission.policies import AdmissionAttributes
from karpenter_local.apiserver.custom.definition import ScalePaths
from karpenter_local.apiserver.field_errors import invalid
from karpenter_local.apiserver.managed.owners import Conflicts
from karpenter_local.apiserver.managed.tracker import Author
from karpenter_local.apiserver.presenting import reply, warnings
from karpenter_local.apiserver.schema.conform import Mismatch, conform
from karpenter_local.apiserver.schema.types import built_in_types
from karpenter_local.apiserver.tables.columns import dig, selector
from karpenter_local.apiserver.verbs import applying
from karpenter_local.apiserver.verbs.patching import change, languages, read_patch
from karpenter_local.apiserver.writing import WriteOptions, update

if TYPE_CHECKING:
    from karpenter.kube.transport import Response
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.entry import Entry, Object
    from karpenter_local.apiserver.request import RequestInfo
    from karpenter_local.apiserver.views import ResponseView

_BUILT_IN = ScalePaths(spec="spec.replicas", status="status.replicas")
_DEFINITION = "io.k8s.api.autoscaling.v1.Scale"


def scale(backend: Backend, call: RequestInfo, view: ResponseView) -> Response:
    """Show or set how many replicas an object wants."""
    _ = view
    stored = backend.kept(call.resource)
    paths = backend.version(call.resource).scale if call.resource.custom else _BUILT_IN
    assert paths is not None, "a kind without a scale has no such path"
    if call.verb != "get":
        options.check(call)
    wanted = _read(call) if call.verb == "update" else None
    old = backend.entry(stored, call.namespace, call.name)
    if old is None:
        raise errors.not_found(call.resource, call.name)
    value = old.object()
    if call.verb == "get":
        return reply(render(call, paths, value))
    if bodies.media_type(call.request.header("content-type")) == applying.LANGUAGE:
        return _applied(backend, call, paths, old)
    if wanted is None:
        current = render(call, paths, value)
        bodies.check_size(call.request)
        language = bodies.media_type(call.request.header("content-type"))
        if language not in languages(call.resource):
            raise errors.APIStatusError(
                415, "UnsupportedMediaType", "415: Unsupported Media Type", details={}
            )
        body = read_patch(call.request.body, language)
        wanted = _conformed(call, change(language, current, body, built_in_types().definition(_DEFINITION)))
    _check(call, wanted, value)
    _set(value, paths.spec, wanted["spec"].get("replicas", 0))
    intent = WriteOptions(
        manager=call.manager,
        version=call.resource.api_version,
        dry_run=call.dry_run,
        subresource="scale",
    )
    warned = _admit(backend, call, paths, old.object(), value)
    entry = update(backend, stored, value, old, intent)
    return reply(render(call, paths, entry.object()), headers=warnings(warned))


def _applied(backend: Backend, call: RequestInfo, paths: ScalePaths, old: Entry) -> Response:
    """Let a client own the number of replicas, through the scale."""
    given = bodies.parse_yaml(call.request.body).value
    wanted = _conformed(call, given if isinstance(given, dict) else {})
    stored, live = backend.kept(call.resource), old.object()
    _check(call, wanted, live)
    part: Object = {}
    _set(part, paths.spec, wanted["spec"].get("replicas", 0))
    author = Author(call.request.parameter("fieldManager"), call.resource.api_version, "scale")
    try:
        result = backend.owners.apply(stored, live, part, author, force=call.flag("force"))
    except Conflicts as conflicts:
        raise errors.apply_conflict(conflicts.causes) from None
    intent = WriteOptions(
        manager=author.manager, dry_run=call.dry_run, subresource="scale", applied=result.managers
    )
    value = backend.normal(stored, result.value)
    warned = _admit(backend, call, paths, old.object(), value)
    entry = update(backend, stored, value, old, intent)
    return reply(render(call, paths, entry.object()), headers=warnings(warned))


def _admit(backend: Backend, call: RequestInfo, paths: ScalePaths, old: Object, value: Object) -> list[str]:
    """Ask the admission policies about a Scale; return their warnings."""
    if not backend.policies:
        return []
    asked = AdmissionAttributes(
        operation="UPDATE",
        resource=call.resource,
        subresource="scale",
        namespace=call.namespace,
        name=call.name,
        object=render(call, paths, value),
        old=render(call, paths, old),
        user=backend.user(call.request),
        dry_run=call.dry_run,
    )
    return backend.policies.validate(backend, asked)


def render(call: RequestInfo, paths: ScalePaths, value: Object) -> Object:
    meta = value["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas = dig(value, paths.spec)
    spec = {} if not replicas else {"replicas": replicas}
    status: dict[str, Any] = {"replicas": dig(value, paths.status) or 0}
    text = _selector(call, paths, value)
    if text:
        status["selector"] = text
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": spec,
        "status": status,
    }


def _selector(call: RequestInfo, paths: ScalePaths, value: Object) -> str:
    if call.resource.custom:
        return str(dig(value, paths.selector) or "") if paths.selector else ""
    given = dig(value, "spec.selector")
    if call.resource.plural == "replicationcontrollers":
        given = {"matchLabels": given or {}}
    text = selector(given)
    return "" if text == "<none>" else text


def _read(call: RequestInfo) -> Object:
    body = bodies.read(call.request, "Scale").value
    return _conformed(call, body)


def _conformed(call: RequestInfo, value: Object) -> Object:
    try:
        conform(value, built_in_types().definition(_DEFINITION))
    except Mismatch as error:
        raise errors.bad_request(f'Scale in version "v1" cannot be handled as a Scale: {error}') from None
    name = value["metadata"].get("name")
    if not name:
        raise errors.bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        )
    if name != call.name:
        raise errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({call.name})"
        )
    return value


def _check(call: RequestInfo, wanted: Object, value: Object) -> None:
    replicas = wanted["spec"].get("replicas", 0)
    if replicas < 0:
        error = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise errors.invalid("Scale", "autoscaling", call.name, [error])
    revision = wanted["metadata"].get("resourceVersion")
    if revision and revision != value["metadata"]["resourceVersion"]:
        raise errors.conflict(call.resource, call.name)


def _set(value: Object, path: str, number: int) -> None:
    *steps, last = path.split(".")
    for step in steps:
        value = value.setdefault(step, {})
    value[last] = number
