"""Who submitted a run, and who registered an asset."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("runs", "assets"):
        op.add_column(table, sa.Column("created_by", sa.Text(), nullable=False, server_default=""))
    op.create_index("runs_by_creator", "runs", ["workspace", "created_by", "sequence"])
