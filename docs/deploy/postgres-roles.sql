-- The database of ebb and its two roles, for psql as an administrator of PostgreSQL 14 or newer. Neither role has a password
-- yet, so neither can log in with one. ebb_owner migrates the schema (`ebb migrate`). ebb is the role of `ebb serve`: it reads
-- and writes rows, and can neither create nor change a table. `ebb migrate` takes from it the rights to change and delete
-- entries of the audit log: only ebb_owner keeps them.
CREATE ROLE ebb_owner LOGIN;
CREATE ROLE ebb LOGIN;
CREATE DATABASE ebb OWNER ebb_owner;
REVOKE ALL ON DATABASE ebb FROM PUBLIC;
GRANT CONNECT ON DATABASE ebb TO ebb;
\connect ebb
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE, CREATE ON SCHEMA public TO ebb_owner;
GRANT USAGE ON SCHEMA public TO ebb;
ALTER DEFAULT PRIVILEGES FOR ROLE ebb_owner IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO ebb;
