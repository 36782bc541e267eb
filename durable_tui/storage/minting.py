"""Fresh ids and seqs, which belong to the store (spec 4)."""

from __future__ import annotations


class Minting:
    """The counters of one opening: what every owner hands out, and how a stored batch moves them on."""

    def __init__(self, next_id: int, next_seq: int) -> None:
        self._next_id, self._next_seq = next_id, next_seq

    def mint_id(self) -> int:
        """Return a fresh id; it is never handed out again once a batch holding a later or equal id was committed."""
        minted = self._next_id
        self._next_id += 1
        return minted

    def mint_seq(self) -> int:
        """Return the seq for the batch being prepared; strictly increasing, gaps allowed."""
        minted = self._next_seq
        self._next_seq += 1
        return minted

    def _pass(self, next_id: int, seq: int) -> None:
        """Hand out nothing below `next_id`, and no seq up to `seq`, from now on."""
        self._next_id = max(self._next_id, next_id)
        self._next_seq = max(self._next_seq, seq + 1)
