"""Worked examples: each runs as `python -m examples.NAME`, and at small size in the tests."""
