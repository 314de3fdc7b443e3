"""Record a batch of MuJoCo simulations that JAX steps together (MJX), with every bit of their state.

    python record_mjx.py          # records, seeks, verifies; needs mujoco-mjx and jax

There is no adapter for MJX: ``save`` and ``load`` are two lines, because the state is a tree of arrays. Brax's states are
such trees, too: keep one in ``self.state``, and the two lines stay the same.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import jax
import mujoco
import numpy as np
from mujoco import mjx

import recorder
import replayer
from sim.adapters import tree_leaves, tree_like

BATCH = 4
XML = """
<mujoco>
  <option timestep="0.01"><flag contact="disable"/></option>
  <worldbody>
    <body><joint name="hinge" type="hinge" axis="0 1 0" damping="0.1"/><geom type="capsule" fromto="0 0 0 0 0 -.8" size=".05"/></body>
  </worldbody>
  <actuator><motor joint="hinge"/></actuator>
</mujoco>"""


class Pendula:
    """A batch of pendulums; each is pushed at random, with a key of its own."""

    def __init__(self) -> None:
        self.model = mjx.put_model(mujoco.MjModel.from_xml_string(XML))
        self.advance = jax.jit(self._advance)
        keys = jax.random.split(jax.random.key(0), BATCH)
        start = mjx.make_data(self.model)
        self.state = {
            "keys": keys,
            "data": jax.vmap(lambda key: start.replace(qpos=jax.random.normal(key, (1,))))(keys),
        }

    def _advance(self, state: dict[str, Any], push: float) -> dict[str, Any]:
        def one(key: Any, data: Any) -> tuple[Any, Any]:
            key, drawn = jax.random.split(key)
            return key, mjx.step(self.model, data.replace(ctrl=push + jax.random.normal(drawn, (1,))))

        keys, data = jax.vmap(one)(state["keys"], state["data"])
        return {"keys": keys, "data": data}

    def step(self, inputs: Any) -> None:
        """One step of all pendulums, with the same push."""
        self.state = self.advance(self.state, float(inputs))

    def save(self) -> dict[str, Any]:
        """The leaves of the state by their names, such as state.data.qpos."""
        return tree_leaves(self.state, "state")

    def load(self, saved: dict[str, Any]) -> None:
        """A tree like the present one, with the saved arrays, which are JAX's again."""
        self.state = tree_like(self.state, saved, "state")


def main(path: Path, ticks: int = 60) -> None:
    """Record, seek back, compare with the live run, verify."""
    pendula = Pendula()
    with recorder.Recorder(path, pendula) as tape:
        for tick in range(ticks):
            tape.step(np.sin(tick / 10))
            if tick + 1 == ticks // 2:
                live = np.asarray(pendula.state["data"].qpos).tobytes()
    run = replayer.open(path, world=Pendula)
    run.seek(ticks // 2)
    print("the same after a seek:", np.asarray(run.simulation.state["data"].qpos).tobytes() == live)
    print("angles on the tape:", run.state["state.data.qpos"].shape)
    print("verified:", run.verify().ok)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder) / "pendula.tape")
