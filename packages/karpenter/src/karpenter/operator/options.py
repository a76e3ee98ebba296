"""
Settings of the operator: flags, environment variables, feature gates, and what they mean for the core.

A setting has one name, which is its flag (``--batch-max-duration``) and its environment variable
(``BATCH_MAX_DURATION``); the flag wins. A value that is not allowed stops the start with one sentence
that names the setting and what is allowed. Names and defaults are upstream's where upstream has the
setting: https://karpenter.sh/docs/reference/settings/.

The number of concurrent reconciles of a controller grows linearly from its minimum at one core to its
maximum at 60 cores.
"""

from __future__ import annotations

import re
from datetime import UTC, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.manifests import read_document
from karpenter.api.meta import InvalidObject, explain
from karpenter.api.pod import TopologySpreadConstraint
from karpenter.base.duration import DurationError, parse_duration, parse_switch
from karpenter.base.files import read_bounded
from karpenter.base.pretty import did_you_mean, nearest
from karpenter.cloud.cloudprovider import ProviderSetting
from karpenter.core.disruption.payback import Payback
from karpenter.core.disruption.settings import DisruptionContext, DisruptionSettings
from karpenter.core.model.pricing import Commitment, PricePolicy
from karpenter.core.provisioning.nomination import nomination_period
from karpenter.core.provisioning.provisioner import ProvisioningSettings
from karpenter.core.scheduling.build.policy import SchedulingPolicy
from karpenter.core.scheduling.problem import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


# https://karpenter.sh/docs/reference/settings/ (feature gates)
GATES: Final = MappingProxyType(
    {
        "ReservedCapacity": True,
        "NodeRepair": False,
        "SpotToSpotConsolidation": False,
        "NodeOverlay": False,
        "StaticCapacity": False,
        "CapacityBuffer": False,
    }
)
"""Feature gates and their defaults."""


class SettingError(ValueError):
    """A setting that cannot be used; the text names it and what is allowed."""


class UnreadableValueError(SettingError):
    """The text is no value of the setting's type at all, such as a word for a number."""


class Setting(ProviderSetting, frozen=True):
    """One setting."""

    parse: Callable[[str], Any]
    ours: bool = False
    """Whether upstream has no such setting."""


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            near = nearest(text, allowed)
            meant = f"; did you mean {near!r}?" if near else ""
            raise SettingError(f"{text!r} is not one of {', '.join(repr(each) for each in allowed)}{meant}")
        return text

    return parse


def _boolean(text: str) -> bool:
    try:
        return parse_switch(text)
    except ValueError:
        raise UnreadableValueError(f"{text!r} is not true or false") from None


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not _WHOLE_NUMBER.fullmatch(text):
            raise UnreadableValueError(f"{text!r} is not a whole number")
        value = int(text)
        if not low <= value <= high:
            raise SettingError(f"{value} is not between {low} and {high}")
        return value

    return parse


def _number(low: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise UnreadableValueError(f"{text!r} is not a number") from None
        if not value >= low or value == float("inf"):
            raise SettingError(f"{text} is not a number of {low:g} or more")
        return value

    return parse


def _duration(text: str) -> timedelta:
    try:
        value = parse_duration(text)
    except DurationError as error:
        raise UnreadableValueError(str(error)) from None
    if value < timedelta(0):
        raise SettingError(f"{text!r} is negative")
    return value


def _paths(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_gates(text: str) -> Mapping[str, bool]:
    """Return the feature gates after ``Name=bool,Name=bool``; unknown names say nothing here."""
    gates = dict(GATES)
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        try:
            on = parse_switch(value.strip())
        except ValueError:
            raise SettingError(f"{part!r} is not Name=true or Name=false") from None
        if name.strip() in gates:
            gates[name.strip()] = on
    return MappingProxyType(gates)


def _unknown_gates(text: str) -> Iterator[str]:
    for part in filter(None, (part.strip() for part in text.split(","))):
        name = part.partition("=")[0].strip()
        if name not in GATES and name not in _ALWAYS_ON:
            yield f"there is no feature gate {name!r}; {did_you_mean(name, GATES)}"


# https://karpenter.sh/docs/upgrading/upgrade-guide/: drift is no gate since 1.0
_ALWAYS_ON: Final = frozenset({"Drift"})


def parse_scheduler_config(text: str) -> tuple[TopologySpreadConstraint, ...]:
    """Return the default spread constraints of a scheduler configuration, YAML or JSON."""
    if not text.strip():
        return ()
    try:
        config = msgspec.convert(read_document(text, source="the configuration"), _SchedulerConfig)
    except (InvalidObject, msgspec.ValidationError) as error:
        raise SettingError(_in_words(error)) from None
    seen = set()
    for number, each in enumerate(config.pod_topology_spread.default_constraints):
        place = f"podTopologySpread.defaultConstraints[{number}]"
        if each.max_skew <= 0:
            raise SettingError(f"{place}.maxSkew: {each.max_skew} is not greater than 0")
        if not each.topology_key:
            raise SettingError(f"{place}.topologyKey: is required")
        if each.when_unsatisfiable not in {"DoNotSchedule", "ScheduleAnyway"}:
            raise SettingError(f"{place}.whenUnsatisfiable: is not DoNotSchedule or ScheduleAnyway")
        if (each.topology_key, each.when_unsatisfiable) in seen:
            raise SettingError(
                f"{place}: states {each.topology_key} with {each.when_unsatisfiable} a second time"
            )
        seen.add((each.topology_key, each.when_unsatisfiable))
    return tuple(
        TopologySpreadConstraint(
            max_skew=each.max_skew, topology_key=each.topology_key, when_unsatisfiable=each.when_unsatisfiable
        )
        for each in config.pod_topology_spread.default_constraints
    )


def _in_words(error: InvalidObject | msgspec.ValidationError) -> str:
    if isinstance(error, InvalidObject):
        return " ".join(str(error).split())
    place, problem = explain(str(error))
    return f"{place}: {problem}" if place else problem


def parse_factors(text: str) -> Mapping[str, float]:
    """Return by what list prices are multiplied after ``NAME=FACTOR,NAME=FACTOR``."""
    found: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        try:
            found[name.strip()] = _number(0.0)(value.strip())
        except SettingError:
            equals = ""
        if not equals or not name.strip():
            raise SettingError(f"{part!r} is not NAME=FACTOR, such as m7g=0.9 or *=0.95")
    return found


def parse_commitments(text: str) -> tuple[Commitment, ...]:
    """Return the commitments of a file, or of a text that has more than one line or is JSON."""
    if not text.strip():
        return ()
    source = "the commitments"
    if "\n" not in text.strip() and not text.lstrip().startswith("{"):
        source = text
        try:
            text = read_bounded(Path(source)).decode("utf-8")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise SettingError(f"{source} cannot be read: {reason}") from None
    try:
        found = msgspec.convert(read_document(text, source=source), _Commitments).commitments
    except (InvalidObject, msgspec.ValidationError) as error:
        problem = _in_words(error)
        allowed = ": ReservedInstance and SavingsPlan" if ".kind: " in problem else ""
        raise SettingError(f"{source}: {problem}{allowed}") from None
    for number, each in enumerate(found):
        for problem in _commitment_problems(each):
            raise SettingError(f"{source}: commitments[{number}].{problem}")
    return tuple(_dated(each) for each in found)


def _commitment_problems(commitment: Commitment) -> Iterator[str]:
    """Yield which fields of a commitment are wrong, and what is allowed."""
    if commitment.size <= 0:
        yield f"{'hourly' if commitment.kind == 'SavingsPlan' else 'count'}: is not greater than 0"
    if commitment.rate <= 0:
        yield f"rate: {commitment.rate:g} is not greater than 0, such as 0.72"
    if commitment.kind == "ReservedInstance" and not commitment.instance_type:
        yield "instanceType: is required"


def _dated(commitment: Commitment) -> Commitment:
    """Return a commitment whose end has a time zone; UTC where it names none."""
    until = commitment.until
    if until is None or until.tzinfo is not None:
        return commitment
    return msgspec.structs.replace(commitment, until=until.replace(tzinfo=UTC))


class _Commitments(msgspec.Struct, forbid_unknown_fields=True):
    commitments: tuple[Commitment, ...] = ()


class _DefaultConstraint(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str


class _PodTopologySpread(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    default_constraints: list[_DefaultConstraint] = []


class _SchedulerConfig(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    pod_topology_spread: _PodTopologySpread = msgspec.field(default_factory=_PodTopologySpread)


# Go's strconv.ParseInt with base 10: a sign and digits. https://pkg.go.dev/strconv#ParseInt
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_PORT: Final = _integer(0, 65535)

# Names, defaults and meanings are those of https://karpenter.sh/docs/reference/settings/ unless a setting is
# marked as ours.
SETTINGS: Final = (
    Setting(
        "karpenter-service",
        "",
        "accepted so that old charts work; nothing depends on the name of a Service",
        str,
    ),
    Setting("metrics-port", "8080", "port of the Prometheus endpoint", _PORT),
    Setting("health-probe-port", "8081", "port of /healthz and /readyz", _PORT),
    Setting(
        "kube-client-qps",
        "200",
        "requests per second to the API server; Events have a limit of the same size of their own",
        _number(0.001),
    ),
    Setting("kube-client-burst", "300", "requests in one burst to the API server", _integer(1, 10**6)),
    Setting("enable-profiling", "false", "serve profiles beside the metrics", _boolean),
    Setting(
        "disable-controller-warmup",
        "true",
        "accepted, without effect: caches of cluster and cloud are filled once this replica is the leader,"
        " which takes seconds",
        _boolean,
    ),
    Setting("disable-leader-election", "false", "run without a lease; for a single replica only", _boolean),
    Setting(
        "disable-cluster-state-observability",
        "false",
        "leave out metrics of single pods, nodes and pools, and metrics and events of conditions",
        _boolean,
    ),
    Setting("leader-election-name", "karpenter-leader-election", "name of the Lease", str),
    Setting("leader-election-namespace", "", "namespace of the Lease; empty means our own", str),
    Setting(
        "memory-limit",
        "-1",
        "bytes the process may use: from 90 % of them on memory is collected eagerly; -1 means no limit",
        _integer(-1, 2**62),
    ),
    Setting(
        "cpu-requests",
        "1000",
        "millicores of the container: sets the concurrent reconciles of each controller; 0 means 1000",
        _integer(-(2**31), 2**31),
    ),
    Setting("log-level", "info", "debug, info or error", _choice("", "debug", "info", "error")),
    Setting("log-output-paths", "stdout", "where logs go, comma separated", _paths),
    Setting("log-error-output-paths", "stderr", "where errors of logging itself go, comma separated", _paths),
    Setting("batch-max-duration", "10s", "longest wait for more pods before a decision", _duration),
    Setting("batch-idle-duration", "1s", "wait without a new pod that ends a batch", _duration),
    Setting(
        "preference-policy",
        "Respect",
        "treat preferences as required until they fail",
        _choice("Respect", "Ignore"),
    ),
    Setting(
        "min-values-policy",
        "Strict",
        "refuse or lower minValues that cannot be met",
        _choice("Strict", "BestEffort"),
    ),
    Setting("ignore-dra-requests", "true", "leave pods with resource claims alone", _boolean),
    Setting("feature-gates", "", "Name=bool, comma separated", parse_gates),
    Setting(
        "scheduler-config",
        "",
        "YAML or JSON with podTopologySpread.defaultConstraints",
        parse_scheduler_config,
    ),
    Setting(
        "packing-policy",
        "price",
        "price: search for the cheapest nodes; greedy: first fit onto the fewest nodes, as upstream",
        _choice("price", "greedy"),
        ours=True,
    ),
    Setting(
        "consolidation-strategy",
        "classic",
        "classic: Karpenter's methods and limits; global: search for the best set of nodes to consolidate",
        _choice("classic", "global"),
        ours=True,
    ),
    Setting(
        "consolidation-payback",
        "1h",
        "time in which savings must pay for the evictions they cause; 0s disables the check",
        _duration,
        ours=True,
    ),
    Setting(
        "eviction-price",
        "0.001",
        "assumed cost of evicting an ordinary pod, in dollars",
        _number(0.0),
        ours=True,
    ),
    Setting(
        "node-price",
        "0",
        "what a node costs per hour besides the cloud's bill, in dollars, such as the licence of an agent",
        _number(0.0),
        ours=True,
    ),
    Setting(
        "vcpu-price",
        "0",
        "the same for each vCPU of a node, such as a management fee",
        _number(0.0),
        ours=True,
    ),
    Setting(
        "price-factors",
        "",
        "NAME=FACTOR, comma separated: list prices of this account; NAME is an instance family, a capacity"
        " type or *",
        parse_factors,
        ours=True,
    ),
    Setting(
        "commitments",
        "",
        "file with Reserved Instances and Savings Plans, or its text; what they pay for costs nothing more",
        parse_commitments,
        ours=True,
    ),
    Setting(
        "interruption-price",
        "0.05",
        "assumed cost of the interruption of a spot machine, in dollars; counts where the risk is known",
        _number(0.0),
        ours=True,
    ),
    Setting(
        "spot-concentration-price",
        "0.5",
        "share by which the next spot machine counts as dearer once all are of its type in its zone; 0"
        " disables the spread",
        _number(0.0),
        ours=True,
    ),
    Setting(
        "preferred-pool-price",
        "0",
        "share of a node's price that moving its pods back to a NodePool of higher weight is worth, per"
        " hour; 0 leaves them where they are",
        _number(0.0),
        ours=True,
    ),
    Setting(
        "surge-before-evict",
        "false",
        "start the replacements of single replicas, and of pods that may not be evicted, before eviction",
        _boolean,
        ours=True,
    ),
    Setting(
        "steer-scale-down",
        "false",
        "let workloads that scale down delete the pods on the emptiest nodes first",
        _boolean,
        ours=True,
    ),
    Setting(
        "nominate-pods",
        "auto",
        "tell kube-scheduler where pods are planned to run: auto, true or false; auto does so on Kubernetes"
        " 1.30 and newer",
        _choice("auto", "true", "false"),
        ours=True,
    ),
    Setting(
        "flight-record",
        "",
        "file to which events, decisions and effects are recorded; empty means none",
        str,
        ours=True,
    ),
    Setting(
        "shadow",
        "false",
        "decide beside a running Karpenter, write nothing, and compare; see the guide on shadows",
        _boolean,
        ours=True,
    ),
    Setting(
        "shadow-record",
        "",
        "file to which a shadow appends what both sides cost and do; empty means none",
        str,
        ours=True,
    ),
    Setting(
        "flight-record-size",
        "268435456",
        "bytes after which a new flight record is started; the one before is kept",
        _integer(1, 2**50),
        ours=True,
    ),
)
"""Every setting, in the order in which they are documented."""

_BY_NAME: Final = MappingProxyType({each.name: each for each in SETTINGS})


class Settings:
    """The values in force, as attributes named after the settings."""

    def __init__(self, values: Mapping[str, Any], ignored: tuple[str, ...] = ()) -> None:
        self._values = dict(values)
        self.ignored = ignored
        """What the environment says that cannot be read, a sentence each; the defaults are in force."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(name) from None

    def gate(self, name: str) -> bool:
        """Return whether a feature gate is enabled."""
        return bool(self.feature_gates[name])


def parse_settings(
    given: Mapping[str, str], environment: Mapping[str, str] = MappingProxyType({})
) -> Settings:
    """
    Return the settings in force.

    An environment variable that is empty or no value at all counts as not set, and so does a feature gate in
    it that there is not, as for Karpenter; a flag must be right. https://karpenter.sh/docs/reference/settings/

    Raises:
        SettingError: naming the setting, the value and what is allowed.
    """
    for name in given:
        gate = nearest(name, GATES)
        if name == gate or (gate and not nearest(name, _BY_NAME)):
            raise SettingError(f"{gate} is a feature gate: give it as feature-gates={gate}=true")
        if name not in _BY_NAME:
            raise SettingError(f"there is no setting {name!r}; {did_you_mean(name, _BY_NAME)}")
    for problem in _unknown_gates(given.get("feature-gates", "")):
        raise SettingError(f"setting feature-gates: {problem}")
    values, ignored = {}, []
    if "feature-gates" not in given:
        ignored += [f"FEATURE_GATES: {each}" for each in _unknown_gates(environment.get("FEATURE_GATES", ""))]
    for setting in SETTINGS:
        text = given.get(setting.name, environment.get(setting.variable, setting.default))
        try:
            values[setting.field] = setting.parse(text)
        except SettingError as error:
            if setting.name in given or not isinstance(error, UnreadableValueError):
                raise SettingError(f"setting {setting.name}: {error}") from None
            values[setting.field] = setting.parse(setting.default)
            if text:
                ignored.append(f"{setting.variable}: {error}; {setting.default} is in force")
    return Settings(values, tuple(ignored))


def provisioning_settings(settings: Settings) -> ProvisioningSettings:
    """Return what settings mean for decisions of the provisioner."""
    return ProvisioningSettings(
        options=solver_options(settings),
        policy=scheduling_policy(settings),
        nominated_for=nomination_period(settings.batch_max_duration),
    )


def disruption_context(settings: Settings) -> DisruptionContext:
    """Return what settings mean for decisions about disruption."""
    return DisruptionContext(
        options=solver_options(settings),
        policy=scheduling_policy(settings),
        settings=DisruptionSettings(
            strategy=settings.consolidation_strategy,
            spot_to_spot=settings.gate("SpotToSpotConsolidation"),
            static_capacity=settings.gate("StaticCapacity"),
            preferred_price=settings.preferred_pool_price,
            surge=settings.surge_before_evict,
            payback=Payback(
                within=settings.consolidation_payback,
                eviction_price=settings.eviction_price,
                steered=settings.steer_scale_down,
            ),
        ),
    )


def solver_options(settings: Settings) -> Options:
    """Return the solver's options that settings stand for."""
    return Options(
        preferences=settings.preference_policy,
        min_values=settings.min_values_policy,
        packing=settings.packing_policy,
    )


def scheduling_policy(settings: Settings) -> SchedulingPolicy:
    """Return what settings mean for the scheduling problem that is built from a view."""
    return SchedulingPolicy(
        overlays=settings.gate("NodeOverlay"),
        buffers=settings.gate("CapacityBuffer"),
        reserved_capacity=settings.gate("ReservedCapacity"),
        ignore_device_claims=settings.ignore_dra_requests,
        spread_defaults=settings.scheduler_config,
        prices=PricePolicy(
            node=settings.node_price,
            vcpu=settings.vcpu_price,
            factors=settings.price_factors,
            interruption=settings.interruption_price,
            concentration=settings.spot_concentration_price,
            commitments=settings.commitments,
        ),
    )


# Upstream scales the concurrency of its controllers with CPU_REQUESTS, up to 60 cores:
# https://karpenter.sh/docs/reference/settings/
_CORE: Final = 1000
_MAX_CORES: Final = 60


class ConcurrencyRange(msgspec.Struct, frozen=True):
    """The range of concurrent reconciles of a controller."""

    least: int
    most: int

    def at(self, millicores: int) -> int:
        """Return the number of concurrent reconciles; zero millicores count as one core."""
        cores = -(-(millicores if millicores > 0 else _CORE) // _CORE)
        slope = (self.most - self.least) / (_MAX_CORES - 1)
        return min(max(int(slope * (cores - 1)) + self.least, self.least), self.most)


COMMON: Final = ConcurrencyRange(10, 1000)
TERMINATION: Final = ConcurrencyRange(100, 5000)
EVICTION: Final = ConcurrencyRange(100, 5000)
LIFECYCLE: Final = ConcurrencyRange(1000, 5000)
