"""Which entries a list, a watch or a deletecollection is about, and at which revision."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from karpenter_local.apiserver import errors, fields
from karpenter_local.apiserver.entry import Entry, key_of
from karpenter_local.apiserver.selectors import ListSelector, SelectorRequirement, parse_fields, parse_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.request import RequestInfo


def selector(backend: Backend, call: RequestInfo) -> ListSelector:
    labels_text = call.request.parameter("labelSelector")
    fields_text = call.request.parameter("fieldSelector")
    labels = parse_labels(labels_text) if labels_text else ()
    chosen: list[SelectorRequirement] = []
    if fields_text:
        resource = call.resource
        known = {*fields.known(resource.table), *backend.selectable(resource)}
        if resource.table == "events":
            known |= {f"regarding.{name.partition('.')[2]}" for name in known if name.startswith("involved")}
        parsed = parse_fields(fields_text, known, custom=resource.custom)
        chosen.extend(
            SelectorRequirement(fields.renamed(item.key), item.operator, item.values) for item in parsed
        )
    if call.name:
        chosen.append(SelectorRequirement("metadata.name", "in", frozenset({call.name})))
    return ListSelector(labels, tuple(chosen))


def current(
    backend: Backend, call: RequestInfo, chosen: ListSelector, *, most: int | None = None
) -> list[Entry]:
    """Return the entries that exist now and match, in the API's order; with a selector, at `most` so many."""
    table = backend.store.table(call.resource.table)
    if chosen.only_name is not None and (call.namespace or not call.resource.namespaced):
        entry = table.entries.get(key_of(call.namespace, chosen.only_name))
        found = [] if entry is None else [entry]
    else:
        entries = table.entries
        found = [entries[key] for key in table.between(call.namespace)]
    return list(islice(filter(chosen.matches, found), most)) if chosen else found


def at(backend: Backend, call: RequestInfo, revision: int) -> dict[str, Entry] | None:
    """Return all entries of the call at `revision`, or None when that is forgotten."""
    table = backend.store.table(call.resource.table)
    changes = table.history.since(revision)
    if changes is None:
        return None
    state = {key: table.entries[key] for key in table.between(call.namespace)}
    prefix = f"{call.namespace}/" if call.namespace else ""
    for change in changes:
        if not change.entry.key.startswith(prefix):
            continue
        if change.before is None:
            state.pop(change.entry.key, None)
        else:
            state[change.entry.key] = change.before
    return state


def parse_revision(text: str) -> int:
    """Return a resourceVersion as a number; an empty one is zero."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        why = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise errors.bad_request(f"invalid resource version: resourceVersion: {why}")
    return int(text)


def matching(entries: Sequence[Entry], chosen: ListSelector) -> list[Entry]:
    return [entry for entry in entries if chosen.matches(entry)] if chosen else list(entries)
