"""Figures of how the package is built, and a limit for each.

    python -m tests.tools.house [--any 32] [--circles 40] [--citations 0]

Prints `Any` per 1,000 lines, the modules that import each other in a circle (imports for types count: they say who must
be read with whom), and the citations in code and tests that lead nowhere. Exits 1 when a limit given is exceeded.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "durable_tui"
CITATIONS = ("tests.unit.test_citations", "citations_without_target")  # a function that returns them, once it is there


def count_any(source: str) -> int:
    """Return how often a module's source says `Any` outside its imports."""
    return sum(
        (isinstance(node, ast.Name) and node.id == "Any") or (isinstance(node, ast.Attribute) and node.attr == "Any")
        for node in ast.walk(ast.parse(source))
    )


def any_per_thousand_lines(package: Path = PACKAGE) -> float:
    """Return `Any` per 1,000 lines of all modules below a folder."""
    sources = [path.read_text(encoding="utf-8") for path in package.rglob("*.py")]
    lines = sum(source.count("\n") for source in sources)
    return 1000 * sum(map(count_any, sources)) / max(lines, 1)


def circles(imports: Mapping[str, Iterable[str]]) -> list[set[str]]:
    """Return the sets of modules that reach each other by imports, the largest first."""
    reached = {module: _reached(module, imports) for module in imports}
    found: list[set[str]] = []
    for module in imports:
        circle = {other for other in reached[module] if module in reached.get(other, ())}
        if module in circle and circle not in found:
            found.append(circle)
    return sorted(found, key=len, reverse=True)


def _reached(module: str, imports: Mapping[str, Iterable[str]]) -> set[str]:
    reached: set[str] = set()
    ahead = list(imports[module])
    while ahead:
        other = ahead.pop()
        if other not in reached:
            reached.add(other)
            ahead.extend(imports.get(other, ()))
    return reached


def package_imports(name: str = "durable_tui") -> dict[str, set[str]]:
    """Return each module of a package with the modules of it that it imports."""
    import grimp

    graph = grimp.build_graph(name, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def citations_without_target() -> int | None:
    """Return how many citations lead nowhere; None while nothing looks for them."""
    module, function = CITATIONS
    try:
        find: Callable[[], Sequence[object]] = getattr(import_module(module), function)
    except (ImportError, AttributeError):
        return None
    return len(find())


def main(words: Sequence[str] | None = None) -> int:
    """Print the figures; return 1 when one is over its limit."""
    parser = argparse.ArgumentParser(description="figures of how the package is built")
    parser.add_argument("--any", type=float, metavar="N", help="the most `Any` per 1,000 lines")
    parser.add_argument("--circles", type=int, metavar="N", help="the most modules in import circles")
    parser.add_argument("--citations", type=int, metavar="N", help="the most citations without target")
    limits = parser.parse_args(words)
    rings = circles(package_imports())
    figures: list[tuple[str, float | None, float | None]] = [
        ("Any per 1,000 lines", round(any_per_thousand_lines(), 1), limits.any),
        ("modules in import circles", sum(map(len, rings)), limits.circles),
        ("citations without target", citations_without_target(), limits.citations),
    ]
    over = False
    for title, figure, limit in figures:
        exceeded = limit is not None and figure is not None and figure > limit
        over = over or exceeded
        allowed = "" if limit is None else f", at most {limit:g}"
        print(
            f"{title}: {'not measured' if figure is None else f'{figure:g}'}{allowed}{'  EXCEEDED' if exceeded else ''}"
        )
    for ring in rings:
        print(f"  a circle of {len(ring)}: {', '.join(sorted(ring))}")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
