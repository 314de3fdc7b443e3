"""Passes over all cells and all plants as loops for numba to compile; on large meadows they are faster than NumPy.

Each loop gives the same result as the NumPy code next to its call, to the last bit. Tests compare both with each other
and with a second implementation. The loops are never run uncompiled: that would take seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from sim.worlds.meadow.model.numba_loops import fetch_ahead

Function = TypeVar("Function", bound=Callable[..., Any])

# Unsigned numbers of one size on both sides of each operation: compiled or not, they are computed alike.
_ROUNDS = 10
_FIRST, _SECOND = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)  # See sim.kernel.arithmetic.counter_rng.
_WEYL_FIRST, _WEYL_SECOND = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)

PLANTS_AHEAD = 16  # Enough to hide the time of an access to memory.

Grid = Any  # (height, width) int64, or (layers, height, width).
Column = Any  # One number per row of a table, or a flattened grid.


def by_shape(function: Function) -> Function:
    """Say of a loop that its indices follow from the shapes of its arrays, or that it checks them: the compiler need not."""
    function.checks_indices = False  # type: ignore[attr-defined]
    return function


@by_shape
def spread_over(energy: Grid, toxins: Grid, above: Column, here: Column, below: Column, flow: Grid) -> None:
    """Compute flow_field.spread; above, here, below: buffers for rows of the values that spread."""
    height, width = energy.shape
    for y in range(-1, height):
        if y + 1 < height:
            row = energy[y + 1]
            for x in range(width):
                below[x] = row[x]
            for layer in range(len(toxins)):
                row = toxins[layer, y + 1]
                for x in range(width):
                    below[x] -= row[x]
        else:
            for x in range(width):
                below[x] = 0
        if y >= 0:
            row = flow[y]
            rows = int(y > 0) + int(y + 1 < height)
            if rows == 2:
                for x in range(1, width - 1):
                    row[x] = here[x] + ((above[x] + below[x] + here[x - 1] + here[x + 1]) >> 3)
                row[0] = spread_at_edge(above, here, below, 0, rows)
                row[width - 1] = spread_at_edge(above, here, below, width - 1, rows)
            else:
                for x in range(width):
                    row[x] = spread_at_edge(above, here, below, x, rows)
        above, here, below = here, below, above


def spread_at_edge(above: Column, here: Column, below: Column, x: int, rows: int) -> int:
    """Return the flow of a cell that has fewer than four neighbours. rows: above and below; others are zeros."""
    near, count = 0, rows
    if rows > 0:
        near = above[x] + below[x]
    if x > 0:
        near, count = near + here[x - 1], count + 1
    if x + 1 < len(here):
        near, count = near + here[x + 1], count + 1
    return here[x] + near // max(2 * count, 1)  # type: ignore[no-any-return]


def hide_plants(ids: Column, species: Column, y: Column, x: Column, camouflage: Column, flow: Grid) -> None:
    """Attenuate the flow in the cells of camouflaged plants. camouflage: by species, 65,536 for none."""
    for row in range(len(ids)):
        factor = camouflage[species[row]]
        if factor < 65_536 and ids[row] != 0:
            flow[y[row], x[row]] = (flow[y[row], x[row]] * factor) >> 16


@by_shape
def take_over(new: Column, field: Column, differs: Column) -> int:
    """Write values to a field, flag those that changed, and return their number."""
    count = 0
    for place in range(len(field)):
        is_new = field[place] != new[place]
        differs[place] = is_new
        field[place] = new[place]
        count += is_new
    return count


def carry_row(old: Grid, east: Column, south: Column, y: int, carried: Column) -> None:
    """Bring a row of cells what the wind carries there: the contents of one cell each, 0 from outside.

    carried: receives a row, between two cells that stay as they are. Cells with the same wind come in runs.
    """
    height, width = old.shape
    others = 0
    for x in range(width):
        others += int(east[x] != east[0]) + int(south[x] != south[0])
    is_same, x = others == 0, 0  # In most rows: then the loop below is not needed, which goes cell by cell.
    while x < width:
        end = width if is_same else x + 1
        while end < width and east[end] == east[x] and south[end] == south[x]:
            end += 1
        from_y, shift = y - ((south[x] + 32_768) >> 16), -((east[x] + 32_768) >> 16)
        first, last = (max(x, -shift), min(end, width - shift)) if 0 <= from_y < height else (end, end)
        first = min(first, end)
        last = max(last, first)
        carried[1 + x : 1 + first] = 0
        carried[1 + first : 1 + last] = old[min(max(from_y, 0), height - 1), first + shift : last + shift]
        carried[1 + last : 1 + end] = 0
        x = end


@by_shape
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
            carry_row(old, wind[0, y], wind[1, y], y, carried)
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
                is_new = row[x] != left
                flags[x] = is_new
                row[x] = left
                count += is_new
        above, here, below = here, below, above
    return count


def grow_plants(
    energy: Column, species: Column, ids: Column, last: Column, tick: int, step: Column, energy_max: Column,
    threshold: Column, seed_cost: Column, interval: Column, changed: Column, dying: Column, parents: Column,
    losers: Column,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Compute lifecycle.grow. Writes the rows into the last four buffers and returns their counts."""
    changed_count, dying_count, parent_count, loser_count = 0, 0, 0, 0
    for row in range(len(energy)):
        if ids[row] != 0:
            kind = species[row]
            grown = min(max(energy[row] + step[kind], 0), energy_max[kind])
            changed[changed_count] = row
            changed_count += grown != energy[row]  # No branch: it could not be predicted.
            if grown < energy[row]:
                losers[loser_count] = row
                loser_count += 1
            energy[row] = grown
            if grown < threshold[kind]:
                dying[dying_count] = row
                dying_count += 1
            if tick - last[row] >= interval[kind] and grown - seed_cost[kind] >= threshold[kind]:
                parents[parent_count] = row
                parent_count += 1
    return changed_count, dying_count, parent_count, loser_count


@by_shape
def publish_plants(
    occupant: Column, species: Column, energy: Column, written: Column, seen: Column, sums: Column, seen_sums: Column,
    cells: Column, rows: Column, rewritten: Column, shown: Column, changed: Column,
) -> tuple[int, int]:  # fmt: skip
    """Compute layers.publish. Writes the indices into the last three buffers; returns how many were rewritten and shown.

    occupant: by cell, the row of its plant plus 1. cells, rows: buffers for all plants, and one more.
    Each plant touches four places in memory. They are fetched ahead, in the order of the cells, and no branch waits for
    them. Its indices are checked before.
    """
    count, size = 0, len(sums)
    for cell in range(size):
        if count == len(cells):
            raise IndexError("more cells name a plant than there are rows")
        cells[count], rows[count] = cell, occupant[cell] - 1
        count += occupant[cell] != 0
    for place in range(count):
        row = rows[place]
        if row < 0 or row >= len(energy) or species[row] < 0 or species[row] * size >= len(written):
            raise IndexError("a cell names a row outside of the table, or a plant of no species")
    rewritten_count, shown_count = 0, 0
    for place in range(count):
        ahead = min(place + PLANTS_AHEAD, count - 1)
        number = species[rows[ahead]] * size + cells[ahead]
        fetch_ahead(written, number)
        fetch_ahead(seen, number)
        fetch_ahead(sums, cells[ahead])
        fetch_ahead(seen_sums, cells[ahead])
        row, cell = rows[place], cells[place]
        number = species[row] * size + cell
        value = max(energy[row], 0)
        rewritten[rewritten_count] = number
        rewritten_count += written[number] != value
        shown[shown_count], changed[shown_count] = number, cell
        shown_count += seen[number] != value
        change = value - seen[number]
        written[number] = seen[number] = value
        seen_sums[cell] += change
        sums[cell] = seen_sums[cell] if change != 0 else sums[cell]
    return rewritten_count, shown_count


@by_shape
def sum_by_species(ids: Column, species: Column, energy: Column, counts: Column, sums: Column) -> None:
    """Count the rows in use, and add up their energies, by species."""
    for kind in range(
        len(counts)
    ):  # To go through all rows for each takes less than additions that wait for each other.
        count, total = 0, 0
        for row in range(len(ids)):
            is_one = int(species[row] == kind) * int(ids[row] != 0)
            count += is_one
            total += is_one * energy[row]
        counts[kind], sums[kind] = count, total


def count_at(cells: Column, heads: Column, counts: Column) -> None:
    """Add the heads of each swarm to the count of its cell."""
    for place in range(len(cells)):
        counts[cells[place]] += heads[place]


def set_changed(column: Column, rows: Column, values: Column, changed: Column) -> int:
    """Write values to these rows of a column; write the rows that changed into the buffer, and return their number."""
    count = 0
    for place in range(len(rows)):
        row = rows[place]
        changed[count] = row
        count += column[row] != values[place]
        column[row] = values[place]
    return count


def find_pairs(
    occupant: Grid, links: Grid, species: Column, can_pay: Column, between_species: int, rows: Column,
    neighbours: Column, directions: Column,
) -> int:  # fmt: skip
    """Compute mycorrhiza.possible_pairs. Writes the pairs into the last three buffers; returns their number."""
    height, width = occupant.shape
    count = 0
    for y in range(height):
        for x in range(width):
            row = occupant[y, x] - 1
            if row < 0 or not can_pay[row]:
                continue
            for direction in range(2):
                near_x, near_y = x + 1 - direction, y + direction
                if near_x == width or near_y == height or links[row, direction] != 0:
                    continue
                near = occupant[near_y, near_x] - 1
                if near >= 0 and can_pay[near] and (between_species != 0 or species[row] == species[near]):
                    rows[count], neighbours[count], directions[count] = row, near, direction
                    count += 1
    return count


def list_living(ids: Column, species: Column, wanted: Column, rows: Column) -> int:
    """Write the rows in use that are of the wanted species into the buffer, one longer than needed; return their number."""
    count = 0
    for row in range(len(ids)):
        rows[count] = row
        count += ids[row] != 0 and wanted[species[row]]
    return count


@by_shape
def list_nonzero(values: Column, most: int, places: Column) -> int:
    """Write the places of the values that are not 0, in their order, into the buffer, until there are most; return their number."""
    count = 0
    for part in range((len(values) + 63) // 64):
        begin, end = 64 * part, min(64 * part + 64, len(values))
        found = 0
        for place in range(end - begin):  # Most parts are empty.
            found |= values[begin + place]
        if found != 0:
            for place in range(begin, end):
                if values[place] != 0 and count < most:
                    places[count] = place
                    count += 1
            if count == most:
                break
    return count


@by_shape
def draw_first_words(ids: Column, tick: Any, top: Any, key0: Any, key1: Any, words: Column) -> None:
    """Write the first word of each id into words; the other arguments are uint64."""
    for place in range(len(ids)):
        entity = np.uint64(ids[place])
        a, b, c, d = np.uint64(0), entity & _LOW, tick, top | (entity >> _SHIFT)
        first_key, second_key = key0, key1
        for _ in range(_ROUNDS):
            first, second = _FIRST * a, _SECOND * c
            a, b = (second >> _SHIFT) ^ b ^ first_key, second & _LOW
            c, d = (first >> _SHIFT) ^ d ^ second_key, first & _LOW
            first_key, second_key = (first_key + _WEYL_FIRST) & _LOW, (second_key + _WEYL_SECOND) & _LOW
        words[place] = a


def gather_swarms(
    rows: Column, energy: Column, population: Column, x: Column, y: Column, cooldown: Column, repelled: Column,
    steer: Column, species: Column, move_words: Column, split_words: Column, swarms: Grid,
) -> None:  # fmt: skip
    """Compute interaction.swarm_columns: copy the columns of the table and the words to the rows of swarm_turn.py."""
    for place in range(len(rows)):
        row, swarm = rows[place], swarms[place]
        swarm[0], swarm[1], swarm[2], swarm[3] = energy[row], population[row], x[row], y[row]
        swarm[4], swarm[5], swarm[6], swarm[7] = cooldown[row], repelled[row], steer[row], species[row]
        swarm[8], swarm[9], swarm[10] = move_words[place], split_words[place], -1
        for item in range(11, len(swarm)):
            swarm[item] = 0
