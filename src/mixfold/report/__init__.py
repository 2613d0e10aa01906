"""Pages about a fitted mixture: the report, and the live page of a stream."""
