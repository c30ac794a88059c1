"""Command-line agents: programs such as Claude Code and Codex CLI, called through a dialect."""
