"""Passes over all cells and all plants as loops for numba to compile; on large meadows they are faster than NumPy.

Each loop gives the same result as the NumPy code next to its call, to the last bit. Tests compare both with each other
and with a second implementation. The loops are never run uncompiled: that would take seconds.
"""

from __future__ import annotations

from typing import Any

from sim.worlds.meadow.model.memory_ahead import fetch_ahead

PLANTS_AHEAD = 24  # Enough to hide the time of an access to memory.

Grid = Any  # (height, width) int64, or (layers, height, width).
Column = Any  # One number per row of a table, or a flattened grid.


def spread_over(energy: Grid, toxins: Grid, base: Grid, flow: Grid) -> None:
    """Compute flow_field.spread; base is a buffer for the values that spread."""
    height, width = energy.shape
    for y in range(height):
        for x in range(width):
            base[y, x] = energy[y, x]
        for layer in range(len(toxins)):
            for x in range(width):
                base[y, x] -= toxins[layer, y, x]
    for y in range(height):
        if 0 < y < height - 1:
            for x in range(1, width - 1):
                near = base[y - 1, x] + base[y + 1, x] + base[y, x - 1] + base[y, x + 1]
                flow[y, x] = base[y, x] + (near >> 3)
            flow[y, 0] = spread_at_edge(base, y, 0)
            flow[y, width - 1] = spread_at_edge(base, y, width - 1)
        else:
            for x in range(width):
                flow[y, x] = spread_at_edge(base, y, x)


def spread_at_edge(base: Grid, y: int, x: int) -> int:
    """Return the flow of a cell that has fewer than four neighbours."""
    near, count = 0, 0
    if x + 1 < base.shape[1]:
        near, count = near + base[y, x + 1], count + 1
    if y + 1 < base.shape[0]:
        near, count = near + base[y + 1, x], count + 1
    if x > 0:
        near, count = near + base[y, x - 1], count + 1
    if y > 0:
        near, count = near + base[y - 1, x], count + 1
    return base[y, x] + near // max(2 * count, 1)  # type: ignore[no-any-return]


def spread_signal(
    old: Grid, wind: Grid, decay: int, epsilon: int, carried: Column, above: Column, here: Column, below: Column,
    new: Grid, differs: Grid,
) -> int:  # fmt: skip
    """Compute transport.spread; flag the cells of new that changed, and return their number.

    carried: buffer of a row plus a cell on each side; above, here, below: rows of zeros.
    """
    height, width = old.shape
    count = 0
    for y in range(height + 1):
        if y < height:
            east, south = wind[0, y], wind[1, y]
            for x in range(width):
                from_y = y - ((south[x] + 32_768) >> 16)
                from_x = x - ((east[x] + 32_768) >> 16)
                inside = 0 <= from_y < height and 0 <= from_x < width
                carried[x + 1] = old[from_y, from_x] if inside else 0
            for x in range(width):
                below[x] = carried[x] + 2 * carried[x + 1] + carried[x + 2]
        else:
            for x in range(width):
                below[x] = 0
        if y > 0:
            row, flags = new[y - 1], differs[y - 1]
            for x in range(width):
                left = (((above[x] + 2 * here[x] + below[x]) >> 4) * decay) >> 16
                left = left if left >= epsilon else 0
                flags[x] = row[x] != left
                row[x] = left
            for x in range(width):
                count += flags[x]
        above, here, below = here, below, above
    return count


def grow_plants(
    energy: Column, species: Column, ids: Column, last: Column, tick: int, step: Column, energy_max: Column,
    threshold: Column, seed_cost: Column, interval: Column, changed: Column, dying: Column, parents: Column,
) -> tuple[int, int, int]:  # fmt: skip
    """Compute lifecycle.grow. Writes the rows into the last three buffers and returns their counts."""
    changed_count, dying_count, parent_count = 0, 0, 0
    for row in range(len(energy)):
        if ids[row] != 0:
            kind = species[row]
            grown = min(max(energy[row] + step[kind], 0), energy_max[kind])
            if grown != energy[row]:
                energy[row] = grown
                changed[changed_count] = row
                changed_count += 1
            if grown < threshold[kind]:
                dying[dying_count] = row
                dying_count += 1
            if tick - last[row] >= interval[kind] and grown - seed_cost[kind] >= threshold[kind]:
                parents[parent_count] = row
                parent_count += 1
    return changed_count, dying_count, parent_count


def publish_plants(
    rows: Column, species: Column, y: Column, x: Column, energy: Column, width: int, written: Column, seen: Column,
    sums: Column, seen_sums: Column, rewritten: Column, shown: Column, cells: Column,
) -> tuple[int, int]:  # fmt: skip
    """Compute layers.publish. Writes the indices into the last three buffers; returns how many were rewritten and shown.

    Each plant touches four places in memory. They are fetched ahead, and no branch waits for them.
    """
    rewritten_count, shown_count, count, size = 0, 0, len(rows), len(sums)
    for place in range(count):
        row = rows[min(place + PLANTS_AHEAD, count - 1)]
        cell = y[row] * width + x[row]
        number = species[row] * size + cell
        fetch_ahead(written, number)
        fetch_ahead(seen, number)
        fetch_ahead(sums, cell)
        fetch_ahead(seen_sums, cell)
        row = rows[place]
        cell = y[row] * width + x[row]
        number = species[row] * size + cell
        value = max(energy[row], 0)
        rewritten[rewritten_count] = number
        rewritten_count += written[number] != value
        shown[shown_count], cells[shown_count] = number, cell
        shown_count += seen[number] != value
        written[number] = seen[number] = value
        sums[cell] = seen_sums[cell] = value  # The only plant of the cell.
    return rewritten_count, shown_count
