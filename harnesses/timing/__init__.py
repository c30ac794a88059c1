"""Time: wall clocks, stopwatches, intervals and schedules."""
