"""
Conversion of all documents together: the converter of each kind, and what concerns several objects.

Kubelet settings of pools move to the node class that they name; pools with different settings and one class
get a class each. An object that would be refused after conversion is left as it is, with the reason.
Documents that need no change are returned unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.kinds import KINDS
from karpenter.api.meta import name_of
from karpenter.api.validation.documents import unknown_kind
from karpenter.api.validation.objects import check_object
from karpenter.convert.cdk import convert_props, is_props
from karpenter.convert.findings import (
    ERROR,
    ConversionFinding,
    ConversionOptions,
    ConversionOutcome,
    Findings,
    NewDocument,
    Path,
    Plain,
    at,
    mapping,
)
from karpenter.convert.helm_values import convert_settings, convert_values, default_profile
from karpenter.convert.metrics import convert_metrics
from karpenter.convert.nodeclasses import KIND, convert_beta_class, convert_template
from karpenter.convert.nodegroups import convert_groups
from karpenter.convert.nodepools import (
    PoolOutcome,
    convert_beta_claim,
    convert_beta_pool,
    convert_provisioner,
)
from karpenter.convert.workloads import convert_workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_REFERENCE: Final[Path] = ("spec", "template", "spec", "nodeClassRef", "name")


class OldDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document as it was read."""

    plain: Any
    source: str = ""


class ConvertedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Replacement of a document; nothing when it stays as it is."""

    old: OldDocument
    new: tuple[NewDocument, ...] | None = None
    findings: tuple[ConversionFinding, ...] = ()

    @property
    def plains(self) -> list[Any]:
        return [self.old.plain] if self.new is None else [each.plain for each in self.new]


def convert_documents(
    documents: Iterable[OldDocument], options: ConversionOptions | None = None
) -> list[ConvertedDocument]:
    return _Conversion(list(documents), options or ConversionOptions()).convert()


class _Item(msgspec.Struct):
    """One object, which may be one of a list of objects, and what becomes of it."""

    plain: Any
    outcome: ConversionOutcome | None = None
    pool: Any = None
    """Set for pools: they are finished when all classes are known."""


class _Conversion:
    def __init__(self, documents: Sequence[OldDocument], options: ConversionOptions) -> None:
        self._documents, self._options = documents, options
        self._items = [
            [
                _Item(plain=each)
                for each in (list(document.plain["items"]) if _is_list(document.plain) else [document.plain])
            ]
            for document in documents
        ]
        every = [item.plain for listed in self._items for item in listed if isinstance(item.plain, dict)]
        self._profile = next((found for each in every if (found := default_profile(each))), "")
        self._class_names = {
            str(at(each, ("metadata", "name")))
            for each in every
            if str(each.get("kind")) in {KIND, "AWSNodeTemplate"}
        }

    def convert(self) -> list[ConvertedDocument]:
        """Convert every object, then settle what concerns several."""
        for item in self._every():
            self._first(item)
            item.outcome = _checked(item.outcome)  # what is refused takes no part in what follows
        # Give every class the kubelet settings of its pools, and pools that differ a class of their own.
        for name, pools in self._pools_by_class().items():
            wanted = [(item, item.pool.kubelet if item.pool is not None else None) for item in pools]
            holder = self._class_item(name)
            if all(kubelet is None for _, kubelet in wanted):
                continue
            if holder is None:
                for item, kubelet in wanted:
                    if kubelet is not None:
                        self._refuse(item, name, kubelet)
                continue
            self._settle(holder, name, wanted)
        for item in self._every():
            item.outcome = _checked(item.outcome)
        return [self._result(*each) for each in zip(self._documents, self._items, strict=True)]

    def _every(self) -> list[_Item]:
        return [item for listed in self._items for item in listed if isinstance(item.plain, dict)]

    def _first(self, item: _Item) -> None:
        plain = item.plain
        match (plain.get("apiVersion"), plain.get("kind")):
            case ("karpenter.sh/v1alpha5", "Provisioner"):
                item.pool = convert_provisioner(
                    plain, self._options, profile=self._profile, class_name=self._free_name(plain)
                )
            case ("karpenter.sh/v1beta1", "NodePool"):
                item.pool = convert_beta_pool(plain)
            case ("karpenter.sh/v1beta1", "NodeClaim"):
                item.outcome = _alone(convert_beta_claim(plain))
            case ("karpenter.sh/v1alpha5", "Machine"):
                findings = Findings()
                findings.error(
                    "Machine", "is made by the operator and has no counterpart: delete it from the files"
                )
                item.outcome = ConversionOutcome(findings=tuple(findings.found))
            case ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate"):
                item.outcome = convert_template(plain, self._options, profile=self._profile)
            case ("karpenter.k8s.aws/v1beta1", "EC2NodeClass"):
                item.outcome = convert_beta_class(plain, self._options)
            case _:
                item.outcome = self._other(plain)
        if item.pool is not None:
            item.outcome = _alone(item.pool)

    def _other(self, plain: Plain) -> ConversionOutcome | None:
        unknown = unknown_kind(str(plain.get("apiVersion")), str(plain.get("kind")))
        if unknown is not None:
            findings = Findings()
            findings.error("UnknownKind", unknown)
            return ConversionOutcome(findings=tuple(findings.found))
        if is_props(plain):
            return convert_props(plain, self._options, profile=self._profile)
        for converter in (convert_values, convert_settings, convert_metrics, convert_workload):
            found = converter(plain)
            if found is not None:
                return found
        return convert_groups(plain, self._options)

    def _free_name(self, plain: Plain) -> str:
        name = str(at(plain, ("metadata", "name")) or "")
        if name not in self._class_names:
            return name
        return f"{name}-provider"

    def _pools_by_class(self) -> dict[str, list[_Item]]:
        found: dict[str, list[_Item]] = {}
        for item in self._every():
            is_new = (item.plain.get("apiVersion"), item.plain.get("kind")) == ("karpenter.sh/v1", "NodePool")
            if item.pool is None and not is_new:
                continue
            if item.pool is not None and item.outcome is not None and item.outcome.has_errors:
                continue
            plain = item.pool.pool.plain if item.pool is not None else item.plain
            found.setdefault(str(at(plain, _REFERENCE) or ""), []).append(item)
        return found

    def _class_item(self, name: str) -> tuple[_Item, int] | None:
        """Return the object that holds a class, converted or not, and which of its documents."""
        for item in self._every():
            if item.outcome is not None and item.outcome.has_errors:
                continue
            documents = item.outcome.documents if item.outcome is not None else ()
            for number, each in enumerate(documents):
                if each.plain.get("kind") == KIND and at(each.plain, ("metadata", "name")) == name:
                    return item, number
            is_class = (item.plain.get("apiVersion"), item.plain.get("kind")) == (
                "karpenter.k8s.aws/v1",
                KIND,
            )
            if is_class and not documents and at(item.plain, ("metadata", "name")) == name:
                item.outcome = ConversionOutcome(documents=(NewDocument(plain=item.plain),))
                return item, 0
        return None

    def _settle(self, holder: tuple[_Item, int], name: str, wanted: list[tuple[_Item, Any]]) -> None:
        item, number = holder
        assert item.outcome is not None
        original = item.outcome.documents[number]
        own = at(original.plain, ("spec", "kubelet"))
        plain_pools = any(pool.pool is None for pool, _ in wanted)  # those of v1 use the class as it is
        if own is not None or plain_pools or any(kubelet is None for _, kubelet in wanted):
            kept = own
        else:
            kept = wanted[0][1]
        if kept != own:
            changed = _with_kubelet(original, kept)
            documents = [changed if n == number else each for n, each in enumerate(item.outcome.documents)]
            item.outcome = msgspec.structs.replace(item.outcome, documents=tuple(documents))
        clones: list[tuple[Any, str]] = []
        for pool, kubelet in wanted:
            if pool.pool is None or kubelet == kept or (kubelet is None and own is not None):
                continue
            there = next((clone for settings, clone in clones if settings == kubelet), None)
            if there is None:
                there = f"{name}-{at(pool.plain, ('metadata', 'name'))}"
                clones.append((kubelet, there))
                self._clone(pool, original, there, kubelet)
            _refer(pool, there)

    def _clone(self, pool: _Item, original: NewDocument, name: str, kubelet: Any) -> None:
        plain = {**original.plain, "metadata": {**original.plain["metadata"], "name": name}}
        clone = _with_kubelet(NewDocument(plain=plain), kubelet)
        finding = ConversionFinding(
            level="warn",
            code="ClassPerKubelet",
            message=f"has kubelet settings of its own and so a class of its own: EC2NodeClass {name}",
            field="spec.template.spec.nodeClassRef",
        )
        assert pool.outcome is not None
        pool.outcome = ConversionOutcome(
            documents=(*pool.outcome.documents, clone), findings=(*pool.outcome.findings, finding)
        )

    @staticmethod
    def _refuse(item: _Item, name: str, kubelet: Any) -> None:
        assert item.outcome is not None
        settings = msgspec.json.encode(kubelet, order="sorted").decode()
        finding = ConversionFinding(
            level=ERROR,
            code="ClassMissing",
            message=f"kubelet settings {settings} belong to EC2NodeClass {name}, which is not among the "
            "input: convert both together",
        )
        item.outcome = ConversionOutcome(findings=(*item.outcome.findings, finding))

    @staticmethod
    def _result(document: OldDocument, listed: list[_Item]) -> ConvertedDocument:
        findings = tuple(
            msgspec.structs.replace(each, source=document.source, subject=_subject(item.plain))
            for item in listed
            if item.outcome is not None
            for each in item.outcome.findings
        )
        new = [_new_of(item) for item in listed]
        if all(each is None for each in new):
            return ConvertedDocument(old=document, findings=findings)
        if _is_list(document.plain):
            members: list[Any] = []
            for item, documents in zip(listed, new, strict=True):
                members += [item.plain] if documents is None else [each.plain for each in documents]
            plain = {**document.plain, "items": members}
            return ConvertedDocument(old=document, new=(NewDocument(plain=plain),), findings=findings)
        return ConvertedDocument(old=document, new=new[0], findings=findings)


def _is_list(plain: Any) -> bool:
    return (
        isinstance(plain, dict)
        and str(plain.get("kind", "")).endswith("List")
        and isinstance(plain.get("items"), list)
    )


def _subject(plain: Any) -> str:
    return name_of(plain) if isinstance(plain, dict) and "kind" in plain else ""


def _new_of(item: _Item) -> tuple[NewDocument, ...] | None:
    if item.outcome is None or item.outcome.has_errors or not item.outcome.documents:
        return None
    documents = item.outcome.documents
    return None if len(documents) == 1 and documents[0].plain == item.plain else documents


def _alone(outcome: PoolOutcome) -> ConversionOutcome:
    documents = (outcome.pool,) if outcome.node_class is None else (outcome.pool, outcome.node_class)
    return ConversionOutcome(documents=documents, findings=outcome.findings)


def _with_kubelet(document: NewDocument, kubelet: Any) -> NewDocument:
    spec = {key: value for key, value in mapping(document.plain.get("spec")).items() if key != "kubelet"}
    if kubelet is not None:
        spec["kubelet"] = kubelet
    return msgspec.structs.replace(document, plain={**document.plain, "spec": spec})


def _refer(item: _Item, name: str) -> None:
    assert item.outcome is not None
    pool, *others = item.outcome.documents
    spec = pool.plain["spec"]
    inner = spec["template"]["spec"]
    reference = {**inner["nodeClassRef"], "name": name}
    template = {**spec["template"], "spec": {**inner, "nodeClassRef": reference}}
    changed = msgspec.structs.replace(pool, plain={**pool.plain, "spec": {**spec, "template": template}})
    item.outcome = msgspec.structs.replace(item.outcome, documents=(changed, *others))


def _checked(outcome: ConversionOutcome | None) -> ConversionOutcome | None:
    """Refuse a conversion whose objects a cluster would refuse."""
    if outcome is None or outcome.has_errors:
        return outcome
    problems = [
        ConversionFinding(
            level=ERROR,
            code="Refused",
            message=f"the {name_of(each.plain)} that it becomes would be refused: {problem.message}",
            field=problem.field,
        )
        for each in outcome.documents
        if (kind := KINDS.get((str(each.plain.get("apiVersion")), str(each.plain.get("kind"))))) and kind.ours
        for problem in check_object(kind, each.plain)
    ]
    return msgspec.structs.replace(outcome, findings=(*outcome.findings, *problems)) if problems else outcome
