"""The verb `backtest`: a trading harness of a run file over a recording, with one or many sets of options."""
