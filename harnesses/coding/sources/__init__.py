"""Where feature lists come from: files that people write, and tests that fail."""

from harnesses.coding.sources.failing_tests import FailingTests
from harnesses.coding.sources.feature_entries import FeatureList
from harnesses.coding.sources.feature_files import FeatureFile
from harnesses.coding.sources.feature_source import FeatureSource
from harnesses.coding.sources.markdown import parse_markdown
from harnesses.coding.sources.problems import NothingToDo
from harnesses.coding.sources.toml_json import parse_json, parse_toml

__all__ = [
    "FailingTests",
    "FeatureFile",
    "FeatureList",
    "FeatureSource",
    "NothingToDo",
    "parse_json",
    "parse_markdown",
    "parse_toml",
]
