"""Extensions of one's own: every `NAME.py` in the home's `extensions/` that has an `extension` (spec 22)."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path

from durable_tui.agent.extension import Extension, Registry


def install_plugins(registry: Registry, folder: Path) -> list[str]:
    """Install what the folder holds, in the order of names; returns a warning for each file that could not be used.

    A file gives `extension`, an Extension or a list of them. It is code of the person, run as the person.
    """
    warnings: list[str] = []
    if not folder.is_dir():
        return warnings
    for path in sorted(folder.glob("*.py")):
        if path.name.startswith(("_", ".")):
            continue
        try:
            found = load_plugin(path)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - code of the person, which may raise anything
            warnings.append(f"{where(error, path)}: extension not loaded, {type(error).__name__}: {error}")
            continue
        if not found:
            warnings.append(f"{path}: extension not loaded, it defines no `extension = Extension(...)`")
        for extension in found:
            registry.install(extension)
    return warnings


def load_plugin(path: Path) -> list[Extension]:
    """Run one file and take its extensions. Raises whatever the file raises, and TypeError for something else."""
    name = f"durable_tui_extension_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("it cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # annotations and dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    given = getattr(module, "extension", [])
    found = list(given) if isinstance(given, list | tuple) else [given]
    for item in found:
        if not isinstance(item, Extension):
            raise TypeError(f"`extension` is {type(item).__name__}, not Extension")
    return found


def where(error: BaseException, path: Path) -> str:
    """The file, and the line in it where the error arose."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f"{path}, line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path}, line {lines[-1]}" if lines else str(path)
