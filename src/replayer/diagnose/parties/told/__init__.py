"""What two tapes tell, or do not tell, of the environments in which they were recorded, and what is tried of it."""
