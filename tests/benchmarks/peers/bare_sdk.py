"""An agent loop of one's own on the vendor's client."""

import json
import sys

import trio
from counted_tool import add_line
from openai import AsyncOpenAI

TOOL = {
    "type": "function",
    "function": {
        "name": "note",
        "description": "Write a line to the notes.",
        "parameters": {"type": "object", "properties": {"line": {"type": "string"}}, "required": ["line"]},
    },
}


async def main(url: str) -> None:
    client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    messages = [{"role": "system", "content": "Take notes."}, {"role": "user", "content": "Begin."}]
    while True:
        answer = await client.chat.completions.create(model="gpt-4o", messages=messages, tools=[TOOL])
        message = answer.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            print(message.content)
            return
        for call in message.tool_calls:
            text = add_line(json.loads(call.function.arguments)["line"])
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})


trio.run(main, sys.argv[1])
