"""Heights of many blocks with their running sums: append, change and find in O(log n) (a Fenwick tree)."""

from __future__ import annotations

from collections.abc import Iterable


class Heights:
    """Index 0 is the first block. `find(line)` tells which block a line is in."""

    def __init__(self, heights: Iterable[int] = ()) -> None:
        self._heights: list[int] = []
        self._tree: list[int] = [0]
        self.total = 0
        for height in heights:
            self.append(height)

    def __len__(self) -> int:
        return len(self._heights)

    def __getitem__(self, index: int) -> int:
        return self._heights[index]

    def append(self, height: int) -> None:
        self._heights.append(height)
        index = len(self._heights)
        value, step = height, 1
        while step < index & -index:
            value += self._tree[index - step]
            step <<= 1
        self._tree.append(value)
        self.total += height

    def pop(self) -> None:
        self.total -= self._heights.pop()
        self._tree.pop()

    def truncate(self, length: int) -> None:
        while len(self._heights) > length:
            self.pop()

    def set(self, index: int, height: int) -> int:
        """Change one; returns by how much it grew."""
        delta = height - self._heights[index]
        if delta:
            self._heights[index] = height
            self.total += delta
            position = index + 1
            while position < len(self._tree):
                self._tree[position] += delta
                position += position & -position
        return delta

    def offset(self, index: int) -> int:
        """The first line of block `index`; the total for index = length."""
        total = 0
        while index:
            total += self._tree[index]
            index -= index & -index
        return total

    def find(self, line: int) -> tuple[int, int]:
        """(block, line inside it); lines past the end give (length, 0)."""
        if line >= self.total:
            return len(self._heights), 0
        line = max(line, 0)
        index, size = 0, 1
        while size * 2 < len(self._tree):
            size *= 2
        rest = line
        while size:
            step = index + size
            if step < len(self._tree) and self._tree[step] <= rest:
                index = step
                rest -= self._tree[step]
            size >>= 1
        return index, rest
