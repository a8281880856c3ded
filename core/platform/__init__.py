"""The plugin boundary: manifest, the integration contract, config entries, flows, coordinator, registry."""
