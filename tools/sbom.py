"""
The bill of materials of the image, with licences, as CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/).

    python -m tools.sbom requirements/image.txt > sbom.cdx.json

What is in the image, with its hashes and what needs it, is in the lock; licences are what the installed
distributions say of themselves. The hashes of a component are those of all its files that may be installed,
one per platform. What the base image holds is not known here. The same lock gives the same bytes.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from collections import Counter
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

from packaging.requirements import Requirement

from karpenter import __version__

# Of the Containerfile: python:3.12-slim.
IMAGE: Final = {
    "python_version": "3.12",
    "python_full_version": "3.12.0",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "implementation_name": "cpython",
    "extra": "",
}
_PIN: Final = re.compile(r"^(?P<requirement>[A-Za-z0-9._-]+==[^\\#]+?)\s*\\?$")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_VIA: Final = re.compile(r"^ +# +(?:via )?(?P<name>[a-z0-9._-]+)(?: \(.*\))?$")
_OF_CLASSIFIER: Final = {
    "MIT License": "MIT",
    "Apache Software License": "Apache-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "ISC License (ISCL)": "ISC",
    "Python Software Foundation License": "PSF-2.0",
}
_SPDX: Final = re.compile(r"[A-Za-z0-9.+-]+(?: (?:AND|OR|WITH) [A-Za-z0-9.+-]+)*")


class LockedPackage(NamedTuple):
    """One line of the lock that is for the image."""

    name: str
    version: str
    hashes: tuple[str, ...]
    needed_by: tuple[str, ...]


def read_lock(text: str) -> list[LockedPackage]:
    """
    Return what is installed in the image.

    Raises:
        ValueError: naming a package that is not locked to a version and hashes.
    """
    found: list[LockedPackage] = []
    for block in re.split(r"\n(?=[A-Za-z0-9])", text.strip()):
        first, *more = block.splitlines()
        match = _PIN.match(first)
        hashes = tuple(_HASH.findall(block))
        if match is None or not hashes:
            raise ValueError(f"{first.split()[0]} is not locked to a version and hashes")
        wanted = Requirement(match["requirement"])
        if wanted.marker is None or wanted.marker.evaluate(IMAGE):
            via = tuple(name["name"] for line in more if (name := _VIA.match(line)) and name["name"] != "via")
            (pinned,) = wanted.specifier
            found.append(LockedPackage(wanted.name, pinned.version, hashes, via))
    return found


def licence_of(name: str) -> dict[str, Any]:
    """Return the licence that a distribution states, by its SPDX expression where there is one."""
    try:
        said = metadata(name)
    except PackageNotFoundError:
        return {"license": {"name": "unknown: not installed here"}}
    every = said.get_all("Classifier") or ()
    classified = [each.rpartition(" :: ")[2] for each in every if each.startswith("License ::")]
    (expression,) = said.get_all("License-Expression") or ("",)
    stated = (said.get_all("License") or ("",))[0]
    known = [_OF_CLASSIFIER[each] for each in classified if each in _OF_CLASSIFIER]
    if expression:
        return {"expression": expression}
    if len(classified) == len(known) == 1:
        return {"license": {"id": known[0]}}
    if _SPDX.fullmatch(stated):
        return {"license": {"id": stated}}
    named = " OR ".join(classified) or stated.partition("\n")[0]
    return {"license": {"name": named or "unknown"}}


def bill(lock: str) -> dict[str, Any]:
    """Return the bill of materials of what a lock installs."""
    packages = read_lock(lock)
    ours = f"pkg:pypi/karpenter@{__version__}"
    refs = {each.name: f"pkg:pypi/{each.name}@{each.version}" for each in packages}
    needs: dict[str, list[str]] = {ours: [], **{ref: [] for ref in refs.values()}}
    for each in packages:
        for name in each.needed_by:
            needs[refs.get(name, ours)].append(refs[each.name])
    components = [
        {
            "type": "library",
            "bom-ref": refs[each.name],
            "name": each.name,
            "version": each.version,
            "purl": refs[each.name],
            "licenses": [licence_of(each.name)],
            "hashes": [{"alg": "SHA-256", "content": hash_} for hash_ in each.hashes],
        }
        for each in packages
    ]
    application = {
        "type": "application",
        "bom-ref": ours,
        "name": "karpenter",
        "version": __version__,
        "purl": ours,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, ours + lock)}",
        "version": 1,
        "metadata": {"component": application},
        "components": components,
        "dependencies": [{"ref": ref, "dependsOn": sorted(set(each))} for ref, each in needs.items()],
    }


def licence_table(found: dict[str, Any]) -> str:
    """Return how many components are under which licence."""
    counted = Counter(
        each["licenses"][0].get("expression") or next(iter(each["licenses"][0]["license"].values()))
        for each in found["components"]
    )
    return "\n".join(f"{count:4}  {name}" for name, count in counted.most_common())


def main(path: str) -> None:
    """Print the bill, and what licences there are to standard error."""
    found = bill(Path(path).read_text(encoding="utf-8"))
    json.dump(found, sys.stdout, indent=2)
    sys.stdout.write("\n")
    sys.stderr.write(f"{len(found['components'])} components\n{licence_table(found)}\n")


if __name__ == "__main__":
    main(sys.argv[1])
