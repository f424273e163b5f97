"""The datasets of the paper and of the benchmarks, by name in `cclk.datasets.load`."""
