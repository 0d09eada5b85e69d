"""The tables. `runs.sequence` orders runs by creation, and all rows of a run refer to it.

A change here needs a migration in `migrations/versions` and a new HEAD.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    UniqueConstraint,
    event,
    false,
)

from runyard.storage.sql.columns import JsonText, ShownJsonText, StorableText, UtcTime

HEAD = "0007"

metadata = MetaData()
# SQLite numbers rows itself only if the type of the key is exactly INTEGER.
_RowKey = BigInteger().with_variant(Integer(), "sqlite")


def _run_key(*, primary_key: bool = False) -> Column[int]:
    return Column("run", ForeignKey("runs.sequence", ondelete="CASCADE"), primary_key=primary_key, nullable=False)


_partial: dict[Index, ColumnElement[bool]] = {}


def _partial_index(name: str, *columns: Column[Any], where: ColumnElement[bool]) -> None:
    """Index the rows for which `where` holds."""
    _partial[Index(name, *columns, sqlite_where=where)] = where


@event.listens_for(metadata, "before_create")
def _limit_indexes_on_postgres(target: MetaData, connection: Connection, **_: Any) -> None:
    """Set the conditions late: setting them imports SQLAlchemy's PostgreSQL, which SQLite users do not need."""
    if connection.dialect.name == "postgresql":
        for index, where in _partial.items():
            index.dialect_options["postgresql"]["where"] = where


workspaces = Table(
    "workspaces",
    metadata,
    Column("name", StorableText, primary_key=True),
    Column("id", StorableText, nullable=False),
    Column("subscription_id", StorableText, nullable=False),
    Column("resource_group", StorableText, nullable=False),
    Column("location", StorableText, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("friendly_name", StorableText, nullable=False),
    Column("description", StorableText, nullable=False),
    Column("tags", JsonText, nullable=False),
)

experiments = Table(
    "experiments",
    metadata,
    Column("key", _RowKey, primary_key=True),
    Column("workspace", StorableText, nullable=False),
    Column("name", StorableText, nullable=False),
    Column("id", StorableText, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("description", StorableText, nullable=False),
    Column("tags", JsonText, nullable=False),
    Column("archived_at", UtcTime),
    Column("last_number", Integer, nullable=False),
    UniqueConstraint("workspace", "name", name="experiments_by_name"),
)

runs = Table(
    "runs",
    metadata,
    Column("sequence", _RowKey, primary_key=True),
    Column("id", StorableText, nullable=False, unique=True),
    Column("workspace", StorableText, nullable=False),
    Column("experiment", StorableText, nullable=False),
    Column("experiment_key", ForeignKey("experiments.key"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("status", StorableText, nullable=False),
    Column("finished", Boolean, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("version", Integer, nullable=False),
    Column("type", StorableText, nullable=False),
    Column("target", StorableText, nullable=False),
    Column("display_name", StorableText, nullable=False),
    Column("description", StorableText, nullable=False),
    Column("parent_id", StorableText),
    Column("root_id", StorableText),
    Column("started_at", UtcTime),
    Column("ended_at", UtcTime),
    Column("snapshot_id", StorableText),
    Column("tags", JsonText, nullable=False),
    Column("properties", JsonText, nullable=False),
    Column("error", JsonText),
    Column("warnings", JsonText, nullable=False),
    Column("message", StorableText, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("ticket", StorableText, nullable=False),
    Column("nodes", JsonText, nullable=False),
    Column("dropped_points", BigInteger, nullable=False),
    Column("exit_facts", JsonText),
    Column("launched_from", StorableText),
    Column("created_by", StorableText, nullable=False, server_default=""),
    Column("job_id", StorableText),
)
_TOP = runs.c.parent_id.is_(None)
_OPEN = runs.c.finished == false()
Index("runs_by_workspace", runs.c.workspace, runs.c.sequence)
Index("runs_by_experiment", runs.c.experiment_key, runs.c.sequence)
_partial_index("top_runs_by_workspace", runs.c.workspace, runs.c.sequence, where=_TOP)
_partial_index("top_runs_by_experiment", runs.c.experiment_key, runs.c.sequence, where=_TOP)
Index("runs_by_status", runs.c.workspace, runs.c.status, runs.c.sequence)
Index("runs_by_creator", runs.c.workspace, runs.c.created_by, runs.c.sequence)
Index("runs_by_parent", runs.c.parent_id, runs.c.sequence)
_partial_index("open_runs", runs.c.sequence, where=_OPEN)

run_details = Table(
    "run_details",
    metadata,
    _run_key(primary_key=True),
    Column("definition", JsonText, nullable=False),
    Column("environment_lock", StorableText, nullable=False),
    comment="What is large about a run and not wanted in listings.",
)

run_labels = Table(
    "run_labels",
    metadata,
    Column("label", LargeBinary, primary_key=True),
    _run_key(primary_key=True),
    Index("run_labels_by_run", "run"),
    sqlite_with_rowid=False,
    comment="Tags and properties by digest, for filters; see labels.py.",
)

run_events = Table(
    "run_events",
    metadata,
    Column("key", _RowKey, primary_key=True),
    _run_key(),
    Column("at", UtcTime, nullable=False),
    Column("kind", StorableText, nullable=False),
    Column("text", StorableText, nullable=False),
    Index("run_events_by_run", "run", "key"),
)

journals = Table(
    "journals",
    metadata,
    _run_key(primary_key=True),
    Column("journal", StorableText, primary_key=True),
    Column("offset", BigInteger, nullable=False),
    sqlite_with_rowid=False,
    comment="Up to which byte each journal of a run is stored.",
)

metrics = Table(
    "metrics",
    metadata,
    Column("key", _RowKey, primary_key=True),
    _run_key(),
    Column("name_key", StorableText, nullable=False),
    Column("family", StorableText, nullable=False),
    Column("name", StorableText, nullable=False),
    Column("kind", StorableText, nullable=False),
    Column("workspace", StorableText, nullable=False),
    Column("experiment_key", BigInteger, nullable=False),
    Column("last_part", Integer, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("last", Double),
    Column("minimum", Double),
    Column("maximum", Double),
    Column("scored_rank", Integer),
    Column("scored_count", BigInteger),
    Column("scored_minimum", Double),
    Column("scored_maximum", Double),
    UniqueConstraint("run", "name_key", "family", name="metrics_by_name"),
    comment="One row per metric of a run, with its summary.",
)
_NUMERIC = metrics.c.last.isnot(None)
for _scope in (metrics.c.workspace, metrics.c.experiment_key):
    _partial_index(
        f"metrics_by_{_scope.name}", _scope, metrics.c.name_key, metrics.c.last, metrics.c.run, where=_NUMERIC
    )

metric_chunks = Table(
    "metric_chunks",
    metadata,
    Column("metric", ForeignKey("metrics.key", ondelete="CASCADE"), primary_key=True),
    Column("part", Integer, primary_key=True),
    Column("type", StorableText, nullable=False),
    Column("count", Integer, nullable=False),
    Column("values", LargeBinary, nullable=False),
    Column("steps", LargeBinary),
    Column("at", LargeBinary, nullable=False),
    Column("ranks", LargeBinary),
    comment="Points of a metric, packed; see packing.py.",
)

run_files = Table(
    "run_files",
    metadata,
    _run_key(primary_key=True),
    Column("path_key", StorableText, primary_key=True),
    Column("path", StorableText, nullable=False),
    Column("sha256", StorableText, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("mode", Integer, nullable=False),
    sqlite_with_rowid=False,
)

dataset_uses = Table(
    "dataset_uses",
    metadata,
    Column("key", _RowKey, primary_key=True),
    _run_key(),
    Column("direction", StorableText, nullable=False),
    Column("name", StorableText, nullable=False),
    Column("dataset_id", StorableText, nullable=False),
    Column("dataset_name", StorableText, nullable=False),
    Column("dataset_version", Integer, nullable=False),
    Column("mode", StorableText, nullable=False),
    Column("at", UtcTime, nullable=False),
    UniqueConstraint("run", "direction", "name", "dataset_id", name="dataset_uses_by_run"),
    Index("dataset_uses_by_dataset", "dataset_id", "key"),
    comment="Which dataset versions a run read and wrote.",
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("id", StorableText, primary_key=True),
    Column("created_at", UtcTime, nullable=False),
    Column("entries", JsonText, nullable=False),
)

asset_names = Table(
    "asset_names",
    metadata,
    Column("workspace", StorableText, primary_key=True),
    Column("kind", StorableText, primary_key=True),
    Column("name", StorableText, primary_key=True),
    Column("last_version", Integer, nullable=False),
    sqlite_with_rowid=False,
    comment="The last version number given out, so that none is given twice.",
)

assets = Table(
    "assets",
    metadata,
    Column("workspace", StorableText, primary_key=True),
    Column("kind", StorableText, primary_key=True),
    Column("name", StorableText, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("id", StorableText, nullable=False, unique=True),
    Column("created_at", UtcTime, nullable=False),
    Column("modified_at", UtcTime, nullable=False),
    Column("body", JsonText, nullable=False),
    Column("tags", JsonText, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("created_by", StorableText, nullable=False, server_default=""),
)

nodes = Table(
    "nodes",
    metadata,
    Column("workspace", StorableText, primary_key=True),
    Column("cluster", StorableText, primary_key=True),
    Column("name", StorableText, primary_key=True),
    Column("address", StorableText, nullable=False),
    Column("state", StorableText, nullable=False),
    Column("since", UtcTime, nullable=False),
    Column("run_id", StorableText),
    Column("gpus", JsonText),
    Index("nodes_by_run", "run_id"),
)

parts = Table(
    "parts",
    metadata,
    Column("attempt_id", StorableText, primary_key=True),
    Column("node", Integer, primary_key=True, autoincrement=False),
    Column("state", StorableText, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("facts", JsonText, nullable=False),
    _run_key(),
    Index("parts_by_run", "run"),
    sqlite_with_rowid=False,
    comment="How far each node of an attempt has come.",
)

trials = Table(
    "trials",
    metadata,
    Column("sweep", ForeignKey("runs.sequence", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("values", ShownJsonText, nullable=False),
    Column("resumed_from", StorableText),
    Column("stop", JsonText),
    sqlite_with_rowid=False,
    comment="What sweeps have sampled, and why a policy stopped it.",
)

service_lease = Table(
    "service_lease",
    metadata,
    Column("key", Integer, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", JsonText),
    Column("expires_at", UtcTime),
    comment="Which service writes to this database; one row. See lease.py.",
)

schema_version = Table("alembic_version", MetaData(), Column("version_num", StorableText, primary_key=True))
