"""Groups whose commands are imported when they are called: `runyard --help` and light commands start quickly.

The modules of commands therefore import what they need at their top.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pkgutil import resolve_name
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command


class LazyCommand(NamedTuple):
    target: str
    """module:attribute of the command's function, or of the Typer application of a group."""
    help: str
    """First paragraph of its help, for the group's help and for completion."""


class LazyGroup(TyperGroup):
    """Group with the commands of `table` after those registered with Typer.

    `commands` has a summary of each, which help and completion show. `get_command` imports the command itself.
    """

    table: ClassVar[Mapping[str, LazyCommand]] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._shows_summaries = False
        for name, later in self.table.items():
            self.commands[name] = TyperCommand(name, help=later.help)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if self._shows_summaries or cmd_name not in self.table:
            return super().get_command(ctx, cmd_name)
        return self._load(cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        with self._summaries():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        with self._summaries():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _summaries(self) -> Iterator[None]:
        """Have `get_command` return summaries: Typer asks it for every command that it lists."""
        self._shows_summaries = True
        try:
            yield
        finally:
            self._shows_summaries = False

    def _load(self, name: str) -> Any:
        target = resolve_name(self.table[name].target)
        app = typer.Typer(add_completion=False, rich_markup_mode=self.rich_markup_mode)
        app.callback()(lambda: None)  # makes it a group, whatever it has
        if isinstance(target, typer.Typer):
            app.add_typer(target, name=name)
        else:
            app.command(name)(target)
        group: Any = get_command(app)
        return group.commands[name]


def lazy_group(table: Mapping[str, LazyCommand]) -> type[LazyGroup]:
    """The class of a group, for `typer.Typer(cls=...)`; that application needs a callback or a command of its own."""
    return type("LazyGroup", (LazyGroup,), {"table": table})
