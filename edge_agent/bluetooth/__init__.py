"""The box's Bluetooth: who is near, over which adapter, and one connection at a time. Needs the extra `ble`."""
