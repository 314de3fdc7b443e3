"""Judge what was printed about a specimen by its declared truth: tick, path, line, cause, and what is not so."""

from __future__ import annotations

import re
from collections.abc import Iterable

import attrs

from second_zoo.specimen import Specimen
from second_zoo.user_commands import KILLED, Answer

# A line of a list of tests that were refuted or not made, and a general hint.
NOT_CLAIMED = re.compile(r"^\s+[-?] |^\s+no Python value was seen to differ|^not tried: ")
TRACEBACK_LINE = re.compile(r'^\s+(File "|[\^~]+$)')
NAMED_LINE = re.compile(r"([\w]+\.py):(\d+)")
DESYNC_TICK = re.compile(r"DESYNC at tick ([\d,]+)|first different at tick ([\d,]+)|tick ([\d,]+) differs between")

# Lists of all that a test covers: they name no cause.
COVERED = re.compile(
    r"(?<=non-deterministic step) \([^)]*\)|possible: [^;)]*|a clock, unseeded randomness, threads or memory addresses"
)

# Claims about a cause, and the truths of which one makes the claim so.
CLAIMS = {
    "hidden state": (
        re.compile(r"! hidden state|reads hidden state|HIDDEN STATE|which a restore does not bring back"),
        {
            "hidden",
            "random",
            "entropy",
            "clock",
            "nondeterministic",
            "file",
            "load",
            "threads",
            "memory",
            "process",
            "environment",
        },
    ),
    "hidden state behind chance": (re.compile(r"hidden state takes part"), {"hidden", "random", "file", "load"}),
    "a restore that loses something": (
        re.compile(r"! a restore that does not bring back"),
        {"load", "hidden", "order"},
    ),
    "not deterministic": (
        re.compile(r"! something besides the state and the inputs|step is not deterministic"),
        {"nondeterministic", "hidden"},
    ),
    "order of a set": (re.compile(r"! the iteration order of sets"), {"order", "hash", "seed"}),
    "another environment": (re.compile(r"! a different environment"), {"environment", "file"}),
    "another version of the code": (re.compile(r"versions of the code differ"), {"code"}),
    "changed between steps": (re.compile(r"(was|were) changed between tick"), {"between"}),
}
# Causes that are listed as refuted, and the truth that makes this wrong.
REFUTATIONS = {"hidden state": (re.compile(r"^ +- hidden state(?! that the run itself).*", re.MULTILINE), "hidden")}
# What is so of no specimen.
NEVER = {
    "a version of the code, or of a library, not at hand": re.compile(r"needs a version of the code, or of a library"),
    "both sides are the same": re.compile(
        r"\b(?:recorded|live|first) (\S.*), (?:replayed|restored|second) \1$", re.MULTILINE
    ),
    "live and copy are the same": re.compile(r": (\S.*) in the live run, \1 for the copy"),
    "both variants are the same": re.compile(r"^ +(?:\[[\d, ]+\] +)?A +(\S.*)\n +B +\1$", re.MULTILINE),
}
# One says that all runs gave the same, the other that none did.
CONTRADICTION = (
    re.compile(r"all variants give the same state"),
    re.compile(r"different states in different runs|the step raised|step is not deterministic"),
)
INTERNALS = re.compile(r"_captured|_packer|trusted\[|graph\.\d|\.cells\.|object at 0x|sim/adapters|recorder/adapted")


@attrs.frozen
class Verdict:
    """How right the answers about one specimen are.

    Attributes:
        name, family, summary, is_sound: of the specimen.
        tick, path, line, cause: True if right; None if nothing is to be found (of a sound program, or no line).
        false: each sentence that is not so, or alarm about a sound program.
        internals: each printed line with a name of the library's own.
        failures: crashes and hangs.
        told_by: the commands whose output has the cause.
        reported: the tick and the line that were reported.
        seconds: wall time of each command.
    """

    name: str
    family: str
    summary: str
    is_sound: bool
    tick: bool | None
    path: bool | None
    line: bool | None
    cause: bool | None
    false: list[str]
    internals: list[str]
    failures: list[str]
    told_by: list[str]
    reported: str
    seconds: dict[str, float]


def claimed_lines(specimen: Specimen, output: str) -> list[str]:
    """The lines that claim something: not refuted, not untested, and not quoted from the source."""
    return [
        COVERED.sub("", line)
        for line in output.splitlines()
        if not NOT_CLAIMED.match(line)
        and not TRACEBACK_LINE.match(line)
        and not any(line.strip().endswith(quoted) for quoted in specimen.source_lines if len(quoted) > 12)
        and line.strip() not in specimen.source_lines
    ]


def judge(specimen: Specimen, answers: Iterable[Answer]) -> Verdict:
    """Judge all answers about a specimen."""
    answers = list(answers)
    texts = {answer.name: "\n".join(claimed_lines(specimen, answer.output)) for answer in answers}
    asked = [answer for answer in answers if answer.name not in {"record", "retried"}]
    false = [sentence for answer in answers for sentence in false_sentences(specimen, answer, texts[answer.name])]
    failures = [failure for answer in answers for failure in failures_of(answer)]
    if not asked:
        failures.append("it cannot be recorded")
    told_by = [name for name, text in texts.items() if specimen.causes and tells_all(specimen, text)]
    everything = "\n".join(texts.values())
    compared = "\n".join(texts.get(name, "") for name in ("verify", "diff", "explain"))
    tick, line = reported_tick(asked), reported_line(specimen, asked)
    is_sound = specimen.is_sound
    return Verdict(
        name=specimen.name,
        family=specimen.family,
        summary=specimen.summary,
        is_sound=is_sound,
        tick=None if is_sound else tick in specimen.tick,
        path=None if is_sound else any(re.search(path, compared) for path in specimen.paths),
        line=line in specimen.marked_lines if specimen.has_line else None,
        cause=None if is_sound else tells_all(specimen, everything),
        false=false,
        internals=[text for text in everything.splitlines() if INTERNALS.search(text)],
        failures=failures,
        told_by=told_by,
        reported=f"tick {tick}, line {':'.join(map(str, line)) if line else None}",
        seconds={answer.name: round(answer.seconds, 1) for answer in answers},
    )


def tells_all(specimen: Specimen, text: str) -> bool:
    """True if a text has everything that the declared cause asks for."""
    return all(re.search(cause, text, re.IGNORECASE) for cause in specimen.causes)


def reported_tick(answers: list[Answer]) -> int | None:
    """The first bad tick: that of verify or diff, else that of explain."""
    by_name = {answer.name: answer.output for answer in answers}
    for name in ("verify", "diff", "explain"):
        match = DESYNC_TICK.search(by_name.get(name, ""))
        if match:
            return int(next(group for group in match.groups() if group).replace(",", ""))
    return None


def reported_line(specimen: Specimen, answers: list[Answer]) -> tuple[str, int] | None:
    """The first line of the specimen that explain names as the cause, else the first that any other command names."""
    files = {f"{specimen.name}.py", *(name.rpartition("/")[2] for name in specimen.files)}
    by_name = {answer.name: answer.output for answer in answers}
    explained = by_name.get("explain", "")
    for text in (explained.partition("cause:")[2], explained, by_name.get("check", ""), by_name.get("verify", "")):
        for match in NAMED_LINE.finditer(text):
            if match[1] in files:
                return match[1], int(match[2])
    return None


def false_sentences(specimen: Specimen, answer: Answer, text: str) -> list[str]:
    """The sentences of one answer that are not so."""
    found = [
        f"{answer.name}: {what}: {match[0].strip()!r}" for what, claim in NEVER.items() if (match := claim.search(text))
    ]
    found += [
        f"{answer.name}: claims {what}: {match[0]!r}"
        for what, (claim, truths) in CLAIMS.items()
        if (match := claim.search(text)) and not truths & true_claims(specimen)
    ]
    found += [
        f"{answer.name}: refutes {what}: {match[0].strip()!r}"
        for what, (denial, truth) in REFUTATIONS.items()
        if (match := denial.search(answer.output)) and truth in specimen.truths
    ]
    found += [f"{answer.name}: {match[0]!r}" for sentence in specimen.false if (match := re.search(sentence, text))]
    named = reported_line(specimen, [answer]) if answer.name == "explain" and "cause:" in text else None
    if named and specimen.has_line and named not in specimen.marked_lines:
        found.append(f"{answer.name}: names {named[0]}:{named[1]} as the cause")
    if all(part.search(text) for part in CONTRADICTION):
        found.append(f"{answer.name}: says that all variants give the same state, and that they do not")
    if specimen.is_sound:
        if answer.code not in {0, KILLED} and "Unknown option" not in answer.output:
            found.append(f"{answer.name}: exit code {answer.code}")
        if "RecordingWarning" in text:
            found.append(f"{answer.name}: {text.partition('RecordingWarning')[2][:200]!r}")
    return found


def true_claims(specimen: Specimen) -> set[str]:
    """The declared truths, and what is so of the conditions: a decoy may differ without being the cause."""
    differs = specimen.record.env != specimen.replay.env or specimen.replay.run
    return set(specimen.truths) | ({"environment"} if differs else set())


def failures_of(answer: Answer) -> list[str]:
    """A crash or a hang of one command."""
    if answer.code == KILLED:
        return [f"{answer.name}: hangs"]
    if answer.name not in {"record", "retried"} and "Traceback (most recent call last)" in answer.output:
        return [f"{answer.name}: crashes"]
    return [f"{answer.name}: signal {-answer.code}"] if answer.code < 0 else []
