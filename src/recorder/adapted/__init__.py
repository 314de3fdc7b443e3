"""Recording a simulation through an adapter."""
