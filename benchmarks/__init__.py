"""Measurements that are commands, not tests."""
