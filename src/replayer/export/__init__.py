"""Tables, events, pictures and state files made from tapes."""
