"""
The history of a stateful or daemon set: its templates, kept as ControllerRevisions for rollbacks.

The revision with the present template always has the highest number. Old ones that no pod uses any more are
dropped beyond the limit the set gives.
"""

from collections.abc import Collection, Sequence

import msgspec

from karpenter.kube.targets import Plain
from karpenter_local.controllers import plain, templates
from karpenter_local.controllers.informers import BY_OWNER, REVISIONS, Informers
from karpenter_local.controllers.writer import Writer

HASH = "controller-revision-hash"
"""On pods, and on the revisions of daemon sets: which template they are from."""
_HASH_OF_KIND = {"StatefulSet": "controller.kubernetes.io/hash"}


class Revisions(msgspec.Struct, frozen=True):
    """The history of one set, the oldest first; the last one is present."""

    past: tuple[Plain, ...]
    present: Plain

    @property
    def all(self) -> tuple[Plain, ...]:
        return (*self.past, self.present)


def data_of(owner: Plain) -> Plain:
    """Return what a revision holds: a patch that brings the template back."""
    return {"spec": {"template": {**plain.spec_of(owner)["template"], "$patch": "replace"}}}


def template_of(revision: Plain) -> Plain:
    template = dict(revision["data"]["spec"]["template"])
    template.pop("$patch", None)
    return template


def number_of(revision: Plain) -> int:
    return int(revision.get("revision", 0))


def find_present(owner: Plain, known: Sequence[Plain]) -> Plain | None:
    template = plain.spec_of(owner)["template"]
    return next((each for each in known if templates.same(template_of(each), template)), None)


def new_revision(owner: Plain, *, number: int, collisions: int) -> Plain:
    data = data_of(owner)
    name_hash = templates.short_hash(data, collisions)
    labels = (plain.spec_of(owner)["template"].get("metadata") or {}).get("labels") or {}
    return {
        "metadata": {
            "name": f"{plain.name_of(owner)}-{name_hash}",
            "namespace": plain.namespace_of(owner),
            "labels": {**labels, _HASH_OF_KIND.get(owner["kind"], HASH): name_hash},
            "annotations": {
                key: value
                for key, value in plain.annotations_of(owner).items()
                if key != "kubectl.kubernetes.io/last-applied-configuration"
            },
            "ownerReferences": [plain.reference_to(owner)],
        },
        "data": data,
        "revision": number,
    }


def superfluous(owner: Plain, past: Sequence[Plain], in_use: Collection[str]) -> list[Plain]:
    """
    Return the past revisions beyond the limit that no pod uses, the oldest first; `in_use` holds names or
    hashes.
    """
    limit = int(plain.spec_of(owner).get("revisionHistoryLimit", 10))
    idle = [
        each
        for each in past
        if plain.name_of(each) not in in_use and plain.labels_of(each).get(HASH) not in in_use
    ]
    return idle[: max(0, len(idle) - limit)]


class ControllerHistory:
    """Reads and writes the revisions of sets."""

    def __init__(self, informers: Informers, writer: Writer) -> None:
        self._revisions = informers.revisions
        self._writer = writer

    async def sync(self, owner: Plain, *, collisions: int = 0) -> Revisions:
        """Return the owner's history, with its present template made or brought to the front."""
        known = sorted(self._revisions.store.find(BY_OWNER, plain.uid_of(owner)), key=number_of)
        namespace = plain.namespace_of(owner)
        present = find_present(owner, known)
        highest = number_of(known[-1]) if known else 0
        if present is None:
            body = new_revision(owner, number=highest + 1, collisions=collisions)
            present = await self._writer.create(REVISIONS, body, namespace=namespace)
        elif number_of(present) < highest:
            change = {"revision": highest + 1}
            moved = await self._writer.merge(REVISIONS, plain.name_of(present), change, namespace=namespace)
            present = moved or present
        past = tuple(each for each in known if plain.name_of(each) != plain.name_of(present))
        return Revisions(past, present)

    async def trim(self, owner: Plain, revisions: Revisions, in_use: Collection[str]) -> None:
        for each in superfluous(owner, revisions.past, in_use):
            await self._writer.delete(
                REVISIONS, plain.name_of(each), namespace=plain.namespace_of(each), uid=plain.uid_of(each)
            )
