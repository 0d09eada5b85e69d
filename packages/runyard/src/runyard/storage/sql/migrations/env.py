"""Run by Alembic. `migrate` passes the connection and commits its transaction."""

from alembic import context

from runyard.storage.sql.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transaction_per_migration=False,
)
context.run_migrations()
