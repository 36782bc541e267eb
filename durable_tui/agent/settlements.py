"""Those who wait until a submission is settled (spec 8.6)."""

from __future__ import annotations

from durable_tui.engine.waiters import Waiters
from durable_tui.session import Commit, Session
from durable_tui.storage.records import SubmissionRecord

SETTLED = ("done", "unanswered")


class Settlements:
    """Tells the waiters of each submission that a commit settles."""

    def __init__(self, session: Session) -> None:
        self.waiters: Waiters[SubmissionRecord] = Waiters()
        session.observe(self._observe)

    def _observe(self, commit: Commit) -> None:
        for submission in commit.submissions:
            if submission["status"] in SETTLED:
                self.waiters.resolve(submission["id"], submission)
