"""Sources of feature lists: files, and failing tests."""

from harnesses.coding.sources.failing_tests import FailingTests
from harnesses.coding.sources.feature_entries import FeatureList, parse_json, parse_toml
from harnesses.coding.sources.feature_files import FeatureFile, FeatureSource
from harnesses.coding.sources.markdown import parse_markdown
from harnesses.coding.sources.problems import NothingToDo

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
