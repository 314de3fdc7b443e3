"""The interface between adapters and the recorder: find an adapter, adapt an object, report what is captured."""
