"""
The ValidatingAdmissionPolicy plugin: rules in CEL that a write must keep, where a binding says so.

A policy matches a write by its resource rules, its selectors and its match conditions; each binding narrows
that, and says what follows where a validation fails: the write is refused, or answered with a warning. The
variables of a policy are put into the expressions that use them, so that one that is not needed is never
evaluated. Audit annotations are evaluated and kept nowhere, because there is no audit log.
See https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/

Not asked: policies about reviews, bindings of pods to nodes, and connections.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from karpenter.api.meta import InvalidObject
from karpenter.api.schema import cel
from karpenter_local.apiserver import access, errors
from karpenter_local.apiserver.access import UserInfo
from karpenter_local.apiserver.resources import APIResource
from karpenter_local.apiserver.selectors import from_object

if TYPE_CHECKING:
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.entry import Entry, Object
    from karpenter_local.apiserver.store import ObjectStore

GROUP = "admissionregistration.k8s.io"
POLICIES = f"validatingadmissionpolicies.{GROUP}"
BINDINGS = f"validatingadmissionpolicybindings.{GROUP}"
# The reasons that a validation may give, and their HTTP status:
# https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}
_INVALID = 422
_LONGEST_MESSAGE = 5 * 1024
_VARIABLE = re.compile(
    r"\b[rR]'[^']*'|\b[rR]\"[^\"]*\"|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\""
    r"|(?<![\w.])variables\.(?P<name>[A-Za-z_]\w*)",
    re.DOTALL,
)
Functions = Mapping[str, Callable[..., Any]]


class AdmissionAttributes(msgspec.Struct, frozen=True, kw_only=True):
    """A write as rules and expressions see it."""

    operation: str
    """``CREATE``, ``UPDATE`` or ``DELETE``."""
    resource: APIResource
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    object: dict[str, Any] | None
    old: dict[str, Any] | None
    user: UserInfo
    dry_run: bool = False

    @property
    def kind(self) -> dict[str, str]:
        """The kind of the body, which for some subresources is not that of the resource."""
        body = self.object or self.old or {}
        api_version = body.get("apiVersion") or self.resource.api_version
        group, _, version = api_version.rpartition("/")
        return {"group": group, "version": version, "kind": body.get("kind") or self.resource.kind}

    def request(self) -> dict[str, Any]:
        """Return the variable ``request``; what is empty is absent, as in an AdmissionReview."""
        resource = {
            "group": self.resource.group,
            "version": self.resource.version,
            "resource": self.resource.plural,
        }
        found = {
            "kind": self.kind,
            "resource": resource,
            "subResource": self.subresource,
            "requestKind": self.kind,
            "requestResource": resource,
            "requestSubResource": self.subresource,
            "name": self.name,
            "namespace": self.namespace,
            "operation": self.operation,
            "userInfo": {"username": self.user.name, "groups": list(self.user.groups)},
            "dryRun": self.dry_run,
            "options": {},
        }
        return {key: value for key, value in found.items() if value != ""}


class Denial(msgspec.Struct, frozen=True):
    """A validation that failed, under one binding; without one, the policy itself is at fault."""

    policy: str
    binding: str
    message: str
    reason: str = "Invalid"

    def __str__(self) -> str:
        where = f" with binding '{self.binding}'" if self.binding else ""
        return f"ValidatingAdmissionPolicy '{self.policy}'{where} denied request: {self.message}"


class AdmissionPolicies:
    """The policies of a cluster, read again when they change."""

    def __init__(self, store: ObjectStore) -> None:
        self._policies = store.table(POLICIES)
        self._bindings = store.table(BINDINGS)
        self._functions: Functions = {**cel.FUNCTIONS, **_authorizer_functions(store)}
        self._programs: dict[str, cel.Program] = {}
        self._decoded: dict[str, tuple[int, Object]] = {}

    def __bool__(self) -> bool:
        return bool(self._bindings.entries)

    def validate(self, backend: Backend, asked: AdmissionAttributes) -> list[str]:
        """
        Return the warnings that a write is answered with.

        Raises:
            APIStatusError: a policy denies it.
        """
        if asked.resource.group == GROUP:
            return []  # a policy could otherwise keep itself from being mended
        warnings: list[str] = []
        denials: list[Denial] = []
        for policy in self._read(self._policies.entries):
            bindings = [
                each
                for each in self._read(self._bindings.entries)
                if each["spec"].get("policyName") == policy["metadata"]["name"]
            ]
            if bindings and _matches(backend, policy["spec"].get("matchConstraints"), asked):
                for binding in bindings:
                    if _matches(backend, binding["spec"].get("matchResources"), asked):
                        self._ask(backend, policy, binding, asked, warnings=warnings, denials=denials)
        if denials:
            raise _refusal(asked, denials[0])
        return warnings

    def _read(self, entries: Mapping[str, Entry]) -> Iterator[Object]:
        for key in sorted(entries):
            entry = entries[key]
            place = f"{id(entries)}/{key}"
            known = self._decoded.get(place)
            if known is None or known[0] != entry.revision:
                known = self._decoded[place] = (entry.revision, entry.object())
            yield known[1]

    def _ask(
        self,
        backend: Backend,
        policy: Object,
        binding: Object,
        asked: AdmissionAttributes,
        *,
        warnings: list[str],
        denials: list[Denial],
    ) -> None:
        name, under = policy["metadata"]["name"], binding["metadata"]["name"]
        actions = binding["spec"].get("validationActions") or ()
        try:
            params = _params(backend, policy, binding, asked)
        except _Misconfigured as error:
            if policy["spec"].get("failurePolicy") != "Ignore":
                denials.append(Denial(name, under, f"failed to configure binding: {error}"))
            return
        for param in params:
            evaluation = _Evaluation(self, policy["spec"], _inputs(backend, asked, param))
            for message, reason in evaluation.failures():
                if "Deny" in actions:
                    denials.append(Denial(name, under, message, reason))
                if "Warn" in actions:
                    where = f"ValidatingAdmissionPolicy '{name}' with binding '{under}'"
                    warnings.append(f"Validation failed for {where}: {message}")

    def run(self, source: str, variables: Mapping[str, str], inputs: dict[str, Any]) -> Any:
        """
        Return what an expression says.

        Raises:
            RuleFailed: it cannot be evaluated.
        """
        whole = inline(source, variables)
        program = self._programs.get(whole)
        try:
            if program is None:
                program = self._programs[whole] = cel.compile_with(whole, self._functions)
        except InvalidObject as error:
            raise cel.RuleFailed(f"compilation error: {error.problem}") from error
        return program.run(inputs)


class _Evaluation:
    """One policy about one write, with one parameter."""

    def __init__(self, policies: AdmissionPolicies, spec: Object, inputs: dict[str, Any]) -> None:
        self._policies = policies
        self._spec = spec
        self._inputs = inputs
        self._ignores = spec.get("failurePolicy") == "Ignore"
        self._variables = {each["name"]: each["expression"] for each in spec.get("variables") or ()}

    def failures(self) -> Iterator[tuple[str, str]]:
        """Yield message and reason of every validation that fails, or cannot be evaluated and must be."""
        unevaluated = self._unmatched()
        if unevaluated is None:
            return
        if not unevaluated:
            for validation in self._spec.get("validations") or ():
                try:
                    holds = self._run(validation["expression"])
                except cel.RuleFailed as error:
                    unevaluated.append(_failed(validation["expression"], error))
                    continue
                if holds is not True:
                    yield self._message(validation), validation.get("reason") or "Invalid"
            for annotation in self._spec.get("auditAnnotations") or ():
                try:
                    self._run(annotation["valueExpression"])
                except cel.RuleFailed as error:
                    unevaluated.append(_failed(annotation["valueExpression"], error))
        if unevaluated and not self._ignores:
            for problem in unevaluated:
                yield problem, "Invalid"

    def _unmatched(self) -> list[str] | None:
        """Return None where a match condition is false, and otherwise why some could not be evaluated."""
        problems = list[str]()
        for condition in self._spec.get("matchConditions") or ():
            try:
                if self._run(condition["expression"]) is False:
                    return None
            except cel.RuleFailed as error:
                problems.append(_failed(condition["expression"], error))
        return [f"[{', '.join(problems)}]"] if len(problems) > 1 else problems

    def _run(self, source: str) -> Any:
        return self._policies.run(source, self._variables, self._inputs)

    def _message(self, validation: Object) -> str:
        given = validation.get("messageExpression")
        if given:
            try:
                text = self._run(given)
            except cel.RuleFailed:
                text = ""
            if isinstance(text, str) and text.strip() and "\n" not in text.strip():
                said = text.strip()
                if len(said.encode()) <= _LONGEST_MESSAGE:
                    return said
        said = (validation.get("message") or "").strip()
        return said or f"failed expression: {validation['expression'].strip()}"


def _failed(source: str, error: cel.RuleFailed) -> str:
    return f"expression '{source}' resulted in error: {error}"


def inline(source: str, variables: Mapping[str, str], *, depth: int = 0) -> str:
    """Return an expression with the policy's variables put in; texts in quotes stay as they are."""
    if not variables or "variables." not in source or depth > len(variables):
        return source

    def put_in(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None or name not in variables:
            return match[0]
        return f"({inline(variables[name], variables, depth=depth + 1)})"

    return _VARIABLE.sub(put_in, source)


def _refusal(asked: AdmissionAttributes, denial: Denial) -> errors.APIStatusError:
    fault = errors.forbidden(asked.resource, asked.name, str(denial))
    fault.reason = denial.reason
    fault.code = _CODES.get(denial.reason, _INVALID)
    fault.details = {**(fault.details or {}), "causes": [{"message": str(denial)}]}
    return fault


def _inputs(backend: Backend, asked: AdmissionAttributes, param: Object | None) -> dict[str, Any]:
    namespace = None
    if asked.namespace:
        namespace = backend.read("namespaces", "", asked.namespace)
    return {
        "object": asked.object,
        "oldObject": asked.old,
        "request": asked.request(),
        "params": param,
        "namespaceObject": namespace,
        "authorizer": {"user": asked.user.name, "groups": list(asked.user.groups)},
    }


def _matches(backend: Backend, criteria: Object | None, asked: AdmissionAttributes) -> bool:
    if criteria is None:
        return True
    if not _namespace_matches(backend, criteria.get("namespaceSelector"), asked):
        return False
    selector = from_object(criteria.get("objectSelector")) or ()
    bodies = [body for body in (asked.object, asked.old) if body is not None]
    if selector and not any(all(each.matches(_labels(body)) for each in selector) for body in bodies):
        return False
    versions = {asked.resource.version}
    if criteria.get("matchPolicy") != "Exact":
        same = (asked.resource.group, asked.resource.plural)
        versions |= {each.version for each in backend.registry if (each.group, each.plural) == same}
    if any(_rule_matches(rule, asked, versions) for rule in criteria.get("excludeResourceRules") or ()):
        return False
    rules = criteria.get("resourceRules") or ()
    return not rules or any(_rule_matches(rule, asked, versions) for rule in rules)


def _labels(body: Object) -> dict[str, str]:
    found: dict[str, str] = (body.get("metadata") or {}).get("labels") or {}
    return found


def _namespace_matches(backend: Backend, given: Object | None, asked: AdmissionAttributes) -> bool:
    selector = from_object(given) or ()
    if not selector:
        return True
    if asked.resource.table == "namespaces" and not asked.subresource:
        body = asked.object or asked.old or {}
        return all(each.matches(_labels(body)) for each in selector)
    if not asked.namespace:
        return True
    entry = backend.store.get("namespaces", asked.namespace)
    return entry is None or all(each.matches(entry.labels) for each in selector)


def _rule_matches(rule: Object, asked: AdmissionAttributes, versions: set[str]) -> bool:
    resource = asked.resource
    scope = rule.get("scope") or "*"
    namespaced = resource.namespaced
    names = rule.get("resourceNames") or ()
    groups, operations = rule.get("apiGroups") or (), rule.get("operations") or ()
    stated = rule.get("apiVersions") or ()
    return (
        (scope == "*" or (scope == "Namespaced") == namespaced)
        and ("*" in operations or asked.operation in operations)
        and ("*" in groups or resource.group in groups)
        and ("*" in stated or not versions.isdisjoint(stated))
        and any(_names(each, resource.plural, asked.subresource) for each in rule.get("resources") or ())
        and (not names or asked.name in names)
    )


def _names(given: str, plural: str, subresource: str) -> bool:
    resource, _, sub = given.partition("/")
    return resource in {"*", plural} and sub in {"*", subresource}


class _Misconfigured(ValueError):  # noqa: N818  reads as what is the matter
    """The parameters of a policy cannot be had."""


def _params(
    backend: Backend, policy: Object, binding: Object, asked: AdmissionAttributes
) -> list[Object | None]:
    kind, ref = policy["spec"].get("paramKind"), binding["spec"].get("paramRef")
    if not kind or not ref:
        return [None]
    group, _, version = kind.get("apiVersion", "").rpartition("/")
    resource = next(
        (
            each
            for each in backend.registry
            if (each.group, each.version, each.kind) == (group, version, kind["kind"])
        ),
        None,
    )
    if resource is None:
        raise _Misconfigured(
            f"failed to find resource referenced by paramKind: '{kind['apiVersion']}, Kind={kind['kind']}'"
        )
    namespace = (ref.get("namespace") or asked.namespace) if resource.namespaced else ""
    if resource.namespaced and not namespace:
        raise _Misconfigured(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        )
    table = backend.store.table(backend.kept(resource).table)
    selector = from_object(ref.get("selector")) or ()
    found: list[Object | None] = []
    for key in table.between(namespace) if namespace else list(table.entries):
        entry = table.entries[key]
        wanted = (
            entry.name == ref["name"] if ref.get("name") else all(s.matches(entry.labels) for s in selector)
        )
        if wanted:
            found.append(backend.outgoing(resource, entry.object()))
    if not found and ref.get("parameterNotFoundAction") == "Deny":
        raise _Misconfigured("no params found for policy binding with `Deny` parameterNotFoundAction")
    return found


_ASKED = ("group", "resource", "subresource", "name", "namespace", "path")


def _authorizer_functions(store: ObjectStore) -> Functions:
    """Return the methods of ``authorizer``, which is a map that collects what is asked."""

    def collect(key: str) -> Callable[..., Object]:
        return lambda asked, value: {**asked, key: value}

    def account(asked: Object, namespace: str, name: str) -> Object:
        user = f"system:serviceaccount:{namespace}:{name}"
        return {**asked, "user": user, "groups": list(access.known_groups(user))}

    def check(asked: Object, verb: str) -> Object:
        user = UserInfo(asked["user"], tuple(asked["groups"]))
        wanted = {key: asked[key] for key in _ASKED if key in asked}
        why = access.allows(store, user, access.AuthorizerAttributes(verb=verb, **wanted))
        return {"allowed": bool(why), "reason": why}

    return {
        **{key: collect(key) for key in _ASKED},
        "serviceAccount": account,
        "check": check,
        "allowed": lambda decision: decision["allowed"],
        "reason": lambda decision: decision["reason"],
        "errored": lambda _: False,
        "error": lambda _: "",
    }


_METHODS = (*_ASKED, "serviceAccount", "check", "allowed", "reason", "errored", "error")


def _never(*_: Any) -> None:
    """Stand for a method where an expression is compiled and not run."""


def check_expression(source: str, variables: Mapping[str, str]) -> str:
    """Return why an expression of a policy cannot be compiled, or nothing."""
    known = {**cel.FUNCTIONS, **dict.fromkeys(_METHODS, _never)}
    try:
        cel.compile_with(inline(source, variables), known)
    except InvalidObject as error:
        return f"compilation failed: {error.problem}"
    return ""
