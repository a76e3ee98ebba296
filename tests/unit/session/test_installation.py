from __future__ import annotations

import pytest

from karpenter.cli.session import told_settings
from karpenter.operator.options import SettingError
from karpenter.session.installation import Installation, find_installation, settings_in_force
from karpenter.session.live import RunningOperator
from tests.unit.changeover.objects import deployment


def told(installation: Installation, problem: str = "", **given: str) -> list[str]:
    """Return what is said about the settings of an operator."""
    named = {name.replace("_", "-"): text for name, text in given.items()}
    in_force = settings_in_force(installation, named)
    return list(told_settings(RunningOperator(installation=installation, in_force=in_force, problem=problem)))


def operator(**environment: str) -> Installation:
    return Installation(deployment="karpenter", environment=environment)


@pytest.mark.parametrize(
    ("installation", "problem", "expected"),
    [
        pytest.param(
            Installation(),
            "",
            ["settings are the defaults, for no Deployment of the operator was found"],
            id="no operator",
        ),
        pytest.param(
            Installation(),
            "403",
            ["settings are the defaults, for the operator's may not be read: 403"],
            id="it may not be read",
        ),
        pytest.param(
            operator(LOG_LEVEL="debug", METRICS_PORT="9000", FEATURE_GATES=""),
            "",
            ["settings of deployment kube-system/karpenter: the defaults"],
            id="settings that change no decision",
        ),
        pytest.param(
            operator(PREFERENCE_POLICY="Ignore", MIN_VALUES_POLICY="Strict"),
            "",
            ["settings of deployment kube-system/karpenter: preference-policy=Ignore"],
            id="settings that change decisions",
        ),
        pytest.param(
            operator(INSTANCE_TYPES_FILE_PATH="/etc/types.json"),
            "",
            [
                "settings of deployment kube-system/karpenter: the defaults",
                "warning: the operator has the instance types of /etc/types.json; name a copy with --catalog",
            ],
            id="instance types of its own",
        ),
    ],
)
def test_whose_settings_decide(installation: Installation, problem: str, expected: list[str]) -> None:
    """Where settings are from is said in one line, with those that make a difference."""
    assert told(installation, problem) == expected


def test_gates_are_given_one_by_one() -> None:
    """A feature gate that is given leaves the operator's others as they are."""
    environment = operator(FEATURE_GATES="NodeRepair=true,NodeOverlay=true")
    given = {"feature-gates": "NodeOverlay=false,StaticCapacity=true"}
    settings = settings_in_force(environment, given).settings

    gates = {name for name, on in settings.feature_gates.items() if on}
    assert {"NodeRepair", "StaticCapacity"} <= gates
    assert "NodeOverlay" not in gates


def test_a_file_that_only_the_operator_has() -> None:
    """What cannot be read here is named, and the rest of the settings hold."""
    environment = operator(COMMITMENTS="/etc/karpenter/none.yaml", PREFERENCE_POLICY="Ignore")
    found = settings_in_force(environment, {})

    assert found.settings.preference_policy == "Ignore"
    assert found.changed == ("preference-policy=Ignore",)
    assert "/etc/karpenter/none.yaml" in " ".join(found.unusable)


def test_what_is_given_must_be_right() -> None:
    """A setting that was typed wrongly is refused, whatever the operator has."""
    with pytest.raises(SettingError, match="there is no setting 'colour'"):
        settings_in_force(operator(), {"colour": "green"})


@pytest.mark.parametrize("aside", ["shadow", "scaled to nothing"])
def test_the_operator_is_the_one_that_decides(aside: str) -> None:
    """A shadow beside Karpenter, or an old Deployment without replicas, is not whose settings hold."""
    other = deployment(environment={"SHADOW": "true"} if aside == "shadow" else {})
    other["metadata"] = {**other["metadata"], "name": "another"}
    other["spec"]["replicas"] = 0 if aside == "scaled to nothing" else 1

    assert find_installation([other, deployment()]).deployment == "karpenter"
    assert find_installation([other]).deployment == "another"
