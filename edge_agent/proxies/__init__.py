"""ESPHome Bluetooth proxies: radios elsewhere in the house that the box uses over the network."""
