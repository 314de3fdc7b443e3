"""The stages of a scenario round: adversaries, network, surroundings, triggers, monitors. All state is in the arena."""
