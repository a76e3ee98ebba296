"""
Where providers of Terraform are on this machine, and the settings that let Terraform take them from there.

The registry is asked for what no folder has. Folders are what TERRAFORM_MIRROR names, the cache of plugins,
those that Terraform looks in by itself, and folders of the machine that are laid out as a mirror:
https://developer.hashicorp.com/terraform/cli/config/config-file#implied-local-mirror-directories
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REGISTRIES: Final = {"terraform": "registry.terraform.io", "tofu": "registry.opentofu.org"}
_MACHINE: Final = ("opt", "usr/lib", "usr/local/lib", "srv", "var/lib")
_PROCESSORS: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def mirrors(environment: Mapping[str, str], program: str, root: Path = Path("/")) -> dict[Path, list[str]]:
    """Return the folders that have providers for this machine, and which; the first that has one gives it."""
    found: dict[Path, list[str]] = {}
    seen: set[str] = set()
    for folder in dict.fromkeys(_folders(environment, root)):
        new = [name for name in _providers(folder, REGISTRIES[program]) if name not in seen]
        seen.update(new)
        if new:
            found[folder] = new
    return found


def settings(found: Mapping[Path, list[str]]) -> str:
    """Return settings of Terraform: providers of these folders from there, others from the registry."""
    every = [name for names in found.values() for name in names]
    blocks = [
        f'  filesystem_mirror {{\n    path    = "{folder}"\n    include = {_list(names)}\n  }}\n'
        for folder, names in found.items()
    ]
    return f"provider_installation {{\n{''.join(blocks)}  direct {{\n    exclude = {_list(every)}\n  }}\n}}\n"


def _folders(environment: Mapping[str, str], root: Path) -> Iterator[Path]:
    home = Path(environment.get("HOME", str(root / "root")))
    shared = environment.get("XDG_DATA_DIRS") or f"{root / 'usr/local/share'}:{root / 'usr/share'}"
    data = [environment.get("XDG_DATA_HOME") or home / ".local/share", *shared.split(":")]
    for name in ("TERRAFORM_MIRROR", "TF_PLUGIN_CACHE_DIR"):
        if named := environment.get(name):
            yield Path(named)
    yield home / ".terraform.d/plugins"
    yield from (Path(each) / top / "plugins" for each in data for top in ("terraform", "opentofu"))
    for place in _MACHINE:
        for depth in ("*", "*/*"):
            found = sorted((root / place).glob(f"{depth}/registry.*/hashicorp"))
            yield from (each.parents[1] for each in found)


def _providers(mirror: Path, registry: str) -> Iterator[str]:
    """Yield the providers of a mirror that run here, whether they are unpacked or not."""
    here = f"{platform.system().lower()}_{_PROCESSORS.get(platform.machine(), platform.machine())}"
    for provider in sorted(mirror.glob(f"{registry}/*/*")):
        name = f"terraform-provider-{provider.name}_*"
        if any(provider.glob(f"*/{here}/{name}")) or any(provider.glob(f"{name}_{here}.zip")):
            yield str(provider.relative_to(mirror))


def _list(names: list[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"
