"""The experiments of the paper and of this library: runs, results, and what is drawn and said of
them, which is a function of the files in a folder of results and of nothing else."""
