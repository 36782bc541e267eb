"""How a harness behaves; the host fills it from the configuration (spec 20)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

QueueMode = Literal["one_at_a_time", "all"]


@dataclass(slots=True, frozen=True)
class Settings:
    """Times in seconds, cost in USD; 0 turns off a limit. `max_retries` counts the attempts after the first.

    `max_poll_failures` questions in a row for an answer made in the background may fail, then the run ends.
    """

    steering_mode: QueueMode = "one_at_a_time"
    follow_up_mode: QueueMode = "one_at_a_time"
    tool_execution: Literal["parallel", "sequential"] = "parallel"
    restart_limit: int = 5
    max_retries: int = 3
    base_delay: float = 2.0
    max_delay: float = 60.0
    retry_after_cap: float = 600.0
    max_poll_failures: int = 20
    partial_interval: float = 0.1
    output_interval: float = 0.1
    limit_turns: int = 200
    limit_cost: float = 0.0
    space_interval: float = 1.0
