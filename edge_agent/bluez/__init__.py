"""BlueZ, the Bluetooth of Linux, over the system's message bus: the pairing agent and the care that bleak leaves to us."""
