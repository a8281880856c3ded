"""A Bluetooth radio without hardware: adapters, emulated mowers and their faults. Needs the extra `emulate`."""
