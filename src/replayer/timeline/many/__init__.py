"""Many tapes verified together: short ones by one worker each, the intervals of long ones by all."""
