"""The same agent with Inspect AI: a task of one sample, with a checkpoint after each turn of the model."""

import sys

from counted_tool import add_line
from inspect_ai import Task, eval, eval_retry, task
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.log import list_eval_logs
from inspect_ai.model import get_model
from inspect_ai.tool import Tool, tool
from inspect_ai.util import CheckpointConfig, TurnInterval


@tool
def note() -> Tool:
    async def execute(line: str) -> str:
        """Write a line to the notes.

        Args:
            line: The line.
        """
        return add_line(line)

    return execute


@task
def notes() -> Task:
    agent = react(prompt="Take notes.", tools=[note()], submit=False)
    return Task(dataset=[Sample(input="Begin.")], solver=agent, checkpoint=CheckpointConfig(trigger=TurnInterval(every=1)))


def main(url: str) -> None:
    unfinished = list_eval_logs("logs")
    if unfinished:
        [log] = eval_retry(unfinished[0], display="none")
    else:
        model = get_model("openai/gpt-4o", base_url=url, api_key="none", responses_api=False)
        [log] = eval(notes(), model=model, log_dir="logs", display="none")
    assert log.samples
    print(log.samples[0].output.completion)


if __name__ == "__main__":
    main(sys.argv[1])
