import pytest

from karpenter_local.apiserver.bodies import UnreadableBody, parse_json, parse_yaml


def test_repeated_keys_are_named_with_their_place() -> None:
    """A key given twice is reported where it is; the last value counts."""
    body = parse_json(b'{"metadata": {"name": "a", "name": "b"}, "list": [{"x": 1, "x": 2}]}')

    assert body.value["metadata"] == {"name": "b"}
    assert body.repeated == ('duplicate field "metadata.name"', 'duplicate field "list[0].x"')


def test_compact_json_needs_no_second_look() -> None:
    """What encodes to as many bytes as it came in can have lost nothing."""
    assert parse_json(b'{"a":{"b":[1,2]}}').repeated == ()


def test_yaml_says_the_line() -> None:
    """In YAML, people look for lines."""
    assert parse_yaml(b"a: 1\nb:\n  c: 1\n  c: 2\n").repeated == ('line 4: key "c" already set in map',)


def test_json_is_yaml_too() -> None:
    """An apply may come as either."""
    assert parse_yaml(b'{"a": 1}').value == {"a": 1}


def test_a_yaml_body_cannot_blow_up() -> None:
    """A few hundred bytes that stand for millions of values are refused at once."""
    text = "a0: &a0 {x: y}\n" + "".join(
        f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 12)
    )
    with pytest.raises(UnreadableBody, match="too many values"):
        parse_yaml(text.encode())


@pytest.mark.parametrize("body", [b"a: \xff", b"[" * 5000, b"a: !!int x", b"a: [", b"\x00"])
def test_a_broken_yaml_body_is_refused(body: bytes) -> None:
    """With a sentence, whatever is wrong with it."""
    with pytest.raises(UnreadableBody):
        parse_yaml(body)
