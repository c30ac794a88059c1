"""Ready-made harnesses as tables, for run files without any Python.

signatures        a table as the arguments of a class or function
references        `{ function = "module:name" }`: what only code can say
trading_table     TradingHarness
features_table    FeatureHarness
pipeline_table    PipelineHarness
memory_table      the episodic memory of a pipeline

A coding harness is described in `harnesses.coding.described`.
"""
