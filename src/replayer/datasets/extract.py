"""Extract a data set from recordings: inspect the tapes, plan the parts, let workers do them, write the manifest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import attrs

from recorder.exit_codes import SAME
from recorder.location.tape_location import Location, tape_location
from recorder.location.tape_url import TapeUrl
from recorder.processes.engines.engine import Engine, engine_pool
from recorder.processes.inline_pool import InlinePool, local_pool
from recorder.processes.pool import Pool
from replayer.datasets.build import (
    COLUMNS,
    Building,
    assemble_store,
    begun_manifest,
    code_of,
    ensure_same_request,
    listed_losses,
    table_entry,
    write_record_tables,
)
from replayer.datasets.functions import Setting
from replayer.datasets.manifest import PARTS_FORMAT
from replayer.datasets.parts.inspect_tapes import inspect_tapes
from replayer.datasets.parts.run_parts import run_parts
from replayer.datasets.parts.warn_losses import warn_of_manifest
from replayer.datasets.parts.worker import PartRecord
from replayer.datasets.plan import (
    DatasetPart,
    TapeInput,
    chosen_agents,
    ensure_pairs_hold,
    make_parts,
)
from replayer.datasets.plan_transitions import TransitionPlan, ensure_transitions, plan_transitions
from replayer.datasets.request import ExtractionError, Request, list_tapes, make_request
from replayer.datasets.rows.pairs import RAW, is_raw
from replayer.datasets.stores.store_formats import Store, ensure_rate, find_store
from replayer.datasets.task import Task
from replayer.datasets.transitions.agent_methods import (
    ACTIONS_METHOD,
    OF_TRANSITIONS,
    ensure_functions_used,
    methods_of_tapes,
)
from replayer.datasets.transitions.column_forms import MisfitError
from replayer.datasets.transitions.transition_rows import TRANSITIONS
from replayer.playback.make_simulation import Factory, UnfitSimulationError
from replayer.tape.tape import Tape

if TYPE_CHECKING:
    from replayer.datasets.in_memory import StreamedDataset
    from replayer.datasets.table import DatasetTable

Progress = Callable[[int, int], None]  # Ticks done so far, ticks in all.


@attrs.frozen
class Extraction:
    """The result of an extraction.

    Attributes:
        path: the data set's folder, or its URL.
        manifest: its contents and their origin, see docs/extract.md.
        code: 0 nothing is missing, 1 a replayed state differs from the recorded one, 3 or 4 as the worst of the tapes.
        added_nothing: True after append=True if the data set held the runs of all tapes already.
    """

    path: Location
    manifest: Mapping[str, Any]
    code: int
    added_nothing: bool = False

    def _repr_html_(self) -> str:
        from replayer.report.notebook import dataset_html  # noqa: PLC0415 - only notebooks ask for it

        return dataset_html(self.path, self.manifest)

    @property
    def rows(self) -> dict[str, int]:
        """The number of rows by table."""
        return {name: table["rows"] for name, table in self.manifest["tables"].items()}

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that have rows."""
        return tuple(self.manifest["tables"])

    def table(self, name: str, *, split: str | None = None) -> DatasetTable:
        """A table, as Dataset(path).table() returns it."""
        from replayer.datasets.dataset import Dataset  # noqa: PLC0415 - pyarrow is an extra

        return Dataset(self.path).table(name, split=split)


Tapes = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@overload
def extract(
    tapes: Tapes,
    output: None = None,
    *,
    world: Factory | None = None,
    jobs: int = 1,
    pool: Pool | None = None,
    engine: str | Engine | None = None,
    **wanted: Any,
) -> StreamedDataset: ...
@overload
def extract(
    tapes: Tapes,
    output: str | os.PathLike[str],
    *,
    world: Factory | None = None,
    jobs: int = 1,
    file_format: str = "parquet",
    fps: float | None = None,
    append: bool = False,
    progress: Progress | None = None,
    looking: Callable[[int], None] | None = None,
    command: Sequence[str] = (),
    pool: Pool | None = None,
    engine: str | Engine | None = None,
    **wanted: Any,
) -> Extraction: ...


def extract(
    tapes: Tapes,
    output: str | os.PathLike[str] | None = None,
    *,
    world: Factory | None = None,
    jobs: int = 1,
    file_format: str = "parquet",
    fps: float | None = None,
    append: bool = False,
    progress: Progress | None = None,
    looking: Callable[[int], None] | None = None,
    command: Sequence[str] = (),
    pool: Pool | None = None,
    engine: str | Engine | None = None,
    **wanted: Any,
) -> Extraction | StreamedDataset:
    """Extract a data set from tapes, or folders of tapes, into the new folder output. A stopped extraction continues.

    Tapes, folders and output may be URLs. Without output nothing is written: the tables of the returned data set are made, part by part, when they are read.

    world: makes the simulation, for tapes that name no registered world. jobs: the number of processes, which does not
    change the files; tables that are not written are made in the process that reads them. file_format: "parquet",
    "arrow", "zarr", "minari" or "lerobot". fps: frames per second of lerobot; None takes the environment's render_fps, or
    else 30. append: if output exists, read only tapes that it does not hold, and add their rows (not
    of lerobot); the request must be the same. progress: called with the ticks done and all ticks; looking, before
    that, with the number of tapes inspected. command: for the manifest. pool: runs the parts instead of processes forked here, see
    recorder.processes.pool. engine: "ray", "ray:ADDRESS" or a RayEngine runs them there, in a folder that all machines share;
    jobs as for verify_tape. wanted: see Request.

    Warns with an ExtractionWarning of each tape of which rows are missing. Raises ExtractionError for a request that cannot
    be met, OSError, and as opening a tape and making its simulation do.
    """
    request = wanted["request"] if "request" in wanted else make_request(wanted, extract.__kwdefaults__)
    ensure_rate(fps, file_format)
    find_store(file_format)  # Before the first import of pyarrow, which would raise ModuleNotFoundError.
    paths = list_tapes([tapes] if isinstance(tapes, str | os.PathLike) else tapes)
    import replayer.datasets.stores.arrow_files  # noqa: F401, PLC0415 - once here, not in each worker; pyarrow is an extra

    with engine_pool(engine, jobs if jobs > 1 else None, other=pool) as found:
        place = found if found is not None else local_pool(jobs)
        has_engine = found is not None and pool is None
        processes = None if has_engine and jobs == 1 else jobs  # An engine has as many as its machines have processors.
        run = partial(
            _extract, request, world, place, processes, file_format, fps, progress, looking or (lambda _: None), command
        )
        return _extract_to(output, paths, run, append=append)


def _extract_to(
    output: str | os.PathLike[str] | None, paths: Sequence[Location], run: Callable[..., Any], *, append: bool
) -> Extraction | StreamedDataset:
    if output is not None and isinstance(url := tape_location(output), TapeUrl):
        return _extract_to_url(url, paths, run, append=append)
    if output is None or not append or not os.path.lexists(output):
        return run(paths, None if output is None else Path(output), None)  # type: ignore[no-any-return]
    from replayer.datasets.append import append_tapes  # noqa: PLC0415 - pyarrow is an extra
    from replayer.datasets.dataset import Dataset  # noqa: PLC0415 - pyarrow is an extra

    made = append_tapes(Path(output), paths, run)
    return Extraction(Path(output), Dataset(output).manifest, SAME if made is None else made.code, made is None)


def _extract_to_url(url: TapeUrl, paths: Sequence[Location], run: Callable[..., Any], *, append: bool) -> Extraction:
    from replayer.datasets.remote.url_growth import has_data_set  # noqa: PLC0415 - rarely needed
    from replayer.datasets.remote.url_output import extracted_to  # noqa: PLC0415 - rarely needed

    if append and has_data_set(url):
        from replayer.datasets.append import append_tapes_at_url  # noqa: PLC0415 - pyarrow is an extra

        manifest, made = append_tapes_at_url(url, paths, run)
        return Extraction(url, manifest, SAME if made is None else made.code, made is None)
    extracted: list[Extraction] = []
    extracted_to(url, lambda folder: extracted.append(run(paths, folder, None)))
    return attrs.evolve(extracted[0], path=url)


def _extract(
    request: Request,
    world: Factory | None,
    pool: Pool,
    jobs: int | None,
    file_format: str,
    fps: float | None,
    progress: Progress | None,
    looking: Callable[[int], None],
    command: Sequence[str],
    paths: Sequence[Location],
    output: Path | None,
    onto: Mapping[str, Any] | None,
) -> Extraction | StreamedDataset:
    """Extract into the new folder output. jobs: the processes of the pool; None if they are not known. onto: the manifest of the data set that the rows are added to afterwards."""
    store = find_store(file_format)
    building = Building(output) if output is not None else None
    # To fork takes as long as to read a tape of this machine.
    is_read_here = jobs == 1 and not any(isinstance(path, TapeUrl) for path in paths)
    readers = InlinePool() if is_read_here else None
    inspected = inspect_tapes(paths, request, world, pool, looking, readers=readers)
    sources = inspected.sources
    folder = building.folder if building is not None else Path()
    task = make_task(sources, request, world, folder, file_format if store is None else PARTS_FORMAT)
    task = attrs.evolve(task, fps=fps)
    manifest = begun_manifest(sources, task, inspected.notes)
    if building is None:
        from replayer.datasets.in_memory import StreamedDataset  # noqa: PLC0415 - pyarrow is an extra

        task, parts, plan = _planned(task, pool, None)
        manifest["notes"] = inspected.notes + (plan.noted() if plan is not None else [])
        return StreamedDataset(task, parts, manifest | {"missing": listed_losses(sources, (), ())})
    manifest["format"] = file_format
    if onto is not None:
        ensure_same_request(building.target.parent, onto, manifest)
    if store is not None:
        manifest["versions"] |= store.versions()
    try:
        task, parts, records, about = _parts_done(task, building, manifest, pool, jobs, progress, store, onto)
        tables = _tables_of(task, parts, records, building, store)
    except (ExtractionError, UnfitSimulationError):
        building.abandon()
        raise
    missing = listed_losses(sources, parts, records)
    manifest |= {"tables": dict(sorted(tables.items())), "missing": missing, "command": list(command)} | about
    manifest["problems"] = [problem for record in records for problem in record.problems]
    building.finish(manifest)
    warn_of_manifest(manifest)
    return Extraction(building.target, manifest, code_of(inspected, records))


def _tables_of(
    task: Task,
    parts: Sequence[DatasetPart],
    records: Sequence[PartRecord],
    building: Building,
    store: Store | None,
) -> dict[str, dict[str, Any]]:
    """Complete the files; return the entries of the tables for the manifest."""
    tables = {
        table: table_entry(table, records, parts, task.sources)
        for table in dict.fromkeys(name for record in records for name in record.files)
        if table not in task.record_tables
    }
    tables |= write_record_tables(task, records)
    if store is not None:
        tables = assemble_store(store, building, tables, task)
    return tables


def _planned(
    task: Task, pool: Pool, stored: Mapping[str, Any] | None, onto: Mapping[str, Any] | None = None
) -> tuple[Task, Sequence[DatasetPart], TransitionPlan | None]:
    """Make the parts; for the table of transitions settle its columns, too. stored: those that were begun with.

    onto: the manifest of the data set that the rows are added to.
    """
    if not task.settled_tables:
        return task, make_parts(task.sources, task.request), None
    plan = plan_transitions(task, pool, stored, onto=onto)
    return plan.task, plan.parts, plan


def _parts_done(
    task: Task,
    building: Building,
    manifest: Mapping[str, Any],
    pool: Pool,
    jobs: int | None,
    progress: Progress | None,
    store: Store | None,
    onto: Mapping[str, Any] | None,
) -> tuple[Task, Sequence[DatasetPart], list[PartRecord], dict[str, Any]]:
    """Plan and extract all parts; the last item has entries for the manifest."""
    task, parts, plan = _planned(task, pool, building.begun_columns(manifest), onto)
    if store is not None:
        store.ensure_fits(task)
    checks = None if store is None else store.ensure_columns
    as_begun = {**manifest, "parts": len(parts)}
    if plan is None:
        done = building.begin(as_begun)
        return task, parts, run_parts(task, parts, done, building.keep, pool, jobs, progress, checks), {}
    notes = [*manifest["notes"], *plan.noted(manifest["format"])]  # Before any work: a filter may make it an error.
    done = building.begin(as_begun | {COLUMNS: plan.plain()})
    try:
        records = run_parts(task, parts, done, building.keep, pool, jobs, progress, checks)
    except MisfitError:
        if plan.of_all_steps:
            raise
        plan = plan.with_all_steps(pool)  # Later steps return something else than the first ones.
        building.abandon()
        done = building.begin(as_begun | {COLUMNS: plan.plain()})
        records = run_parts(plan.task, parts, done, building.keep, pool, jobs, progress, checks)
    return plan.task, parts, records, {"environments": plan.environments(), "notes": notes}


def make_task(
    sources: Sequence[TapeInput], request: Request, world: Factory | None, folder: Path, file_format: str
) -> Task:
    """Make the task of all workers, with defaults for what the request leaves open. Raises ExtractionError."""
    setting = sources[0].setting(world)
    methods = methods_of_tapes(sources, request, world)
    tables = request.tables or _default_tables(sources, request, setting, methods)
    ensure_functions_used(request, tables)
    if TRANSITIONS in tables:
        ensure_transitions(sources, request, methods)
    elif request.info:
        raise ExtractionError(
            "infos are columns of the table transitions: add it to the tables (--table transitions), or leave --info out"
        )
    if "pairs" not in tables and (request.observations or request.rewards or request.actions):
        raise ExtractionError(
            "observations, rewards and encodings of actions are columns of the table pairs: add it to the tables"
        )
    if "pairs" in tables:
        for source in sources:
            ensure_pairs_hold(source, request)
    observed = request.observations
    if "pairs" in tables and not observed and not request.fields:
        default = setting.default("observation")
        if default is None:
            raise ExtractionError(
                "pairs need an observation: give one as module:function (--observe), or give fields (--field)"
            )
        observed = (default,)
    request = attrs.evolve(request, observations=observed, tables=tables)
    all_agents = [source.setting(world).agents() for source in sources]
    if setting.world is None and request.agents is not None:
        all_agents = [request.agents for _ in sources]  # Only the user knows who acts there.
    elif request.agents is not None:
        unknown = next((name for name in request.agents if not any(name in own for own in all_agents)), None)
        if unknown is not None:
            known = ", ".join(name or '""' for name in dict.fromkeys(name for own in all_agents for name in own))
            raise ExtractionError(f"there is no agent {unknown}; agents: {known}")
        all_agents = [tuple(name for name in own if name in request.agents) for own in all_agents]
    agents = chosen_agents(sources, all_agents, request)
    encodings = _encodings(sources[0], request, world) if "pairs" in tables else ()
    has_actions = ACTIONS_METHOD in methods and "actions" in tables
    return Task(sources, request, tables, agents, encodings, world, file_format, folder, has_agent_actions=has_actions)


def _default_tables(
    sources: Sequence[TapeInput], request: Request, setting: Setting, methods: AbstractSet[str]
) -> tuple[str, ...]:
    if request.observations or request.rewards or request.actions or request.mode != "all":
        return ("pairs",)
    if any(source.environment for source in sources) and not request.long:
        return (TRANSITIONS,)
    if methods >= {*OF_TRANSITIONS} and not request.fields and not request.long:
        return (TRANSITIONS,)
    return ("pairs",) if setting.agents() != ("",) and not request.fields else ("states",)


def _encodings(source: TapeInput, request: Request, world: Factory | None) -> tuple[str, ...]:
    """Choose the encodings of actions: as requested, else the world's own, else raw inputs if they are numbers."""
    if request.actions is not None:
        return request.actions
    default = source.setting(world).default("action array")
    if default is not None:
        return (default,)
    with Tape(source.path) as tape:
        first = tape.first_tick + 1
        return (RAW,) if first <= tape.last_tick and is_raw(tape.frame(first).inputs) else ()
