from __future__ import annotations

import json

import pytest

from karpenter.api.labels import CAPACITY_TYPE, ZONE
from karpenter.cloud.catalogs.kwok_format import parse_catalog
from tests.unit.cloud.catalogs.written import RESERVATION_ID, entry, offering, parse, requirement

MIB = 2**20


def test_a_minimal_type_gets_the_defaults() -> None:
    """Without more, a type has 110 pods, keeps 100m and 10Mi for itself, and can be bought."""
    kind = parse(entry()).types[0]

    assert dict(kind.capacity) == {"cpu": 4000, "memory": 8192 * MIB, "pods": 110}
    assert dict(kind.overhead) == {"cpu": 100, "memory": 10 * MIB}
    assert [(sold.zone, sold.capacity_type, sold.price) for sold in kind.available] == [
        ("zone-1", "on-demand", 0.5)
    ]


def test_what_a_type_states_replaces_the_defaults() -> None:
    """Stated pods and a stated overhead count; an overhead replaces the default as a whole."""
    kind = parse(
        entry(resources={"cpu": "4", "memory": "8Gi", "pods": "5"}, overhead={"memory": "1Gi"})
    ).types[0]

    assert kind.capacity["pods"] == 5
    assert dict(kind.overhead) == {"memory": 1024 * MIB}


@pytest.mark.parametrize(
    ("name", "family", "size"),
    [
        pytest.param("m5.2xlarge", "m5", "2xlarge", id="sizes that EC2 knows come from the name"),
        pytest.param("m5.metal", "m5", "metal", id="so does bare metal"),
        pytest.param("m5.metal-24xl", "m5", "4", id="other sizes are the number of cores"),
        pytest.param("c-4x-amd64-linux", "c", "4", id="a family ends at the first hyphen"),
        pytest.param("gpu-a.large", "gpu", "4", id="whichever of hyphen and dot comes first"),
        pytest.param("small", "s", "4", id="without either, it is the first letter"),
    ],
)
def test_family_and_size_follow_from_the_name(name: str, family: str, size: str) -> None:
    """Labels that a catalogue does not state are derived."""
    labels = parse(entry(name)).types[0].requirements.labels()

    assert labels["karpenter.kwok.sh/instance-family"] == family
    assert labels["karpenter.kwok.sh/instance-size"] == size


@pytest.mark.parametrize(
    ("written", "label"),
    [
        pytest.param("8Gi", "8Gi", id="as it was written"),
        pytest.param("8192Mi", "8Gi", id="in the largest suffix that keeps it whole"),
        pytest.param("8589934592", "8589934592", id="a plain number stays one"),
        pytest.param(2048, "2048", id="numbers are quantities too"),
    ],
)
def test_memory_is_a_label_in_the_suffixes_it_was_written_in(written: object, label: str) -> None:
    """The label repeats the quantity in its canonical text."""
    kind = parse(entry(resources={"cpu": "500m", "memory": written})).types[0]

    assert kind.requirements.labels()["karpenter.kwok.sh/instance-memory"] == label
    assert kind.requirements.labels()["karpenter.kwok.sh/instance-cpu"] == "500m"


def test_labels_of_offerings_are_well_known_and_others_lack_them() -> None:
    """A label that one type names is known for all; a type that does not name it lacks it."""
    catalog = parse(
        entry("plain"),
        entry("fancy", offering("zone-1", "spot", requirement("special", "yes"))),
    )
    plain, fancy = (kind.requirements["special"] for kind in catalog.types)

    assert "special" in catalog.well_known
    assert fancy.values == {"yes"}
    assert plain.operator == "DoesNotExist"


def test_an_offering_lacks_what_only_its_siblings_have() -> None:
    """A node bought through one offering does not get the labels of another."""
    kind = parse(
        entry("mixed", offering("zone-1"), offering("zone-2", "spot", requirement("rack", "r1", "r2")))
    ).types[0]

    assert kind.requirements["rack"].values == {"r1", "r2"}
    assert kind.offerings[0].requirements["rack"].operator == "DoesNotExist"


def test_requirements_of_a_type_hold_for_all_its_offerings() -> None:
    """Labels may be stated once per type; DoesNotExist makes a label known without giving it."""
    catalog = parse(
        entry(
            "labelled",
            requirements=[requirement("tier", "gold"), {"key": "rack", "operator": "DoesNotExist"}],
        ),
        entry("plain"),
    )

    assert catalog.well_known >= {"tier", "rack"}
    assert [kind.requirements["tier"].values for kind in catalog.types] == [{"gold"}, frozenset()]
    assert [kind.requirements["rack"].operator for kind in catalog.types] == ["DoesNotExist"] * 2


def test_what_is_not_available_counts_for_nothing() -> None:
    """Zones and capacity types of a type are those it can be bought in."""
    kind = parse(entry("scarce", offering("zone-1"), offering("zone-2", "spot", Available=False))).types[0]

    assert kind.requirements[ZONE].values == {"zone-1"}
    assert kind.requirements[CAPACITY_TYPE].values == {"on-demand"}
    assert [sold.available for sold in kind.offerings] == [True, False]


@pytest.mark.parametrize(
    ("written", "rate"),
    [
        pytest.param(0.3, 0.3, id="a number"),
        pytest.param("<5%", 0.025, id="the lowest band"),
        pytest.param("10 \u2013 15%", 0.125, id="a band as the advisor prints it"),
        pytest.param(">20%", 0.25, id="the open band"),
    ],
)
def test_interruptions_are_a_number_or_a_published_band(written: object, rate: float) -> None:
    """A band stands for its middle."""
    kind = parse(entry("small", offering(kind="spot", InterruptionRate=written))).types[0]

    assert [each.interruption_rate for each in kind.offerings] == [rate]


def test_a_reserved_offering_carries_its_reservation() -> None:
    """Reserved capacity has an id and a count; nothing else has."""
    kind = parse(
        entry(
            "kept",
            offering("zone-1", "reserved", requirement(RESERVATION_ID, "r-1"), ReservationCapacity=2),
            offering("zone-1", "on-demand", ReservationCapacity=0),
        )
    ).types[0]

    assert [(sold.reservation_id, sold.reservation_capacity) for sold in kind.offerings] == [
        ("r-1", 2),
        ("", None),
    ]


def test_old_spellings_of_labels_are_understood() -> None:
    """Deprecated label keys mean today's ones."""
    sold = {
        "Price": 1,
        "Requirements": [
            requirement("failure-domain.beta.kubernetes.io/zone", "zone-9"),
            requirement(CAPACITY_TYPE, "spot"),
        ],
    }

    assert parse(entry("old", sold)).types[0].offerings[0].zone == "zone-9"


def test_null_is_the_same_as_leaving_out() -> None:
    """Other programs write null where nothing is meant."""
    assert parse(entry(overhead=None, requirements=None)) == parse(entry())


def test_the_rules_for_labels() -> None:
    """The provider's domain is restricted; that of AWS too, once a catalogue uses it."""
    plain = parse(entry())
    aws = parse(entry(requirements=[requirement("karpenter.k8s.aws/instance-cpu", "4")]))

    assert plain.restricted_domains == {"karpenter.kwok.sh"}
    assert aws.restricted_domains == {"karpenter.kwok.sh", "karpenter.k8s.aws"}
    assert plain.reservation_label == RESERVATION_ID


def test_yaml_is_read_where_the_name_says_so() -> None:
    """The same catalogue may be written as YAML."""
    text = json.dumps([entry()])  # JSON is YAML too

    assert parse_catalog(text, file="types.yaml") == parse(entry())
