"""Traffic between clients and clusters: split into lanes, and held back there."""
