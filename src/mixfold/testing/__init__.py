"""Laws: the public conformance suite."""
