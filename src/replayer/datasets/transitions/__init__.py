"""The table of transitions: what environments, or methods of the user's simulation, returned, episode by episode."""
