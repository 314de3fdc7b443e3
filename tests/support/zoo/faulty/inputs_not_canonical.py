"""Cause 10: inputs that are not canonical: their order within a tick decides, or a float is rounded on its way."""

import numpy as np

from zoo.flock import Flock


class OrderOfInputs(Flock):
    def move(self, inputs):
        super().move(inputs)
        for row, place in list(inputs or ()):  # HERE: OrderOfInputs
            self.state["x"][row] = place


class RoundedInput(Flock):
    def age(self, inputs):
        super().age(inputs)
        for row, food in inputs or ():
            meal = float(np.float32(food)) / 3  # HERE: RoundedInput
            self.state["energy"][row] += meal
