"""What two versions of the code that an explanation compares differ in."""
