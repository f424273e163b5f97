"""The experiments of the CCL-K paper, and the benchmarks beyond it: an extension of cclk."""
