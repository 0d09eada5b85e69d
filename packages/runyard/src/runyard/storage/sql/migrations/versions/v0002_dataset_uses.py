"""Which datasets runs read and wrote."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "dataset_uses",
        sa.Column("key", key, nullable=False),
        sa.Column("run", key, nullable=False),
        sa.Column("direction", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("dataset_id", sa.Text(), nullable=False),
        sa.Column("dataset_name", sa.Text(), nullable=False),
        sa.Column("dataset_version", sa.Integer(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["runs.sequence"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key"),
        sa.UniqueConstraint("run", "direction", "name", "dataset_id", name="dataset_uses_by_run"),
        comment="Which dataset versions a run read and wrote.",
    )
    op.create_index("dataset_uses_by_dataset", "dataset_uses", ["dataset_id", "key"], unique=False)
