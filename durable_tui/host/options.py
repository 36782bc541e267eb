"""What the screen is started with. The command line makes the options, the launcher carries them to its child."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from durable_tui.models.provider import ThinkingLevel


@dataclass(slots=True, frozen=True)
class ScreenOptions:
    """`directory` is canonical. At most one of `new` and `session` is given; `paused` starts nothing by itself."""

    directory: str
    prompt: str | None = None
    new: bool = False
    session: str | None = None
    paused: bool = False
    model: str | None = None
    thinking: ThinkingLevel | None = None

    def words(self) -> list[str]:
        """The options as the words of a command; `from_words` reads them back."""
        words = [f"--directory={self.directory}"]
        if self.new:
            words.append("--new")
        if self.paused:
            words.append("--paused")
        if self.session is not None:
            words.append(f"--session={self.session}")
        if self.model is not None:
            words.append(f"--model={self.model}")
        if self.thinking is not None:
            words.append(f"--thinking={self.thinking}")
        if self.prompt is not None:
            words += ["--", self.prompt]
        return words

    @classmethod
    def from_words(cls, words: Sequence[str]) -> ScreenOptions:
        """Read what `words` wrote. Raises ValueError for anything else."""
        values: dict[str, str] = {}
        flags: set[str] = set()
        prompt = None
        rest = list(words)
        while rest:
            word = rest.pop(0)
            name, equals, value = word.removeprefix("--").partition("=")
            if word == "--" and len(rest) == 1:
                prompt = rest.pop(0)
            elif equals and name in ("directory", "session", "model", "thinking"):
                values[name] = value
            elif word in ("--new", "--paused"):
                flags.add(name)
            else:
                raise ValueError(f"not an option of the screen: {word}")
        if "directory" not in values:
            raise ValueError("the screen needs its --directory")
        return cls(
            values["directory"],
            prompt,
            new="new" in flags,
            session=values.get("session"),
            model=values.get("model"),
            thinking=cast("ThinkingLevel | None", values.get("thinking")),
            paused="paused" in flags,
        )
