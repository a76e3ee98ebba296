"""
Pods and what makes pods: selectors, affinities, spread, tolerations and annotations that use old names.

Works on any object that holds a pod template at a usual place, whatever its kind. Everything else of the
object stays as it is.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from karpenter.api.labels import DISRUPTED, DO_NOT_DISRUPT, NODEPOOL
from karpenter.convert.findings import (
    ConversionOutcome,
    Findings,
    NewDocument,
    Path,
    Plain,
    at,
    items,
    mapping,
    spell,
)
from karpenter.convert.labels import INSTANCE_PODS, PROVISIONER_NAME, RENAMED_ANNOTATIONS, RENAMED_LABELS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_OLD_TAINT: Final = "karpenter.sh/disruption"
_SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_POD: Final[Path] = ()
_TEMPLATE: Final[Path] = ("spec", "template")
_CRON: Final[Path] = ("spec", "jobTemplate", "spec", "template")
_PLACES: Final[Mapping[str, Path]] = MappingProxyType(
    {"Pod": _POD, "PodTemplate": ("template",), "CronJob": _CRON}
)
_NODE_KINDS: Final = frozenset({"Node"})


def pod_place(plain: Plain) -> Path | None:
    """Return where an object holds a pod or a pod template; None when it holds none."""
    kind = str(plain.get("kind", ""))
    place = _PLACES.get(kind, _TEMPLATE)
    return place if isinstance(at(plain, (*place, "spec", "containers")), list) else None


def convert_workload(plain: Plain) -> ConversionOutcome | None:
    """Return what becomes of a workload or a Node; None when it uses no old name."""
    work = _Workload(plain)
    if str(plain.get("kind")) in _NODE_KINDS:
        work.annotations(("metadata", "annotations"))
    else:
        place = pod_place(plain)
        if place is None:
            return None
        work.annotations((*place, "metadata", "annotations"))
        work.pod_spec((*place, "spec"))
    if not work.findings.found or work.plain == plain:
        findings = tuple(work.findings.found)
        return ConversionOutcome(findings=findings) if findings else None
    new = NewDocument(plain=work.plain, moves=work.moves)
    return ConversionOutcome(documents=(new,), findings=tuple(work.findings.found))


class _Workload:
    """One object that is being changed: every change makes new mappings along its path."""

    def __init__(self, plain: Plain) -> None:
        self.plain = plain
        self.findings = Findings()
        self.moves: dict[Path, Path] = {}

    def annotations(self, path: Path) -> None:
        old = mapping(at(self.plain, path))
        new: Plain = {}
        for key, value in old.items():
            name = RENAMED_ANNOTATIONS.get(key, key)
            if name != key:
                self.findings.info("Renamed", f"annotation {key} is {name} now", spell(path))
                if name in new or name in old:
                    continue
                self.moves[*path, name] = (*path, key)
            new[name] = value
        if str(old.get(_SAFE_TO_EVICT)).lower() == "false" and DO_NOT_DISRUPT not in new:
            self.findings.warn(
                "SafeToEvict",
                f"{_SAFE_TO_EVICT} means nothing to Karpenter: {DO_NOT_DISRUPT} is added beside it",
                spell(path),
            )
            new[DO_NOT_DISRUPT] = "true"
        self._put(path, new)

    def pod_spec(self, path: Path) -> None:
        self._selector((*path, "nodeSelector"))
        affinity = (*path, "affinity")
        terms = (
            *affinity,
            "nodeAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution",
            "nodeSelectorTerms",
        )
        for number, _ in enumerate(items(at(self.plain, terms))):
            self._expressions((*terms, number, "matchExpressions"))
        preferred = (*affinity, "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
        for number, _ in enumerate(items(at(self.plain, preferred))):
            self._expressions((*preferred, number, "preference", "matchExpressions"))
        for name in ("podAffinity", "podAntiAffinity"):
            required = (*affinity, name, "requiredDuringSchedulingIgnoredDuringExecution")
            for number, _ in enumerate(items(at(self.plain, required))):
                self._topology((*required, number, "topologyKey"))
            wanted = (*affinity, name, "preferredDuringSchedulingIgnoredDuringExecution")
            for number, _ in enumerate(items(at(self.plain, wanted))):
                self._topology((*wanted, number, "podAffinityTerm", "topologyKey"))
        for number, _ in enumerate(items(at(self.plain, (*path, "topologySpreadConstraints")))):
            self._topology((*path, "topologySpreadConstraints", number, "topologyKey"))
        self._tolerations((*path, "tolerations"))

    def _selector(self, path: Path) -> None:
        old = mapping(at(self.plain, path))
        new: Plain = {}
        for key, value in old.items():
            name = self._label(key, path)
            if name != key:
                self.moves[*path, name] = (*path, key)
            if name in old and name != key and old[name] != value:
                self.findings.error("Conflict", f"{key} and {name} ask for different values", spell(path))
            new[name] = value
        self._put(path, new)

    def _expressions(self, path: Path) -> None:
        old = items(at(self.plain, path))
        new: list[Any] = []
        for expression in old:
            key = mapping(expression).get("key")
            if key == PROVISIONER_NAME and expression.get("operator") == "DoesNotExist":
                new.append(expression)
                added = {"key": NODEPOOL, "operator": "DoesNotExist"}
                if added not in old:
                    self.findings.info(
                        "Added",
                        f"{NODEPOOL} DoesNotExist is added beside {PROVISIONER_NAME}, which old nodes "
                        "still have",
                        spell(path),
                    )
                    new.append(added)
                continue
            name = self._label(key, path) if isinstance(key, str) else key
            new.append(expression if name == key else {**expression, "key": name})
        self._put(path, new)

    def _label(self, key: str, path: Path) -> str:
        if key == INSTANCE_PODS:
            self.findings.error(
                "InstancePods", f"there is no label {key} any longer: no node matches", spell(path)
            )
        name = RENAMED_LABELS.get(key, key)
        if name != key:
            self.findings.info("Renamed", f"label {key} is {name} now", spell(path))
        return name

    def _topology(self, path: Path) -> None:
        key = at(self.plain, path)
        if isinstance(key, str):
            self._put(path, self._label(key, path))

    def _tolerations(self, path: Path) -> None:
        new: list[Any] = []
        for toleration in items(at(self.plain, path)):
            if mapping(toleration).get("key") != _OLD_TAINT:
                new.append(toleration)
                continue
            self.findings.info(
                "Renamed", f"taint {_OLD_TAINT} is {DISRUPTED} now, without a value", spell(path)
            )
            kept = {k: v for k, v in toleration.items() if k not in {"value", "operator"}}
            changed = {**kept, "key": DISRUPTED, "operator": "Exists"}
            if changed not in items(at(self.plain, path)):
                new.append(changed)
        self._put(path, new)

    def _put(self, path: Path, value: Any) -> None:
        if at(self.plain, path) is not None:
            self.plain = _replaced(self.plain, path, lambda _: value)


def _replaced(plain: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """Return data with what is at a path changed; the data itself stays as it is."""
    if not path:
        return change(plain)
    step, *rest = path
    if isinstance(plain, list):
        assert isinstance(step, int)
        return [_replaced(each, tuple(rest), change) if n == step else each for n, each in enumerate(plain)]
    return {key: _replaced(each, tuple(rest), change) if key == step else each for key, each in plain.items()}
