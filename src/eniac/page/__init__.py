"""A page of runs and results: `write.write_report`."""
