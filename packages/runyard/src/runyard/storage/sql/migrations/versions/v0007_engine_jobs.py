"""The id that an engine gave to the job of a run's attempt."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("job_id", sa.Text(), nullable=True))
