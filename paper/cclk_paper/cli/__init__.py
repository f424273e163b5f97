"""The commands of `cclk-paper`."""
