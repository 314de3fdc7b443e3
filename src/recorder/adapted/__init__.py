"""Recording a simulation that an adapter makes recordable."""
