"""Builds the ready-made harnesses from tables of a run file, without Python code.

table_arguments   converts a table to the arguments of a class or function; `{ function = "module:name" }` calls Python code
trading_table     TradingHarness
features_table    FeatureHarness
pipeline_table    PipelineHarness
coding_table      CodingHarness, whose parts are in `coding_parts`
memory_table      the episodic memory of a pipeline
"""
