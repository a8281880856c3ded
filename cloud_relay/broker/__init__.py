"""The relay's MQTT broker: its own supervised Mosquitto, or an external one."""
