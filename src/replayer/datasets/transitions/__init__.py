"""The table of transitions: what the environments of tapes returned, episode by episode."""
