"""The command line: `cclk train`, `cclk evaluate`, `cclk report`."""
