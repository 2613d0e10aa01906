"""The sections of a report: each is a class in a file of its own."""
