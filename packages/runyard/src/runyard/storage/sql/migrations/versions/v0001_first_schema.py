"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_asset_names()
    _create_assets()
    _create_experiments()
    _create_nodes()
    _create_snapshots()
    _create_workspaces()
    _create_runs()
    _create_journals()
    _create_metrics()
    _create_run_details()
    _create_run_events()
    _create_run_files()
    _create_run_labels()
    _create_metric_chunks()


def _create_asset_names() -> None:
    op.create_table(
        "asset_names",
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("last_version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("workspace", "kind", "name"),
        comment="The last version number given out, so that none is given twice.",
        sqlite_with_rowid=False,
    )


def _create_assets() -> None:
    op.create_table(
        "assets",
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("modified_at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("workspace", "kind", "name", "version"),
        sa.UniqueConstraint("id"),
    )


def _create_experiments() -> None:
    op.create_table(
        "experiments",
        sa.Column("key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("archived_at", sa.BigInteger(), nullable=True),
        sa.Column("last_number", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
        sa.UniqueConstraint("workspace", "name", name="experiments_by_name"),
    )


def _create_nodes() -> None:
    op.create_table(
        "nodes",
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("workspace", "cluster", "name"),
    )
    op.create_index("nodes_by_run", "nodes", ["run_id"], unique=False)


def _create_snapshots() -> None:
    op.create_table(
        "snapshots",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("entries", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def _create_workspaces() -> None:
    op.create_table(
        "workspaces",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("resource_group", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("friendly_name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("sequence", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("experiment", sa.Text(), nullable=False),
        sa.Column("experiment_key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("finished", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("display_name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("parent_id", sa.Text(), nullable=True),
        sa.Column("root_id", sa.Text(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("snapshot_id", sa.Text(), nullable=True),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("properties", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("warnings", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("ticket", sa.Text(), nullable=False),
        sa.Column("nodes", sa.Text(), nullable=False),
        sa.Column("dropped_points", sa.BigInteger(), nullable=False),
        sa.Column("exit_facts", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["experiment_key"],
            ["experiments.key"],
        ),
        sa.PrimaryKeyConstraint("sequence"),
        sa.UniqueConstraint("id"),
    )
    op.create_index(
        "open_runs",
        "runs",
        ["sequence"],
        unique=False,
        sqlite_where=sa.text("finished = 0"),
        postgresql_where=sa.text("finished = false"),
    )
    op.create_index("runs_by_experiment", "runs", ["experiment_key", "sequence"], unique=False)
    op.create_index("runs_by_parent", "runs", ["parent_id", "sequence"], unique=False)
    op.create_index("runs_by_status", "runs", ["workspace", "status", "sequence"], unique=False)
    op.create_index("runs_by_workspace", "runs", ["workspace", "sequence"], unique=False)
    op.create_index(
        "top_runs_by_experiment",
        "runs",
        ["experiment_key", "sequence"],
        unique=False,
        sqlite_where=sa.text("parent_id IS NULL"),
        postgresql_where=sa.text("parent_id IS NULL"),
    )
    op.create_index(
        "top_runs_by_workspace",
        "runs",
        ["workspace", "sequence"],
        unique=False,
        sqlite_where=sa.text("parent_id IS NULL"),
        postgresql_where=sa.text("parent_id IS NULL"),
    )


def _create_journals() -> None:
    op.create_table(
        "journals",
        sa.Column("run", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("journal", sa.Text(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["runs.sequence"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run", "journal"),
        comment="Up to which byte each journal of a run is stored.",
        sqlite_with_rowid=False,
    )


def _create_metrics() -> None:
    op.create_table(
        "metrics",
        sa.Column("key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("run", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name_key", sa.Text(), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("experiment_key", sa.BigInteger(), nullable=False),
        sa.Column("last_part", sa.Integer(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.Double(), nullable=True),
        sa.Column("minimum", sa.Double(), nullable=True),
        sa.Column("maximum", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["run"], ["runs.sequence"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key"),
        sa.UniqueConstraint("run", "name_key", "family", name="metrics_by_name"),
        comment="One row per metric of a run, with its summary.",
    )
    op.create_index(
        "metrics_by_experiment_key",
        "metrics",
        ["experiment_key", "name_key", "last", "run"],
        unique=False,
        sqlite_where=sa.text("last IS NOT NULL"),
        postgresql_where=sa.text("last IS NOT NULL"),
    )
    op.create_index(
        "metrics_by_workspace",
        "metrics",
        ["workspace", "name_key", "last", "run"],
        unique=False,
        sqlite_where=sa.text("last IS NOT NULL"),
        postgresql_where=sa.text("last IS NOT NULL"),
    )


def _create_run_details() -> None:
    op.create_table(
        "run_details",
        sa.Column("run", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("environment_lock", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["runs.sequence"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run"),
        comment="What is large about a run and not wanted in listings.",
    )


def _create_run_events() -> None:
    op.create_table(
        "run_events",
        sa.Column("key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("run", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["runs.sequence"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_index("run_events_by_run", "run_events", ["run", "key"], unique=False)


def _create_run_files() -> None:
    op.create_table(
        "run_files",
        sa.Column("run", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("path_key", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("mode", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["runs.sequence"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run", "path_key"),
        sqlite_with_rowid=False,
    )


def _create_run_labels() -> None:
    op.create_table(
        "run_labels",
        sa.Column("label", sa.LargeBinary(), nullable=False),
        sa.Column("run", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["runs.sequence"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("label", "run"),
        comment="Tags and properties by digest, for filters; see labels.py.",
        sqlite_with_rowid=False,
    )
    op.create_index("run_labels_by_run", "run_labels", ["run"], unique=False)


def _create_metric_chunks() -> None:
    op.create_table(
        "metric_chunks",
        sa.Column("metric", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("values", sa.LargeBinary(), nullable=False),
        sa.Column("steps", sa.LargeBinary(), nullable=True),
        sa.Column("at", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["metric"], ["metrics.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("metric", "part"),
        comment="Points of a metric, packed; see packing.py.",
    )
