"""Messages as entries hold them: plain JSON objects, the same whatever the provider (spec 17.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict, TypeGuard

if TYPE_CHECKING:
    from durable_tui.delta import Json, JsonObject

StopReason = Literal["stop", "length", "toolUse", "error", "aborted", "deferred"]


class TextBlock(TypedDict):
    type: Literal["text"]
    text: str
    providerExtra: NotRequired[JsonObject]


class ThinkingBlock(TypedDict):
    type: Literal["thinking"]
    thinking: str
    signature: NotRequired[str]
    redacted: NotRequired[bool]
    providerExtra: NotRequired[JsonObject]


class ImageBlock(TypedDict):
    type: Literal["image"]
    data: str
    mimeType: str


class ToolCallBlock(TypedDict):
    """`providerExtra.invalid` holds `{error, raw}` when the arguments on the wire were no JSON object."""

    type: Literal["toolCall"]
    id: str
    name: str
    arguments: JsonObject
    providerExtra: NotRequired[JsonObject]


class Cost(TypedDict):
    input: float
    output: float
    cacheRead: float
    cacheWrite: float
    total: float


class Usage(TypedDict):
    """Tokens of one attempt, or of a sum; `input` excludes cached ones. `cost` is absent when the price is unknown.

    In a sum whose `cost` is that of a part only, `unpriced` counts the tokens without one: it cost at least so much.
    """

    input: int
    output: int
    cacheRead: int
    cacheWrite: int
    totalTokens: int
    cost: NotRequired[Cost]
    unpriced: NotRequired[int]


UserBlock = TextBlock | ImageBlock
AnswerBlock = TextBlock | ThinkingBlock | ToolCallBlock
ContentBlock = TextBlock | ThinkingBlock | ToolCallBlock | ImageBlock


class UserMessage(TypedDict):
    role: Literal["user"]
    content: str | list[UserBlock]
    timestamp: int


class PartialMessage(TypedDict):
    """An answer while it arrives: an assistant message without usage and stop reason."""

    role: Literal["assistant"]
    content: list[AnswerBlock]
    api: str
    provider: str
    model: str
    timestamp: int


class AssistantMessage(TypedDict):
    role: Literal["assistant"]
    content: list[AnswerBlock]
    api: str
    provider: str
    model: str
    usage: Usage
    stopReason: StopReason
    errorMessage: NotRequired[str]
    timestamp: int
    providerExtra: NotRequired[JsonObject]


class ToolResultMessage(TypedDict):
    role: Literal["toolResult"]
    toolCallId: str
    toolName: str
    content: list[UserBlock]
    details: NotRequired[Json]
    isError: bool
    durationMs: NotRequired[int]
    usage: NotRequired[Usage]
    timestamp: int


class ToolDescription(TypedDict):
    """A tool as a model is offered it; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: JsonObject


class ToolName(TypedDict):
    name: str


class SystemMessage(TypedDict):
    """A positional change of the system prompt: a section of None is removed (spec 9)."""

    role: Literal["system"]
    content: str
    sections: NotRequired[dict[str, str | None]]
    toolsAdded: NotRequired[list[ToolDescription]]
    toolsRemoved: NotRequired[list[ToolName]]
    timestamp: int


class UsageTable(TypedDict):
    """What a conversation used (`pi.usage`): by `provider/modelId`, and by tool."""

    models: dict[str, Usage]
    tools: dict[str, Usage]


def is_call(block: ContentBlock) -> TypeGuard[ToolCallBlock]:
    """Whether a block is a tool call, whatever else it holds."""
    return block.get("type") == "toolCall"


Message = UserMessage | AssistantMessage | ToolResultMessage | SystemMessage
