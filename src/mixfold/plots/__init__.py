"""Pictures of fitted mixtures, drawn with matplotlib."""
