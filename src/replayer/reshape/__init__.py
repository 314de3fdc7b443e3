"""New tapes made from whole ones: a part of a tape, another spacing of keyframes, two parts in one."""
