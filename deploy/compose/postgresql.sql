-- Run once by the image of PostgreSQL, when its volume is empty. Passwords come from the environment: on no command line and in no file.
\set ON_ERROR_STOP on
\getenv afterturn_password DATABASE_PASSWORD
\getenv temporal_password TEMPORAL_DATABASE_PASSWORD

CREATE ROLE afterturn LOGIN PASSWORD :'afterturn_password';
CREATE ROLE temporal LOGIN PASSWORD :'temporal_password';

-- Owners, not superusers: migrations make tables, and Temporal's visibility schema a trusted extension (btree_gin).
CREATE DATABASE afterturn OWNER afterturn;
CREATE DATABASE temporal OWNER temporal;
CREATE DATABASE temporal_visibility OWNER temporal;

REVOKE CONNECT ON DATABASE afterturn, temporal, temporal_visibility FROM PUBLIC;
