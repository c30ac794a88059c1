"""`ask_tool`: a harness as a tool. The agent asks another harness of the run and waits for its reply.

agent = ModelAgent("anthropic:claude-…", tools=[ask_tool("librarian", "Knows where things are documented.")])
"""

from __future__ import annotations

import re
from typing import Any

from harnesses.agents.argument_checks import NAME, SECONDS, check
from harnesses.agents.tools.function_tool import FunctionTool, function_tool
from harnesses.agents.tools.tool import ToolEffect, ToolError, ToolSetting
from harnesses.errors import AskTimeout, MailboxFull, UnknownHarness
from harnesses.messages.requests import ASK_TIMEOUT_S, WrongMessage


def ask_tool(
    to: str, description: str, *, name: str = "", message: Any = str, timeout_s: float = ASK_TIMEOUT_S
) -> FunctionTool:
    """Return a tool that asks the harness called `to`, which answers by `reply`.

    A call that was cut off by a crash is the same request when it is made again, so that it is handled once.

    Args:
        description: what the harness can be asked, for the model.
        name: the tool's name; by default `ask_` and the harness's.
        message: the type of the message.
        timeout_s: seconds to wait for the reply.

    Raises:
        HarnessMisuse: an argument is invalid.
    """
    check("ask_tool", "to", to, NAME)
    check("ask_tool", "timeout_s", timeout_s, SECONDS)

    async def ask(message: Any, setting: ToolSetting) -> Any:
        try:
            return await setting.run.ask(to, message, timeout_s=timeout_s, key=f"ask/{setting.call_key}")
        except (AskTimeout, MailboxFull, UnknownHarness, WrongMessage) as error:
            raise ToolError(str(error)) from error

    ask.__annotations__ = {"message": message, "setting": ToolSetting, "return": Any}
    return function_tool(
        ask,
        # It reads in so far as repeating it does no harm: the request has the same identity.
        effect=ToolEffect.READS,
        name=name or f"ask_{re.sub(r'[^A-Za-z0-9_-]', '_', to)}"[:64],
        description=description,
        timeout_s=timeout_s + 10.0,
    )
