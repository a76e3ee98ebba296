"""Lists: order, selectors, pages and the past."""

import pytest

from tests.contract.kubernetes.api import Api, done, eventually
from tests.contract.kubernetes.objects import node, pod, secret
from tests.contract.kubernetes.servers import Running


@pytest.fixture
def five(api: Api) -> Api:
    """A namespace with five secrets: a to e, odd ones red, all but e sized."""
    for index, name in enumerate("abcde"):
        labels = {"color": "red" if index % 2 == 0 else "blue"}
        if name != "e":
            labels["size"] = str(index)
        api.make("secrets", secret(name, labels=labels))
    return api


def test_a_list_is_sorted_by_name(api: Api) -> None:
    """The order of a list is the order of keys, not of creation."""
    for name in ("b", "a-1", "c", "a"):
        api.make("secrets", secret(name))

    assert api.names("secrets") == ["a", "a-1", "b", "c"]


def test_a_list_over_all_namespaces_is_sorted_by_namespace_first(api: Api) -> None:
    """Names are sorted within their namespace."""
    for suffix, name in (("-2", "a"), ("-1", "b")):
        other = api.make("namespaces", {"metadata": {"name": api.unique + suffix}})["metadata"]["name"]
        done(api.send("POST", api.path("secrets", namespace=other), secret(name, labels={"of": api.unique})))

    listed = done(api.find(api.everywhere("secrets"), labelSelector=f"of={api.unique}"))

    assert [item["metadata"]["name"] for item in listed["items"]] == ["b", "a"]


def test_the_shape_of_a_list(api: Api) -> None:
    """A list has a kind of its own and a version; its items say no kind."""
    made = api.make("secrets", secret("a"))

    listed = done(api.find("secrets"))

    assert (listed["kind"], listed["apiVersion"]) == ("SecretList", "v1")
    assert int(listed["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])
    [item] = listed["items"]
    assert "kind" not in item


def test_an_empty_list(api: Api) -> None:
    """No items is an empty list, not a missing one."""
    assert done(api.find("secrets"))["items"] == []


def test_a_namespace_that_is_not_there_has_empty_lists(api: Api) -> None:
    """Listing does not check the namespace."""
    assert done(api.send("GET", api.path("secrets", namespace="nowhere")))["items"] == []


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        pytest.param("color=red", "ace", id="equals"),
        pytest.param("color==red", "ace", id="equals twice"),
        pytest.param("color!=red", "bd", id="differs"),
        pytest.param("size!=1", "acde", id="differs also where there is no such label"),
        pytest.param("color in (red,blue)", "abcde", id="in"),
        pytest.param("size in (1, 2)", "bc", id="in, with spaces"),
        pytest.param("size notin (1,2)", "ade", id="notin also where there is no such label"),
        pytest.param("size", "abcd", id="exists"),
        pytest.param("!size", "e", id="does not exist"),
        pytest.param("size>1", "cd", id="greater"),
        pytest.param("size<2", "ab", id="less"),
        pytest.param("color=red,size", "ac", id="and"),
        pytest.param("color=", "", id="equals the empty value"),
        pytest.param("", "abcde", id="nothing selects everything"),
        pytest.param(" color = red ", "ace", id="spaces around"),
    ],
)
def test_label_selectors(five: Api, selector: str, names: str) -> None:
    """Every operator of the selector language."""
    assert "".join(five.names("secrets", labelSelector=selector)) == names


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        pytest.param("a=b,,c", "found ',', expected: identifier after ','", id="two commas"),
        pytest.param(
            "a in b", "unable to parse requirement: found 'b' expected: '('", id="in without parentheses"
        ),
        pytest.param(
            "a in (b", "unable to parse requirement: found '', expected: ',' or ')'", id="open parenthesis"
        ),
        pytest.param("a ~ b", "unable to parse requirement: ", id="an unknown operator"),
        pytest.param("a b=c", "unable to parse requirement: found 'b', expected: in, notin", id="two words"),
        pytest.param("a=b c", "found 'c', expected: ',' or 'end of string'", id="two values"),
        pytest.param("a/b/c=d", "unable to parse requirement: <nil>: Invalid value: ", id="a bad key"),
        pytest.param(
            "size>x",
            "unable to parse requirement: values[0]: Invalid value: ",
            id="greater than a word",
        ),
        pytest.param(
            f"a={'v' * 64}", "unable to parse requirement: values[0][a]: Invalid value: ", id="a long value"
        ),
    ],
)
def test_bad_label_selectors(api: Api, selector: str, message: str) -> None:
    """A selector that cannot be read is a bad request that says where."""
    answer = api.find("secrets", labelSelector=selector)

    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert answer.message.startswith(message)


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        pytest.param("metadata.name=b", "b", id="by name"),
        pytest.param("metadata.name!=b", "acde", id="by another name"),
        pytest.param("metadata.name=b,metadata.name=c", "", id="by two names"),
        pytest.param("type=Opaque", "abcde", id="by type"),
        pytest.param("type=other", "", id="by another type"),
    ],
)
def test_field_selectors(five: Api, selector: str, names: str) -> None:
    """A few fields can be selected by."""
    assert "".join(five.names("secrets", fieldSelector=selector)) == names


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        pytest.param("spec.nodeName=", "a", id="without a node"),
        pytest.param("spec.nodeName=somewhere", "b", id="on a node"),
        pytest.param("status.phase=Pending", "ab", id="by phase"),
        pytest.param("status.phase!=Pending", "", id="by another phase"),
        pytest.param("spec.schedulerName=nobody", "ab", id="by scheduler"),
        pytest.param("spec.restartPolicy=Never", "b", id="by restart policy"),
    ],
)
def test_field_selectors_of_pods(api: Api, selector: str, names: str) -> None:
    """Pods can be selected by what the scheduler and the kubelets ask for."""
    api.make("pods", pod("a"))
    api.make("pods", pod("b", spec={"nodeName": "somewhere", "restartPolicy": "Never"}))

    assert "".join(api.names("pods", fieldSelector=selector)) == names


def test_field_selector_of_nodes(api: Api) -> None:
    """Nodes can be selected by whether they take pods."""
    api.make("nodes", node(api.unique, labels={"of": api.unique}, spec={"unschedulable": True}))

    assert api.names("nodes", fieldSelector="spec.unschedulable=true", labelSelector=f"of={api.unique}") == [
        api.unique
    ]


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        pytest.param(
            "data.x=1",
            '"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
            id="a field that is not offered",
        ),
        pytest.param(
            "metadata.name~1",
            "invalid selector: 'metadata.name~1'; can't understand 'metadata.name~1'",
            id="an unknown operator",
        ),
    ],
)
def test_bad_field_selectors(api: Api, selector: str, message: str) -> None:
    """A field that cannot be selected by is a bad request that says which can."""
    answer = api.find("configmaps", fieldSelector=selector)

    assert (answer.status, answer.reason, answer.message) == (400, "BadRequest", message)


def test_pages(five: Api) -> None:
    """A limit gives a page, a token for the next and a count of what is left, until all is told."""
    first = done(five.find("secrets", limit=2))
    second = done(five.find("secrets", limit=2, **{"continue": first["metadata"]["continue"]}))
    third = done(five.find("secrets", limit=2, **{"continue": second["metadata"]["continue"]}))

    names = [[item["metadata"]["name"] for item in page["items"]] for page in (first, second, third)]
    assert names == [["a", "b"], ["c", "d"], ["e"]]
    assert [page["metadata"].get("remainingItemCount") for page in (first, second, third)] == [3, 1, None]
    assert "continue" not in third["metadata"]


def test_a_page_that_holds_everything(five: Api) -> None:
    """A limit that is not reached gives no token."""
    meta = done(five.find("secrets", limit=5))["metadata"]

    assert "continue" not in meta
    assert "remainingItemCount" not in meta


def test_pages_show_one_moment(five: Api) -> None:
    """What is written between two pages is not seen on the second."""
    first = done(five.find("secrets", limit=2))
    five.make("secrets", secret("bb"))
    done(five.delete("secrets", "d"))

    rest = done(five.find("secrets", **{"continue": first["metadata"]["continue"]}))

    assert [item["metadata"]["name"] for item in rest["items"]] == ["c", "d", "e"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_pages_of_a_selection(five: Api) -> None:
    """A selector goes with a limit; how much is left is then not said."""
    first = done(five.find("secrets", limit=2, labelSelector="color=red"))
    token = first["metadata"]["continue"]
    rest = done(five.find("secrets", limit=2, labelSelector="color=red", **{"continue": token}))

    assert [item["metadata"]["name"] for item in (*first["items"], *rest["items"])] == ["a", "c", "e"]
    assert "remainingItemCount" not in first["metadata"]


def test_a_token_of_a_past_that_is_gone(five: Api, server: Running) -> None:
    """A continue token expires with the history, and the refusal offers a way on."""
    first = done(five.find("secrets", limit=2))
    five.make("secrets", secret("f"))
    server.compact()

    token = first["metadata"]["continue"]

    assert eventually(lambda: five.find("secrets", limit=2, **{"continue": token}).status == 410)
    answer = five.find("secrets", limit=2, **{"continue": token})
    assert (answer.status, answer.reason) == (410, "Expired")
    assert answer.message.startswith(
        "The provided continue parameter is too old to display a consistent list result."
    )
    token = answer.json["metadata"]["continue"]
    rest = done(five.find("secrets", **{"continue": token}))
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c", "d", "e", "f"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        pytest.param({"limit": "x"}, 400, id="a limit that is no number"),
        pytest.param({"continue": "zzz"}, 400, id="a token that is none"),
        pytest.param({"continue": "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ"}, 400, id="a token without a start"),
        pytest.param({"resourceVersion": "abc"}, 400, id="a version that is no number"),
        pytest.param({"resourceVersionMatch": "Exact"}, 422, id="a match without a version"),
        pytest.param({"resourceVersionMatch": "Never", "resourceVersion": "1"}, 422, id="an unknown match"),
        pytest.param(
            {"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422, id="exactly version zero"
        ),
        pytest.param({"timeoutSeconds": "x"}, 400, id="a timeout that is no number"),
    ],
)
def test_bad_list_options(api: Api, query: dict[str, str], status: int) -> None:
    """Options are checked before anything is listed."""
    assert api.find("secrets", **query).status == status


def test_a_list_of_exactly_then(five: Api) -> None:
    """resourceVersionMatch=Exact shows the collection as it was."""
    then = done(five.find("secrets"))["metadata"]["resourceVersion"]
    done(five.delete("secrets", "a"))

    listed = done(five.find("secrets", resourceVersion=then, resourceVersionMatch="Exact"))

    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b", "c", "d", "e"]
    assert listed["metadata"]["resourceVersion"] == then


def test_a_list_not_older_than(five: Api) -> None:
    """resourceVersionMatch=NotOlderThan is at least that fresh."""
    made = five.make("secrets", secret("f"))["metadata"]["resourceVersion"]

    names = five.names("secrets", resourceVersion=made, resourceVersionMatch="NotOlderThan")

    assert "f" in names


def test_a_list_of_the_future(api: Api) -> None:
    """A version that is not yet there times out with an invitation to try again."""
    answer = api.find("secrets", resourceVersion="999999999")

    assert (answer.status, answer.reason) == (504, "Timeout")
    assert answer.message.startswith("Timeout: Too large resource version: 999999999, current: ")
    assert answer.causes == [("", "ResourceVersionTooLarge", "Too large resource version")]
    assert answer.headers["retry-after"] == "1"


def test_a_list_from_the_cache(five: Api) -> None:
    """Version zero is any version; a moment later it is this one."""
    assert eventually(lambda: five.names("secrets", resourceVersion="0") == list("abcde"))
