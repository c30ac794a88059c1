"""Ready-made harnesses as tables, for run files without any Python.

table_arguments   a table as the arguments of a class or function; `{ function = "module:name" }`: what only code can say
trading_table     TradingHarness
features_table    FeatureHarness
pipeline_table    PipelineHarness
coding_table      CodingHarness, whose parts are in `coding_parts`
memory_table      the episodic memory of a pipeline
"""
