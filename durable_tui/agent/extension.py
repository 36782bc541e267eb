"""Extensions: named bundles of tools, prompt sections, hooks, wrappers and task definitions (spec 12)."""

from __future__ import annotations

import contextlib
import inspect
import typing
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, overload

from durable_tui.environment.base import Environment

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from pydantic import BaseModel

    from durable_tui.agent.shapes import AgentChoices, Diagnostic, ExtensionEdit, ToolEdit
    from durable_tui.delta import Json, JsonObject
    from durable_tui.engine.task import TaskDefinition
    from durable_tui.models.messages import Usage, UserBlock
    from durable_tui.session import Transaction

Replay = Literal["safe", "unsafe"]
Execution = Literal["parallel", "sequential"]
Severity = Literal["info", "warn", "error"]


@dataclass(slots=True)
class ToolResult:
    """What a tool answers.

    `content` is a text or a list of text and image blocks (spec 17.3); `is_error` marks an error the model should see;
    `details` is JSON for the screen (an edit puts `{path, diff, added, removed}` there); `diagnostics` are
    `{severity, message, code?}`; `usage` is what the tool itself spent on models.
    """

    content: str | list[UserBlock]
    is_error: bool = False
    details: object = None
    diagnostics: list[Diagnostic] = field(default_factory=list)
    usage: Usage | None = None
    terminate: bool = False
    handoff: str | None = None
    add_tools: list[str] | None = None


class ToolError(Exception):
    """Raised by a tool: the call failed, the message goes to the model as an error result (spec 10)."""


class ToolCall(Protocol):
    """The running call as its tool sees it (spec 10)."""

    id: str
    name: str
    task_id: int
    conversation_id: int
    environment: Environment

    def output(self, text: str) -> None:
        """Append to the progress shown in the slot. Bounded and committed at intervals; never blocks."""

    def details(self, value: object) -> None:
        """Replace the slot's details (JSON), committed with the next progress."""

    def diagnostic(self, severity: Severity, message: str, code: str | None = None) -> None:
        """Add a diagnostic to the slot and to the result."""

    def commit(self) -> AbstractAsyncContextManager[Transaction]:
        """`async with call.commit() as tx`: a commit of the tool's own, refused once the call was aborted."""

    async def memo(self, name: str, candidate: Json) -> Json:
        """The durable value under `name`: the first writer's (spec 6.4)."""


Arguments: TypeAlias = "dict[str, Json]"
"""The arguments of a call as the model wrote them."""
ToolFunction: TypeAlias = Callable[[Any, ToolCall], Awaitable[ToolResult | str]]
"""What carries a call out: its arguments are what the tool's own `validate` gives."""
Hook: TypeAlias = Callable[..., Awaitable[object]]


@dataclass(slots=True, frozen=True)
class Tool:
    """A tool as installed. `parameters` is a JSON schema.

    `validate` gives the arguments for `run` or raises ValueError; `summary(arguments)` is a short phrase for people
    ("config/dev.json"); `keep` says which end of over-long output stays.
    Raises ValueError for another `replay`.
    """

    name: str
    description: str
    parameters: JsonObject
    run: ToolFunction
    validate: Callable[[Arguments], object]
    replay: Replay = "unsafe"
    execution: Execution = "parallel"
    summary: Callable[[Arguments], str] | None = None
    repair: Callable[[Arguments], Arguments] | None = None
    keep: Literal["head", "tail"] = "tail"
    max_lines: int = 2000
    max_bytes: int = 50 * 1024

    def __post_init__(self) -> None:
        if self.replay not in typing.get_args(Replay):
            raise ValueError(
                f'tool {self.name}: replay={self.replay!r} does not exist; "unsafe" never repeats a call unasked, '
                '"safe" may repeat it after a crash'
            )


_Run = Callable[..., Awaitable[ToolResult | str]]


@overload
def tool(function: _Run) -> Tool: ...
@overload
def tool(
    function: None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    replay: Replay = "unsafe",
    execution: Execution = "parallel",
    summary: Callable[[Arguments], str] | None = None,
    repair: Callable[[Arguments], Arguments] | None = None,
    keep: Literal["head", "tail"] = "tail",
) -> Callable[[_Run], Tool]: ...
def tool(
    function: _Run | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    replay: Replay = "unsafe",
    execution: Execution = "parallel",
    summary: Callable[[Arguments], str] | None = None,
    repair: Callable[[Arguments], Arguments] | None = None,
    keep: Literal["head", "tail"] = "tail",
) -> Tool | Callable[[_Run], Tool]:
    """Make a Tool of `async def f(args: Model, call: ToolCall) -> ToolResult | str`.

    The name is the function's, the description its docstring, the parameters the schema of the pydantic model that its
    first argument is annotated with. Raises TypeError when that annotation is missing or no pydantic model.
    """

    def make(run: _Run) -> Tool:
        model = _argument_model(run)
        text = description or inspect.cleandoc(run.__doc__ or "")
        return Tool(
            name=name or run.__name__,
            description=text,
            parameters=_schema(model),
            run=run,
            validate=lambda arguments: _validate(model, arguments),
            replay=replay,
            execution=execution,
            summary=summary,
            repair=repair,
            keep=keep,
        )

    return make if function is None else make(function)


def _argument_model(run: _Run) -> type[BaseModel]:
    from pydantic import BaseModel

    parameters = list(inspect.signature(run).parameters.values())
    if not parameters:
        raise TypeError(f"tool {run.__name__}: needs (args, call)")
    annotation: object = parameters[0].annotation
    if isinstance(annotation, str):
        scope = dict(getattr(run, "__globals__", {}))
        scope.update(_around(run))
        try:
            annotation = typing.get_type_hints(run, scope).get(parameters[0].name, annotation)
        except NameError:
            annotation = scope.get(annotation, annotation)
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        raise TypeError(f"tool {run.__name__}: annotate its first argument with a pydantic model")
    return annotation


def _around(run: _Run) -> dict[str, object]:
    """The variables of the functions around one that have a value already; its body may use others later."""
    found: dict[str, object] = {}
    for name, cell in zip(run.__code__.co_freevars, run.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):
            found[name] = cell.cell_contents
    return found


def _schema(model: type[BaseModel]) -> JsonObject:
    schema = model.model_json_schema()
    schema.pop("title", None)
    for value in schema.get("properties", {}).values():
        value.pop("title", None)
    schema.setdefault("properties", {})
    return schema


def _validate(model: type[BaseModel], arguments: Arguments) -> BaseModel:
    from pydantic import ValidationError

    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        lines = [
            f"{'.'.join(str(part) for part in problem['loc']) or 'arguments'}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        raise ValueError("; ".join(lines)) from None


@dataclass(slots=True, frozen=True)
class PromptContext:
    """What a prompt section may look at."""

    conversation_id: int
    cwd: str
    agent: AgentChoices
    environment: Environment
    tools: tuple[Tool, ...]
    started_at: int  # milliseconds: when the session was made


SectionRender = Callable[[PromptContext], Awaitable[str | None] | str | None]


@dataclass(slots=True, frozen=True)
class Section:
    """A named part of the system prompt. None or "" leaves it out."""

    key: str
    render: SectionRender


HOOKS = (
    "beforeRequest",
    "afterResponse",
    "onYield",
    "afterTools",
    "beforeTool",
    "afterTool",
    "onAbort",
)


@dataclass(slots=True, frozen=True)
class Extension:
    """A bundle under a name. Later extensions override same-named tools and sections in place (spec 12).

    `hooks` maps a hook's name (HOOKS) to an async function of one argument; `wrappers` maps a tool's name to a function
    from Tool to Tool.
    """

    name: str
    tools: Iterable[Tool] = ()
    sections: Iterable[Section] = ()
    hooks: dict[str, Hook] = field(default_factory=dict)
    wrappers: dict[str, Callable[[Tool], Tool]] = field(default_factory=dict)
    tasks: Iterable[TaskDefinition] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", tuple(self.tools))
        object.__setattr__(self, "sections", tuple(self.sections))
        object.__setattr__(self, "tasks", tuple(self.tasks))
        for hook in self.hooks:
            if hook not in HOOKS:
                raise ValueError(f"extension {self.name}: no hook is called {hook!r}; there are {', '.join(HOOKS)}")


class Registry:
    """The extensions this process installed, in order; never stored (spec 1)."""

    def __init__(self) -> None:
        self._extensions: dict[str, Extension] = {}
        self._listeners: list[Callable[[], None]] = []

    def install(self, extension: Extension) -> None:
        """Install, or replace in place the one of the same name. Blocked tasks wake."""
        self._extensions[extension.name] = extension
        self._changed()

    def uninstall(self, name: str) -> None:
        """Take an extension away; running work keeps the code it took."""
        if self._extensions.pop(name, None) is not None:
            self._changed()

    def names(self) -> list[str]:
        return list(self._extensions)

    def extensions(self, choice: list[str] | tuple[str, ...] | ExtensionEdit | None = None) -> list[Extension]:
        """Those a stored choice selects: None follows the host, a list names them, `{add?, remove?}` edits."""
        installed = self._extensions
        if choice is None:
            return list(installed.values())
        if isinstance(choice, list | tuple):
            return [installed[name] for name in choice if name in installed]
        removed = set(choice.get("remove", ()))
        names = [name for name in installed if name not in removed]
        return [installed[name] for name in names]

    def task(self, kind: str) -> TaskDefinition | None:
        """The newest definition of a task kind among the installed extensions."""
        found = None
        for extension in self._extensions.values():
            for definition in extension.tasks:
                if definition.name == kind:
                    found = definition
        return found

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after every change; returns how to stop that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _changed(self) -> None:
        for listener in list(self._listeners):
            listener()


def select_tools(
    extensions: Iterable[Extension], choice: list[str] | tuple[str, ...] | ToolEdit | None = None
) -> dict[str, Tool]:
    """The tools in effect by name: later ones override in place, wrappers apply to the winner, the agent chooses."""
    chosen: dict[str, Tool] = {}
    wrappers: list[tuple[str, Callable[[Tool], Tool]]] = []
    for extension in extensions:
        for item in extension.tools:
            chosen[item.name] = item
        wrappers.extend(extension.wrappers.items())
    for name, wrap in wrappers:
        if name in chosen:
            chosen[name] = wrap(chosen[name])
    if choice is None:
        return chosen
    if isinstance(choice, list | tuple):
        return {name: chosen[name] for name in choice if name in chosen}
    removed = set(choice.get("remove", ()))
    return {name: item for name, item in chosen.items() if name not in removed}
