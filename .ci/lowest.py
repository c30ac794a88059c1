"""Print the lowest versions that pyproject.toml allows, as requirements."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
for requirement in [*project["dependencies"], *project["optional-dependencies"]["test"]]:
    name, version = re.fullmatch(r"([\w-]+)>=([\d.]+)(?:,<[\d.]+)?", requirement).groups()
    if name not in ("mypy", "pyright", "ruff"):
        print(f"{name}=={version}")
