"""Engines, which process partitions of the data: in this process, or on a cluster."""
