"""The phase sight of a meadow with players, cell by cell. Written from docs/meadow-rules.md alone."""

from __future__ import annotations

from oracle.naive_state import NaiveState


def sight(naive: NaiveState) -> None:
    """Each player notes the contents of the cells in its sight."""
    for number, (species, player) in enumerate(naive.players.items()):
        swarms = naive.living("swarms")
        own = [(swarm["x"], swarm["y"]) for swarm in swarms if swarm["species"] == species]
        visible = naive.energy[naive.front]
        for x, y in naive.cells():
            if not any(abs(x - own_x) <= player.sight and abs(y - own_y) <= player.sight for own_x, own_y in own):
                continue
            food = sum(layer[y][x] for layer, eaten in zip(visible, naive.config.diet[species], strict=True) if eaten)
            naive.last_seen[number][y][x] = naive.tick
            naive.seen_plants[number][y][x] = sum(layer[y][x] for layer in visible)
            naive.seen_food[number][y][x] = food
            naive.seen_others[number][y][x] = naive.heads_at(x, y) - naive.heads_at(x, y, species)
