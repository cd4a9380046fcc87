"""``python -m memory.stores.migrations "what changes"``: draft a migration from the difference between rows.py and the versions."""

from __future__ import annotations

import sys

from alembic import command

from memory.stores.migrations import config, upgrade
from memory.stores.tables.engine import WRITE_OPTION, database_url, make_engine


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit('usage: python -m memory.stores.migrations "what changes"')
    engine = make_engine(database_url("sqlite://"), pool_size=1)
    with engine.execution_options(**{WRITE_OPTION: True}).begin() as connection:
        upgrade(connection)
        scripts = config(connection)
        made = command.revision(scripts, message=sys.argv[1], autogenerate=True)
    if made is None or isinstance(made, list):
        sys.exit("Alembic made no single migration")
    sys.stdout.write(f"{made.path}\nRead it, complete it, and run the migration tests.\n")


if __name__ == "__main__":
    main()
