"""ValidatingAdmissionPolicy and its binding: rules in CEL that writes must keep."""

from typing import Any

import pytest

from tests.contract.kubernetes.api import Api, Object, done, eventually
from tests.contract.kubernetes.objects import deployment, pod
from tests.contract.kubernetes.wire import Answer


def rule(**fields: Any) -> Object:
    """Return a rule about creates of ConfigMaps, unless it says otherwise."""
    about = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    return {**about, **fields}


def policy(
    api: Api, *validations: Object, resources: str = "configmaps", binding: Object | None = None, **spec: Any
) -> None:
    """Bind a policy to the test's namespace, about writes of some resources in the groups core and apps."""
    about = rule(apiGroups=["", "apps"], operations=["*"], resources=resources.split())
    constraints = {"resourceRules": [about], **spec.pop("matchConstraints", {})}
    body = {"matchConstraints": constraints, "validations": list(validations), **spec}
    api.make("validatingadmissionpolicies", {"metadata": {"name": api.unique}, "spec": body})
    here = {"matchLabels": {"kubernetes.io/metadata.name": api.namespace}}
    bound = {
        "policyName": api.unique,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": here},
        **(binding or {}),
    }
    api.make("validatingadmissionpolicybindings", {"metadata": {"name": f"{api.unique}-b"}, "spec": bound})


def config(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Object:
    return {"metadata": {"name": name, **metadata}, "data": data or {}}


def refused(api: Api, body: Object, resource: str = "configmaps") -> Answer:
    """Return the refusal of a write, once the server has taken note of the policy."""
    return eventually(
        lambda: found if (found := api.create(resource, body, dryRun="All")).status >= 400 else None
    )


def words(api: Api, message: str) -> str:
    """Return what the refusal of the ConfigMap ``bad`` says."""
    who = f"ValidatingAdmissionPolicy '{api.unique}' with binding '{api.unique}-b'"
    return f'configmaps "bad" is forbidden: {who} denied request: {message}'


def test_a_write_that_breaks_a_rule_is_refused(api: Api) -> None:
    """The refusal names policy and binding, with the reason and the message of the validation."""
    policy(api, {"expression": "object.metadata.name != 'bad'"})

    answer = refused(api, config("bad"))

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.message == words(api, "failed expression: object.metadata.name != 'bad'")
    assert answer.json["details"]["causes"] == [{"message": answer.message.partition("forbidden: ")[2]}]
    assert api.create("configmaps", config("good")).status == 201


@pytest.mark.parametrize(
    ("validation", "status", "reason", "said"),
    [
        pytest.param({"message": " no "}, 422, "Invalid", "no", id="a message"),
        pytest.param({"message": "no", "reason": "Forbidden"}, 403, "Forbidden", "no", id="a reason"),
        pytest.param(
            {"messageExpression": "'not ' + object.metadata.name"},
            422,
            "Invalid",
            "not bad",
            id="an expression",
        ),
        pytest.param(
            {"message": "no", "messageExpression": "string(object.none)"},
            422,
            "Invalid",
            "no",
            id="one that fails",
        ),
    ],
)
def test_words_of_a_refusal(api: Api, validation: Object, status: int, reason: str, said: str) -> None:
    """A validation brings its own message and reason."""
    policy(api, {"expression": "object.metadata.name != 'bad'", **validation})

    answer = refused(api, config("bad"))

    assert (answer.status, answer.reason) == (status, reason)
    assert answer.message == words(api, said)


def test_variables_params_and_the_request(api: Api) -> None:
    """Expressions see the object before and after, variables, parameters, the namespace and the request."""
    api.make("configmaps", config("limits", {"most": "2"}))
    policy(
        api,
        {
            "expression": "variables.size <= int(params.data.most)",
            "messageExpression": "string(variables.size)",
        },
        {
            "expression": "request.operation != 'UPDATE' || oldObject.data.a == object.data.a",
            "message": "fixed",
        },
        {"expression": "namespaceObject.metadata.name == request.namespace", "message": "elsewhere"},
        {
            "expression": "request.resource.resource == 'configmaps' && request.name != 'odd'",
            "message": "odd",
        },
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        variables=[
            {"name": "data", "expression": "has(object.data) ? object.data : {}"},
            {"name": "size", "expression": "variables.data.size()"},
            {"name": "broken", "expression": "object.none.none"},
        ],
        matchConditions=[{"name": "not-limits", "expression": "object.metadata.name != 'limits'"}],
        binding={"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}},
    )

    three = refused(api, config("bad", {"a": "1", "b": "2", "c": "3"}))
    done(api.create("configmaps", config("good", {"a": "1"})))

    assert three.message == words(api, "3")
    assert api.patch("configmaps", "good", {"data": {"a": "2"}}).message.endswith("denied request: fixed")
    assert api.patch("configmaps", "good", {"data": {"b": "2"}}).status == 200
    assert api.create("configmaps", config("odd", {"a": "1"})).message.endswith("denied request: odd")


@pytest.mark.parametrize(
    ("how", "passes"),
    [
        pytest.param({}, False, id="fails"),
        pytest.param({"failurePolicy": "Ignore"}, True, id="is ignored where the policy says so"),
    ],
)
def test_an_expression_that_cannot_be_evaluated(api: Api, how: Object, passes: bool) -> None:
    """A missing key is a failure unless failures are ignored."""
    policy(
        api,
        {"expression": "object.data.none == '1'"},
        {"expression": "object.metadata.name != 'worse'"},
        **how,
    )
    refused(api, config("worse", {"a": "1"}))

    answer = api.create("configmaps", config("bad", {"a": "1"}))

    assert (answer.status == 201) is passes
    if not passes:
        assert answer.message == words(
            api, "expression 'object.data.none == '1'' resulted in error: no such key: none"
        )


@pytest.mark.parametrize(
    ("conditions", "passes"),
    [
        pytest.param(["object.metadata.name == 'worse'"], True, id="one is false"),
        pytest.param(
            ["object.metadata.none == 'x'", "false || object.metadata.name == 'worse'"], True, id="false wins"
        ),
        pytest.param(
            ["object.metadata.name == 'worse' || object.metadata.none == 'x'"], False, id="one fails"
        ),
        pytest.param(["true", "has(object.metadata.name)"], False, id="all hold"),
    ],
)
def test_match_conditions(api: Api, conditions: list[str], passes: bool) -> None:
    """A policy is asked only where all of its conditions hold."""
    named = [{"name": f"c{i}", "expression": text} for i, text in enumerate(conditions)]
    policy(api, {"expression": "false", "message": "no"}, matchConditions=named)
    refused(api, config("worse"))

    assert (api.create("configmaps", config("bad")).status == 201) is passes


@pytest.mark.parametrize(
    ("body", "constraints", "passes"),
    [
        pytest.param(
            config("bad", labels={"a": "b"}),
            {"objectSelector": {"matchLabels": {"a": "b"}}},
            False,
            id="labels",
        ),
        pytest.param(config("bad"), {"objectSelector": {"matchLabels": {"a": "b"}}}, True, id="other labels"),
        pytest.param(
            config("bad"),
            {"excludeResourceRules": [rule(resourceNames=["bad"])]},
            True,
            id="excluded by name",
        ),
        pytest.param(
            config("bad"),
            {"resourceRules": [rule(apiVersions=["v9"]), rule(resourceNames=["worse"])]},
            True,
            id="a version that is not served",
        ),
        pytest.param(
            config("bad"),
            {"resourceRules": [rule(scope="Cluster"), rule(resourceNames=["worse"])]},
            True,
            id="objects without a namespace",
        ),
        pytest.param(
            config("bad"),
            {"resourceRules": [rule(resources=["*"], apiGroups=["*"], apiVersions=["*"])]},
            False,
            id="everything",
        ),
    ],
)
def test_what_a_policy_is_about(api: Api, body: Object, constraints: Object, passes: bool) -> None:
    """Selectors and rules of the policy choose the writes that it is asked about."""
    policy(api, {"expression": "false", "message": "no"}, matchConstraints=constraints)
    refused(api, config("worse", labels={"a": "b"}))

    assert (api.create("configmaps", body).status == 201) is passes


def test_a_warning_lets_the_write_pass(api: Api) -> None:
    """With the action Warn the write is stored, with a warning; audit annotations say nothing."""
    policy(
        api,
        {"expression": "object.metadata.name != 'bad'", "message": "not good"},
        auditAnnotations=[{"key": "name", "valueExpression": "string(object.metadata.name)"}],
        binding={"validationActions": ["Warn", "Audit"]},
    )

    def warned() -> Answer | None:
        answer = api.create("configmaps", config("bad"), dryRun="All")
        return answer if any(answer.warnings) else None

    answer = eventually(warned)
    who = f"ValidatingAdmissionPolicy '{api.unique}' with binding '{api.unique}-b'"

    assert answer.status == 201
    assert answer.warnings == [f"Validation failed for {who}: not good"]


def test_deletes_evictions_and_scales(api: Api) -> None:
    """A policy is asked about deletes, and about subresources that it names, in the kinds of those."""
    policy(
        api,
        {
            "expression": "request.operation != 'DELETE' || oldObject.metadata.name != 'kept'",
            "message": "kept",
        },
        {
            "expression": "!(has(request.subResource) && request.subResource == 'eviction')"
            " || object.metadata.name != 'kept'",
            "message": "stays",
        },
        {
            "expression": "!(has(request.subResource) && request.subResource == 'scale')"
            " || object.spec.replicas < 3",
            "message": "too many",
        },
        resources="pods pods/eviction deployments/scale",
    )
    api.make("pods", pod("kept"))
    api.make("pods", pod("gone"))
    api.make("deployments", deployment("web", 1))

    answer = eventually(
        lambda: found if (found := api.delete("pods", "kept", dryRun="All")).status == 422 else None
    )
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "kept"}}
    evicted = api.create("pods", eviction, sub="eviction", name="kept")
    scaled = api.patch("deployments", "web", {"spec": {"replicas": 5}}, sub="scale")

    assert answer.message.endswith("denied request: kept")
    assert evicted.message.endswith("denied request: stays")
    assert scaled.message.endswith("denied request: too many")
    assert api.patch("deployments", "web", {"spec": {"replicas": 2}}, sub="scale").status == 200
    assert api.delete("pods", "gone", gracePeriodSeconds=0).status == 200


def test_rights_and_optional_fields(api: Api) -> None:
    """Expressions may ask what the user is allowed to do, and select fields that need not be there."""
    policy(
        api,
        {
            "expression": "authorizer.group('apps').resource('deployments').namespace('default')"
            ".check('create').allowed()",
            "message": "no right",
        },
        {
            "expression": "object.metadata.?labels[?'team'].orValue('none') != 'none'",
            "message": "a team must be named",
        },
        {
            "expression": "request.userInfo.groups.exists(each, each == 'system:masters')",
            "message": "no master",
        },
    )

    answer = refused(api, config("bad"))

    assert answer.message == words(api, "a team must be named")
    assert api.create("configmaps", config("good", labels={"team": "a"})).status == 201


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param(
            {"validations": [{"expression": "object."}]}, "spec.validations[0].expression", id="no CEL"
        ),
        pytest.param(
            {"validations": [{"expression": "nonesuch(1)"}]},
            "spec.validations[0].expression",
            id="no function",
        ),
        pytest.param({}, "spec.validations", id="nothing to check"),
        pytest.param(
            {"validations": [{"expression": "true"}], "matchConstraints": None},
            "spec.matchConstraints",
            id="no rules",
        ),
        pytest.param(
            {"validations": [{"expression": "true"}], "failurePolicy": "Maybe"},
            "spec.failurePolicy",
            id="no policy",
        ),
    ],
)
def test_bad_policies(api: Api, spec: Object, field: str) -> None:
    """A policy that could not be evaluated is refused when it is written."""
    about = rule(apiGroups=["x.example"], resources=["none"])
    body = {"matchConstraints": {"resourceRules": [about]}, **spec}

    answer = api.create("validatingadmissionpolicies", {"metadata": {"name": api.unique}, "spec": body})

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert field in [cause[0] for cause in answer.causes]


def test_bad_bindings(api: Api) -> None:
    """A binding says what follows, and not twice over."""
    spec = {"policyName": "none", "validationActions": ["Deny", "Warn"]}

    answer = api.create("validatingadmissionpolicybindings", {"metadata": {"name": api.unique}, "spec": spec})

    assert answer.status == 422
    assert answer.causes[0][0] == "spec.validationActions"
