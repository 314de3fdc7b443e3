"""Cause 10: inputs that are not canonical. Here the inputs of a tick are sorted, and floats keep all their bits."""

from zoo.flock import Flock


class OrderOfInputs(Flock):
    def move(self, inputs):
        super().move(inputs)
        for row, place in sorted(inputs or ()):  # HERE: OrderOfInputs
            self.state["x"][row] = place


class RoundedInput(Flock):
    def age(self, inputs):
        super().age(inputs)
        for row, food in inputs or ():
            meal = float(food) / 3  # HERE: RoundedInput
            self.state["energy"][row] += meal
