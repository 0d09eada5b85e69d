"""Which service writes to the database, and which one started a run."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "service_lease",
        sa.Column("key", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("key"),
        comment="Which service writes to this database; one row. See lease.py.",
    )
    op.add_column("runs", sa.Column("launched_from", sa.Text(), nullable=True))
