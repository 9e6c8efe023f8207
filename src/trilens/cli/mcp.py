"""`trilens mcp`: the questions that one can ask a server, as tools of an assistant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.cli.options import Server  # noqa: TC001 - typer reads it when the command is made

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server.mcpserver import MCPServer

    from trilens.cli.client import Client

_INSTRUCTIONS: Final = (
    "Trilens watches AI workloads on GPU clusters. Ask `incidents` what is wrong, `why` for a cause, `show` "
    "for the facts, `cost` for money, `lineage` for what went into a model. Unknown is null, never zero. "
    "`warnings` and `cut` say what an answer lacks. Nothing here changes anything."
)


def mcp(server: Server = None) -> None:
    """Answer an assistant's questions over stdin and stdout (MCP); it can only read.

    The assistant starts it; docs/mcp.md has what to write into its settings. It may see what the token in
    TRILENS_TOKEN or TRILENS_TOKEN_FILE may see.
    """
    from trilens.cli.client import Client

    with Client(server) as client:
        server_of_tools(client).run()


def server_of_tools(client: Client) -> MCPServer:
    from mcp.server.mcpserver import MCPServer
    from mcp.types import ToolAnnotations

    from trilens import __version__
    from trilens.cli.mcp_tools import Tools

    tools = MCPServer("trilens", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING")
    reads = ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    for tool in Tools(client).every():
        tools.add_tool(_answering(tool), annotations=reads, structured_output=False)
    return tools


def _answering(tool: Callable[..., dict[str, Any]]) -> Callable[..., str]:
    """The tool with its answer bounded, and with errors that an assistant can read: what to do instead."""
    import functools
    import inspect

    from mcp.server.mcpserver.exceptions import ToolError

    from trilens.cli.mcp_answer import answer_text
    from trilens.model.errors import TrilensError

    @functools.wraps(tool)
    def answer(*args: Any, **kwargs: Any) -> str:
        try:
            return answer_text(tool(*args, **kwargs))
        except TrilensError as e:
            raise ToolError(str(e)) from e

    answer.__doc__ = " ".join((inspect.getdoc(tool) or "").split())
    return answer
