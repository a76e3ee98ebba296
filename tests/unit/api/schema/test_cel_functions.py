"""Functions that Kubernetes adds to CEL."""

import time
from typing import Any

import pytest

from karpenter.api.meta import InvalidObject
from karpenter.api.schema.cel import RuleFailed, compile_program


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'abc 123'.find('[0-9]+')", "123"),
        ("'abc'.find('[0-9]+')", ""),
        ("'a1b22'.findAll('[0-9]+')", ["1", "22"]),
        ("'a1b22'.findAll('[0-9]+', 1)", ["1"]),
        ("'abc'.find('c$')", "c"),
        ("'\u0663'.find('\\\\d')", ""),
        ("'\u0663'.matches('\\\\d')", False),
        ("'a\\n'.matches('a$')", False),
        ("'abc'.charAt(1)", "b"),
        ("'abc'.charAt(3)", ""),
        ("'abcabc'.indexOf('c')", 2),
        ("'abcabc'.indexOf('c', 3)", 5),
        ("'abc'.indexOf('x')", -1),
        ("[1, 2, 1].indexOf(1)", 0),
        ("[1, 2, 1].indexOf(3)", -1),
        ("'abcabc'.lastIndexOf('c')", 5),
        ("[1, 2, 1].lastIndexOf(1)", 2),
        ("[1].lastIndexOf(3)", -1),
        ("['a', 'b'].join()", "ab"),
        ("['a', 'b'].join('-')", "a-b"),
        ("'\u00c4B'.lowerAscii()", "\u00c4b"),
        ("'\u00e4b'.upperAscii()", "\u00e4B"),
        ("'aaa'.replace('a', 'b')", "bbb"),
        ("'aaa'.replace('a', 'b', 2)", "bba"),
        ("'a,b,c'.split(',')", ["a", "b", "c"]),
        ("'a,b,c'.split(',', 2)", ["a", "b,c"]),
        ("'a,b,c'.split(',', 0)", []),
        ("'abc'.split('')", ["a", "b", "c"]),
        ("'abc'.split('', 2)", ["a", "bc"]),
        ("'abc'.substring(1)", "bc"),
        ("'abc'.substring(0, 2)", "ab"),
        ("' a '.trim()", "a"),
        ("'abc'.reverse()", "cba"),
        ("'%s has %d%%, %.2f and %s'.format(['a', 5, 0.5, true])", "a has 5%, 0.50 and true"),
        ("[1, 2, 2].isSorted()", True),
        ("[2, 1].isSorted()", False),
        ("[1, 2].sum()", 3),
        ("[1, 2].min()", 1),
        ("[1, 2].max()", 2),
        ("size('\u00e4b')", 2),
        ("'\u00e4b'.size()", 2),
        ("size([1, 2])", 2),
        ("size({'a': 1})", 1),
        ("'size(' + 'matches('", "size(matches("),
        ("bool('true')", True),
        ("bool('F')", False),
        ("quantity('1Gi') == quantity('1024Mi')", True),
        ("quantity('1Gi').isGreaterThan(quantity('1Mi'))", True),
        ("quantity('1Gi').isLessThan(quantity('1Mi'))", False),
        ("quantity('1').compareTo(quantity('1000m'))", 0),
        ("quantity('1').add(quantity('500m')).compareTo(quantity('1500m'))", 0),
        ("quantity('2').sub(1).asInteger()", 1),
        ("quantity('1500m').isInteger()", False),
        ("quantity('2k').asInteger()", 2000),
        ("quantity('500m').asApproximateFloat()", 0.5),
        ("quantity('-1').sign()", -1),
        ("isQuantity('1Gi')", True),
        ("isQuantity('lots')", False),
    ],
)
def test_functions(expression: str, value: Any) -> None:
    """Each function answers as its documentation says."""
    assert compile_program(expression).run({}) == value


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("self.a", "no such key: a"),
        ("[1][5]", "index out of bounds: 5"),
        ("1 / 0", "division by zero"),
        ("int('x')", "type conversion error from 'string' to 'int'"),
        ("1 + 'a'", "no such overload"),
        ("9223372036854775807 + 1", "Arithmetic overflow in 'add' on 9223372036854775807 and 1"),
        ("'abc'.substring(2, 1)", "2"),
        ("'abc'.charAt(9)", "9"),
        ("quantity('1500m').asInteger()", "cannot convert value to integer"),
        ("unknown", "Undefined variable or function: 'unknown'"),
    ],
)
def test_failures_are_sentences(expression: str, sentence: str) -> None:
    """What cannot be answered is said in a few words."""
    with pytest.raises(RuleFailed) as caught:
        compile_program(expression).run({"self": {}})

    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        pytest.param("a b c", "not a CEL expression", id="no expression at all"),
        pytest.param("(" * 600 + "1" + ")" * 600, "not a CEL expression", id="too many brackets"),
        pytest.param("url('https://example.com').getHost() == ''", "calls getHost, url", id="URLs"),
        pytest.param("cel.bind(x, 1, x + 1) == 2", "calls bind", id="bindings"),
        pytest.param("self.?a.optMap(x, x) == 1", "not a CEL expression", id="optional fields mapped"),
        pytest.param("ip('::1').family() == 6", "calls family, ip", id="addresses"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_at_once(expression: str, problem: str) -> None:
    """An expression that uses what is not here is refused when it is compiled."""
    with pytest.raises(InvalidObject, match=problem):
        compile_program(expression)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("o.?a.b.orValue(3)", 3),
        ("o.?x.?y.orValue(3)", 4),
        ("o.labels[?'a/b'].orValue('')", "c"),
        ("o.?none[?'a/b'].orValue('none')", "none"),
        ('o.labels[?"z"].hasValue()', False),
        ("!o.?a.hasValue()", True),
        ("o.?x.y.value()", 4),
        ("o.?a.orValue(o.?b.orValue(')' + '('))", ")("),
        ("o.list.all(each, each.?p.?q.orValue(false) == false)", True),
        ("o.?list.orValue([]).size() + o.?nothing.orValue([]).size()", 2),
        ("'o.?a' == 'o.?a' ? 1 : 2", 1),
    ],
)
def test_optional_selection(expression: str, value: object) -> None:
    """Fields and keys that need not be there are selected with a question mark."""
    found = {"x": {"y": 4}, "labels": {"a/b": "c"}, "list": [{}, {"p": {"q": False}}]}

    assert compile_program(expression).run({"o": found}) == value


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("a" + ".?b" * 3300, id="with nothing at the end"),
        pytest.param("a" + ".?b" * 3300 + ".hasValue()", id="with an end"),
        pytest.param("a" + "[?'b']" * 1600 + ".hasValue()", id="of keys"),
        pytest.param("a" + ".b" * 4900 + ".?c.hasValue()", id="with a mark at the end"),
    ],
)
def test_an_optional_selection_of_many_steps_is_refused_soon(expression: str) -> None:
    """The time to refuse ten thousand characters of it is not their square."""
    began = time.process_time()
    with pytest.raises(InvalidObject, match="not a CEL expression"):
        compile_program(expression)

    assert time.process_time() - began < 1.0
