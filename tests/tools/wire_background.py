"""Answers that the scripted server makes in the background (OpenAI Responses). Standard library only; in memory."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from tests.tools.wire_responses import response_of


@dataclass(slots=True)
class Job:
    """One answer in the making. `polls` counts the questions for it, `cancels` the cancellations asked for."""

    id: str
    turn: dict[str, Any]
    body: dict[str, Any]
    prefix: str
    key: str
    begun: float = field(default_factory=time.monotonic)
    created: int = field(default_factory=lambda: int(time.time()))
    polls: int = 0
    cancels: int = 0
    cancelled: bool = False

    def state(self) -> dict[str, Any]:
        """The Response as it is now."""
        status = None if self.ready else "queued" if self.polls < 2 else "in_progress"
        response = response_of(self.turn, self.body, self.prefix, "cancelled" if self.cancelled else status)
        return {**response, "id": self.id, "created_at": self.created}

    @property
    def ready(self) -> bool:
        """Whether it ended by itself: polled often enough and old enough."""
        waited = time.monotonic() - self.begun
        return self.polls > self.turn.get("polls", 0) and waited >= self.turn.get("background_delay", 0)


class Jobs:
    """All jobs by id. Safe from several threads."""

    def __init__(self) -> None:
        self.all: dict[str, Job] = {}
        self._keys: dict[str, Job] = {}
        self._lock = threading.Lock()

    def known(self, key: str) -> Job | None:
        """The job that a POST with this idempotency key has begun already."""
        with self._lock:
            return self._keys.get(key) if key else None

    def begin(self, turn: dict[str, Any], body: dict[str, Any], prefix: str, key: str) -> Job:
        """A new job; with a key that is known, its job."""
        with self._lock:
            if key in self._keys:
                return self._keys[key]
            job = Job(f"resp_{prefix}_{len(self.all)}", turn, body, prefix, key)
            self.all[job.id] = job
            if key:
                self._keys[key] = job
            return job

    def get(self, job_id: str) -> Job | None:
        with self._lock:
            return self.all.get(job_id)

    def poll(self, job: Job) -> dict[str, Any]:
        """Count a question and answer it."""
        with self._lock:
            job.polls += 1
            return job.state()

    def cancel(self, job: Job) -> dict[str, Any]:
        """End it, unless it has ended; the same again for every further call."""
        with self._lock:
            job.cancels += 1
            job.cancelled = job.cancelled or not job.ready
            return job.state()

    def report(self) -> dict[str, dict[str, Any]]:
        """What became of each, for a test that looks from another process."""
        with self._lock:
            return {
                job.id: {
                    "key": job.key, "polls": job.polls, "cancels": job.cancels, "cancelled": job.cancelled,
                    "ready": job.ready,
                }
                for job in self.all.values()
            }  # fmt: skip
