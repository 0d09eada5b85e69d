"""How far each node of an attempt has come, the GPUs a node was given, and which rank logged a point."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "parts",
        sa.Column("attempt_id", sa.Text(), nullable=False),
        sa.Column("node", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("run", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["runs.sequence"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("attempt_id", "node"),
        comment="How far each node of an attempt has come.",
        sqlite_with_rowid=False,
    )
    op.create_index("parts_by_run", "parts", ["run"], unique=False)
    op.add_column("nodes", sa.Column("gpus", sa.Text(), nullable=True))
    op.add_column("metric_chunks", sa.Column("ranks", sa.LargeBinary(), nullable=True))
