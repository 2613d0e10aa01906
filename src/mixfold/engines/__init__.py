"""Where partitions of the data are folded: in this process, or on a cluster."""
