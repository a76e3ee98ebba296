"""
A release as Helm remembers it, so that what is installed without Helm can be seen and removed with it.

Helm keeps every revision of a release in a Secret: JSON, gzipped, in base64, and that again in base64 as
every Secret is. See https://helm.sh/docs/topics/advanced/#storage-backends. Objects of a release say so in
one label and two annotations; without them `helm upgrade` refuses to take them over.
"""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml

from karpenter.api.manifests import render_documents
from karpenter.base.files import unzip_bounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from karpenter.install.resources import Json

SECRET_TYPE: Final = "helm.sh/release.v1"  # noqa: S105  a type, not a secret
OWNED: Final = "owner=helm"
"""The label by which Helm finds its Secrets."""


class ReleaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One revision of a release."""

    name: str
    namespace: str
    revision: int
    status: str
    chart: str
    chart_version: str
    app_version: str
    updated: str
    config: dict[str, Any] = {}
    manifest: str = ""


def managed(body: Json, *, name: str, namespace: str) -> dict[str, Any]:
    """Return an object that says that it belongs to a release."""
    meta = dict(body["metadata"])
    meta["labels"] = {**(meta.get("labels") or {}), "app.kubernetes.io/managed-by": "Helm"}
    meta["annotations"] = {
        **(meta.get("annotations") or {}),
        "meta.helm.sh/release-name": name,
        "meta.helm.sh/release-namespace": namespace,
    }
    return {**body, "metadata": meta}


def release_secret(
    record: ReleaseRecord, *, now: datetime, files: Mapping[str, str], objects: Iterable[Json]
) -> dict[str, Any]:
    """Return the Secret of a revision; `files` are those of the chart, by their paths in it."""
    stamp = now.isoformat()
    about = {
        "apiVersion": "v2",
        "name": record.chart,
        "version": record.chart_version,
        "appVersion": record.app_version,
        "type": "application",
    }
    templates = [
        {"name": name, "data": base64.b64encode(text.encode()).decode()}
        for name, text in files.items()
        if name.startswith("templates/")
    ]
    payload = {
        "name": record.name,
        "info": {
            "first_deployed": stamp,
            "last_deployed": stamp,
            "deleted": "",
            "description": "Install complete" if record.revision == 1 else "Upgrade complete",
            "status": record.status,
        },
        "chart": {
            "metadata": about,
            "lock": None,
            "templates": templates,
            "values": yaml.safe_load(files.get("values.yaml", "{}")),
            "schema": None,
            "files": [],
        },
        "config": record.config,
        "manifest": render_documents(list(objects)),
        "version": record.revision,
        "namespace": record.namespace,
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": f"sh.helm.release.v1.{record.name}.v{record.revision}",
            "namespace": record.namespace,
            "labels": {
                "name": record.name,
                "owner": "helm",
                "status": record.status,
                "version": str(record.revision),
                "modifiedAt": str(int(now.timestamp())),
            },
        },
        "type": SECRET_TYPE,
        "data": {"release": _packed(payload)},
    }


def superseded(secret: Json) -> dict[str, Any]:
    """Return the change that makes the Secret of a revision say that it is no longer in force."""
    payload = _unpacked(secret["data"]["release"])
    payload["info"]["status"] = "superseded"
    return {"metadata": {"labels": {"status": "superseded"}}, "data": {"release": _packed(payload)}}


def _packed(payload: dict[str, Any]) -> str:
    packed = base64.b64encode(gzip.compress(json.dumps(payload).encode(), mtime=0))
    return base64.b64encode(packed).decode()


# A Secret holds 1 MiB: https://kubernetes.io/docs/concepts/configuration/secret/
_LARGEST: Final = 64 * 1024**2


def _unpacked(text: str) -> dict[str, Any]:
    packed = base64.b64decode(base64.b64decode(text))
    # Helm 2 did not compress; https://github.com/helm/helm/blob/main/pkg/storage/driver/util.go
    found: dict[str, Any] = json.loads(
        unzip_bounded(packed, _LARGEST) if packed[:2] == b"\x1f\x8b" else packed
    )
    return found


def read_release(secret: Json) -> ReleaseRecord | None:
    """Return the revision that a Secret holds; None for a Secret of another sort, or a broken one."""
    try:
        told = _unpacked(secret["data"]["release"])
        about, info = told["chart"]["metadata"], told["info"]
        return ReleaseRecord(
            name=told["name"],
            namespace=told.get("namespace", ""),
            revision=int(told["version"]),
            status=info["status"],
            chart=about["name"],
            chart_version=about["version"],
            app_version=about.get("appVersion", ""),
            updated=str(info.get("last_deployed", "")),
            config=told.get("config") or {},
            manifest=told.get("manifest", ""),
        )
    except (KeyError, ValueError, TypeError, OSError):
        return None


def latest(records: Iterable[ReleaseRecord | None]) -> list[ReleaseRecord]:
    """Return the last revision of every release, by namespace and name."""
    found: dict[tuple[str, str], ReleaseRecord] = {}
    for each in records:
        if each is not None:
            key = (each.namespace, each.name)
            if key not in found or found[key].revision < each.revision:
                found[key] = each
    return [found[key] for key in sorted(found)]
