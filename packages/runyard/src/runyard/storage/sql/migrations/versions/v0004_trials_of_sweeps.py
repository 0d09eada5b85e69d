"""What sweeps have sampled, and of each metric what a trial is compared by."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "trials",
        sa.Column("sweep", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("values", sa.Text(), nullable=False),
        sa.Column("resumed_from", sa.Text(), nullable=True),
        sa.Column("stop", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["sweep"], ["runs.sequence"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("sweep", "number"),
        comment="What sweeps have sampled, and why a policy stopped it.",
        sqlite_with_rowid=False,
    )
    op.add_column("metrics", sa.Column("scored_rank", sa.Integer(), nullable=True))
    op.add_column("metrics", sa.Column("scored_count", sa.BigInteger(), nullable=True))
    op.add_column("metrics", sa.Column("scored_minimum", sa.Double(), nullable=True))
    op.add_column("metrics", sa.Column("scored_maximum", sa.Double(), nullable=True))
