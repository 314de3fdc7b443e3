"""The rules of the world organisms again, from docs/organisms.md: one organism after the other, dicts and plain loops."""

from __future__ import annotations

from typing import Any

from sim.kernel.arithmetic.counter_rng import KeyedRandom
from sim.kernel.state import State
from sim.worlds.organisms.config import read_config

OPS = "nop inc dec add sub swap zero jz jback load read copy divide eat sense skip".split()  # noqa: SIM905 - the order counts
COUNTED = ("instructions", "copies", "mutations", "births", "starved", "reaped", "reseeded", "injected")
REGISTERS = ("ip", "a", "b", "copied", "age_in_instructions", "error_count")


class NaiveOrganisms:
    """The same world: organisms by id, seeds by program."""

    def __init__(self, plain: dict[str, Any]) -> None:
        self.config = read_config(plain)
        self.random = KeyedRandom(self.config.seed)
        self.tick, self.next_id = 0, 1
        self.pool = min(self.config.inflow, self.config.pool_max)
        self.counts = dict.fromkeys(COUNTED, 0)
        self.organisms: dict[int, dict[str, Any]] = {}
        self.bank: dict[tuple[int, ...], list[int]] = {}  # first tick, births, reseeded
        programs = [self.parse(text) for text in self.config.ancestors]
        for number in range(min(max(self.config.organisms_min, len(programs)), self.config.organisms_max)):
            self.bear(programs[number % len(programs)], self.config.start_energy, 0, 0)
        self.end_tick()

    @staticmethod
    def parse(text: str) -> list[int]:
        return [OPS.index(word) for word in text.split()]

    def bear(self, genome: list[int], energy: int, mother: int, generation: int) -> None:
        self.organisms[self.next_id] = {
            "genome": genome, "child": [], "energy": energy, "max_energy": energy, "created_at": self.tick,
            "mother": mother, "generation": generation, **dict.fromkeys(REGISTERS, 0),
        }  # fmt: skip
        self.next_id += 1
        self.bank.setdefault(tuple(genome), [self.tick, 0, 0])[1] += 1

    def step(self, inputs: list[dict[str, Any]]) -> None:
        config = self.config
        self.tick += 1
        if self.pool < config.pool_max:
            self.pool = min(self.pool + config.inflow, config.pool_max)
        injected = []
        for item in inputs:
            if item["kind"] == "feed":
                self.pool += item["amount"]
            else:
                injected += [self.parse(item["program"])] * item["count"]
        level = self.pool & 0xFFFF
        wishes = {number: self.run_slice(number, one, level) for number, one in self.organisms.items()}
        living = [number for number, one in self.organisms.items() if one["energy"] > 0]
        asked = sum(wishes[number][0] for number in living)
        share = min(config.bite, self.pool // asked) if asked else 0
        for number in living:
            one = self.organisms[number]
            taken = max(0, min(share * wishes[number][0], config.energy_max - one["energy"]))
            one["energy"] += taken
            one["max_energy"] = max(one["max_energy"], one["energy"])
            self.pool -= taken
        for number, (_, born) in wishes.items():
            for genome, energy in born:
                self.bear(genome, energy, number, self.organisms[number]["generation"] + 1)
                self.counts["births"] += 1
        for genome in sorted(injected):
            self.bear(genome, config.start_energy, 0, 0)
            self.counts["injected"] += 1
        self.end_tick()

    def end_tick(self) -> None:
        config = self.config
        for number in [number for number, one in self.organisms.items() if one["energy"] <= 0]:
            del self.organisms[number]
            self.counts["starved"] += 1

        def worst(number: int) -> tuple[int, int, int]:
            one = self.organisms[number]
            return -one["error_count"], -one["age_in_instructions"], number

        while len(self.organisms) > config.organisms_max:
            del self.organisms[min(self.organisms, key=worst)]
            self.counts["reaped"] += 1
        while len(self.organisms) < config.organisms_min and self.bank:
            usage = [genome for genome, seed in self.bank.items() for _ in range(seed[1])]
            genome = usage[self.random.numbers(1, self.tick, self.next_id)[0] * len(usage) >> 32]
            self.bank[genome][2] += 1
            self.counts["reseeded"] += 1
            self.bear(list(genome), config.start_energy, 0, 0)
        while len(self.bank) > config.seed_bank_max:
            del self.bank[min(self.bank, key=lambda genome: (self.bank[genome][1], self.bank[genome][0], genome))]

    def run_slice(  # noqa: PLR0912 - a branch for each operation
        self, number: int, one: dict[str, Any], level: int
    ) -> tuple[int, list[tuple[list[int], int]]]:
        genome, config = one["genome"], self.config
        asked, copies, born = 0, 0, []
        for _ in range(config.slice):
            if one["energy"] <= 0:
                break
            one["energy"] -= 1
            one["age_in_instructions"] += 1
            self.counts["instructions"] += 1
            word, one["ip"] = OPS[genome[one["ip"]]], (one["ip"] + 1) % len(genome)
            match word:
                case "inc":
                    one["a"] = (one["a"] + 1) % 65536
                case "dec":
                    one["a"] = (one["a"] - 1) % 65536
                case "add":
                    one["a"] = (one["a"] + one["b"]) % 65536
                case "sub":
                    one["a"] = (one["a"] - one["b"]) % 65536
                case "swap":
                    one["a"], one["b"] = one["b"], one["a"]
                case "zero":
                    one["a"] = 0
                case "jz":
                    one["ip"] = (one["ip"] + 2 * (one["a"] == 0)) % len(genome)
                case "jback":
                    one["ip"] = (one["ip"] - genome[one["ip"]] - 1) % len(genome)
                case "load":
                    one["a"] = genome[one["ip"]]
                    one["ip"] = (one["ip"] + 1) % len(genome)
                case "read":
                    one["a"] = genome[one["b"] % len(genome)]
                case "skip":
                    one["ip"] = (one["ip"] + 1) % len(genome)
                case "sense":
                    one["a"] = level
                case "eat":
                    asked += 1
                case "copy" if len(one["child"]) >= 64:
                    one["error_count"] += 1
                case "copy":
                    self.copy(number, one, copies)
                    copies += 1
                case "divide":
                    if one["copied"] < len(genome) or len(one["child"]) < 4 or one["energy"] < config.divide_energy:
                        one["error_count"] += 1
                        continue
                    half = one["energy"] // 2
                    one["energy"] -= half
                    born.append((one["child"], half))
                    one["child"], one["copied"] = [], 0
        return asked, born

    def copy(self, number: int, one: dict[str, Any], copies: int) -> None:
        config = self.config
        self.counts["copies"] += 1
        words = self.random.numbers(0, self.tick, number, copies)
        hits = [
            bool(one_in) and word * one_in >> 32 == 0
            for word, one_in in ((words[0], config.mutation), (words[2], config.slip), (words[3], config.slip))
        ]
        self.counts["mutations"] += any(hits)
        if not hits[1]:
            one["child"].append(words[1] % 16 if hits[0] else one["genome"][one["copied"] % len(one["genome"])])
        if hits[2] and len(one["child"]) < 64:
            one["child"].append((words[1] >> 8) % 16)
        one["copied"] += 1

    def differs_from(self, state: State) -> str | None:
        """The first thing that differs from a state; None if they are equal."""
        own: dict[str, Any] = {"tick": self.tick, "next_id": self.next_id, "pool": self.pool}
        own["statistics"] = [self.counts[name] for name in COUNTED]
        own["seed_bank.genome"] = [list(genome) + [0] * (64 - len(genome)) for genome in self.bank]
        own["seed_bank.size"] = [len(genome) for genome in self.bank]
        for index, name in enumerate(("first", "births", "reseeded")):
            own[f"seed_bank.{name}"] = [seed[index] for seed in self.bank.values()]
        own["organisms.id"] = list(self.organisms)
        for name in ("energy", "max_energy", "created_at", "mother", "generation", *REGISTERS):
            own[f"organisms.{name}"] = [one[name] for one in self.organisms.values()]
        for name, size in (("genome", "size"), ("child", "child_size")):
            rows = [one[name] for one in self.organisms.values()]
            own[f"organisms.{name}"] = [row + [0] * (64 - len(row)) for row in rows]
            own[f"organisms.{size}"] = list(map(len, rows))
        for name, value in own.items():
            if state[name].tolist() != value:
                return f"{name} at tick {self.tick}: expected {value}, got {state[name].tolist()}"
        return None
