"""Names that are imported when first asked for, so that importing a package stays cheap (spec 18)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """A package's `__getattr__`: each name comes from the module that `homes` gives, relative to the package."""

    def load(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(f"{package}.{home}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
