"""Runtime of the box: one fire door per mower, the intake of states, the commander."""
