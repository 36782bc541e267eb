"""The images of what is to be committed: none is stored that a provider would refuse (cases T30, T32).

An unsendable image in the history would make every later request fail, so inputs and writes are refused for it, and in
a tool's result it becomes a text. What commits of its own (`commit()`) append is its author's responsibility.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from durable_tui.agent.extension import ToolResult
from durable_tui.models.images import ImageRefused, check_block, fit, is_image

if TYPE_CHECKING:
    from durable_tui.models.messages import UserBlock


async def check_content(*contents: str | Iterable[Mapping[str, object]]) -> None:
    """Raises ValueError for the first image block that cannot be sent. Texts and other blocks are not looked at."""
    images = [block for content in contents if not isinstance(content, str) for block in content if is_image(block)]
    for number, block in enumerate(images, 1):
        problem = await asyncio.to_thread(check_block, block)
        if problem is not None:
            which = f"image {number} of {len(images)}" if len(images) > 1 else "the image"
            raise ValueError(f"{which} cannot be sent: {problem}")


async def check_messages(messages: Iterable[object]) -> None:
    """The same for the contents of messages (spec 17.3)."""
    await check_content(*(message.get("content") or "" for message in messages if isinstance(message, Mapping)))


async def sendable(result: ToolResult) -> ToolResult:
    """A tool's result with its images made fit, and a text in place of each that cannot be; both as diagnostics."""
    if isinstance(result.content, str) or not any(is_image(block) for block in result.content):
        return result
    blocks: list[UserBlock] = []
    diagnostics = list(result.diagnostics)
    for block in result.content:
        if is_image(block):
            try:
                made = await asyncio.to_thread(fit, block)
            except ImageRefused as error:
                text = f"an image of the result was left out: {error}"
                diagnostics.append({"severity": "warn", "message": text, "code": "image_refused"})
                block = {"type": "text", "text": f"({text})"}
            else:
                if made is not None:
                    diagnostics.append({"severity": "info", "message": f"an image was converted: {made}"})
                    block = {**made.block}
        blocks.append(block)
    result.content = blocks
    result.diagnostics = diagnostics
    return result
