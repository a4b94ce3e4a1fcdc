"""Measurements beside other libraries: ratios from alternating runs on one machine, never single times."""
