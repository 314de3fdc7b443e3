"""What is looked at again while a run is recorded, at its keyframes."""
