#!/bin/sh
# Temporal's schema at the version of this image. The tool reads SQL_PLUGIN, SQL_HOST, SQL_PORT, SQL_USER and SQL_PASSWORD.
set -eu
for database in temporal visibility; do
  if [ "$database" = temporal ]; then name=temporal; else name=temporal_visibility; fi
  temporal-sql-tool --database "$name" setup-schema --version 0.0
  temporal-sql-tool --database "$name" update-schema --schema-dir "/etc/temporal/schema/postgresql/v12/$database/versioned"
done
