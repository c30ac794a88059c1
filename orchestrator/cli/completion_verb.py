"""The verb `completion`: a script by which a shell completes this command."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from orchestrator.cli.command_app import HELP_FLAGS, make_app
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.verb_options import USUAL, Common, print_all


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(metavar="bash|zsh|fish")], /, *, common: Common = USUAL
) -> int:
    """Print a script that completes this command in a shell.

    To install it:
        bash   orchestrator completion bash > ~/.local/share/bash-completion/completions/orchestrator
        zsh    orchestrator completion zsh > ~/.zsh/completions/_orchestrator, with that folder in $fpath before compinit
        fish   orchestrator completion fish > ~/.config/fish/completions/orchestrator.fish

    It takes effect in new shells. For the current one, in bash: source <(orchestrator completion bash); in fish:
    orchestrator completion fish | source.

    Args:
        shell: the shell
    """
    print_all([make_app(HELP_FLAGS).generate_completion(prog_name="orchestrator", shell=shell)])
    return ExitCode.OK
