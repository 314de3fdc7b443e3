"""The attributes that cannot be saved, for the message of a refusal."""
