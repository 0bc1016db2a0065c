package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/ebb-broker/ebb/broker/provider"
)

// minVersion is the oldest maintained PostgreSQL version with all features that Revoke needs.
const minVersion = 140000

// setVersion is the first version in which a member of a role can be kept from SET ROLE to it.
const setVersion = 160000

// CheckSetup implements provider.Checker.
func (d *Driver) CheckSetup(ctx context.Context) []provider.Finding {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var version int
	var me string
	var super, create, signal bool
	err := d.pool.QueryRow(ctx, `SELECT pg_catalog.current_setting('server_version_num')::pg_catalog.int4, r.rolname, r.rolsuper, r.rolcreaterole,
		pg_catalog.pg_has_role(r.oid, 'pg_signal_backend', 'USAGE') FROM pg_catalog.pg_roles r WHERE r.rolname = current_user`).
		Scan(&version, &me, &super, &create, &signal)
	if err != nil {
		return []provider.Finding{{Fatal: true, What: "The server cannot be reached or refuses the broker's role.",
			Remedy: "Check url and password_file, pg_hba.conf and the network; the broker's log has the cause."}}
	}
	var out []provider.Finding
	fatal := func(what, remedy string) {
		out = append(out, provider.Finding{Fatal: true, What: what, Remedy: remedy})
	}
	if version < minVersion {
		fatal(fmt.Sprintf("The server is of version %d, older than PostgreSQL 14.", version/10000), "Upgrade it.")
	}
	if !super && !create {
		fatal("The broker's role may not create roles.", "ALTER ROLE "+quote(me)+" CREATEROLE;")
	}
	if !super && !signal {
		fatal("The broker's role may not end sessions.", "GRANT pg_signal_backend TO "+quote(me)+";")
	}
	if super {
		out = append(out, provider.Finding{What: "The broker's role is a superuser.", Remedy: "Give it CREATEROLE, pg_signal_backend and ADMIN on the group roles instead."})
	}
	out = append(out, d.checkOwner(ctx, me)...)
	out = append(append(out, d.checkGroups(ctx, me, super || version < setVersion)...), d.checkPublic(ctx)...)
	if version < setVersion {
		out = append(out, d.checkCreate(ctx)...)
	}
	return out
}

// checkCreate finds group roles that may create objects. Before version 16, a lease can create
// an object as its group role. That object does not belong to the lease's role, and remains
// after its end.
func (d *Driver) checkCreate(ctx context.Context) []provider.Finding {
	var out []provider.Finding
	for _, db := range slices.Sorted(maps.Keys(d.cfg.Databases)) {
		groups := slices.Compact(slices.Sorted(maps.Values(d.cfg.Databases[db])))
		can, err := d.creators(ctx, db, groups)
		if err != nil {
			d.log.WarnContext(ctx, "what group roles may create could not be looked at", "database", db, "error", err)
			out = append(out, provider.Finding{What: "Whether a lease can leave something behind in " + quote(db) + " by SET ROLE could not be looked at.", Remedy: "The broker's log has the cause."})
		}
		for _, g := range can {
			out = append(out, provider.Finding{
				What:   "A lease can create something in " + quote(db) + " as its group role " + quote(g) + " (SET ROLE), which stays when the lease ends.",
				Remedy: "Use PostgreSQL 16 or newer, or take CREATE on the database and its schemas from " + quote(g) + ".",
			})
		}
	}
	return out
}

// creators returns those of roles that may create objects in a database.
func (d *Driver) creators(ctx context.Context, database string, roles []string) ([]string, error) {
	conn, err := d.connect(ctx, database)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // no data is lost by it
	rows, err := conn.Query(ctx, `SELECT r.rolname::pg_catalog.text FROM pg_catalog.pg_roles r WHERE r.rolname = ANY ($1) AND (
		pg_catalog.has_database_privilege(r.oid, pg_catalog.current_database(), 'CREATE') OR EXISTS (
			SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname !~ '^pg_' AND pg_catalog.has_schema_privilege(r.oid, n.oid, 'CREATE'))) ORDER BY 1`, roles)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// checkGroups checks every group role. A group role that can log in, or that has rights of an
// administrator, would pass these to sandboxes.
func (d *Driver) checkGroups(ctx context.Context, me string, mayGrant bool) []provider.Finding {
	var out []provider.Finding
	names := map[string]bool{}
	for _, actions := range d.cfg.Databases {
		for role := range maps.Values(actions) {
			names[role] = true
		}
	}
	for _, role := range slices.Sorted(maps.Keys(names)) {
		var login, mighty, admin bool
		err := d.pool.QueryRow(ctx, `SELECT g.rolcanlogin,
			g.rolsuper OR g.rolcreaterole OR g.rolcreatedb OR g.rolreplication OR g.rolbypassrls OR EXISTS (
				SELECT FROM pg_catalog.pg_roles p WHERE pg_catalog.pg_has_role(g.oid, p.oid, 'MEMBER') AND p.oid <> g.oid
				AND (p.rolsuper OR p.rolcreaterole OR p.rolbypassrls OR p.rolname IN ('pg_execute_server_program', 'pg_write_server_files', 'pg_read_server_files', 'pg_signal_backend'))),
			pg_catalog.pg_has_role($2, g.oid, 'MEMBER WITH ADMIN OPTION')
			FROM pg_catalog.pg_roles g WHERE g.rolname = $1`, role, me).Scan(&login, &mighty, &admin)
		fatal := func(what, remedy string) {
			out = append(out, provider.Finding{Fatal: true, What: what, Remedy: remedy})
		}
		switch {
		case err == pgx.ErrNoRows: //nolint:errorlint // pgx returns it bare from Scan
			fatal("The group role "+quote(role)+" does not exist.", "CREATE ROLE "+quote(role)+" NOLOGIN;")
			continue
		case err != nil:
			fatal("The group role "+quote(role)+" could not be looked at.", "The broker's log has the cause.")
			d.log.WarnContext(ctx, "a group role could not be looked at", "role", role, "error", err)
			continue
		}
		if mighty {
			fatal("The group role "+quote(role)+" can do what an administrator can.", "Use a group role with nothing but grants on the tables of its application.")
		}
		if !mayGrant && !admin {
			fatal("The broker may not make members of the group role "+quote(role)+".", "GRANT "+quote(role)+" TO "+quote(me)+" WITH ADMIN OPTION;")
		}
		if login {
			out = append(out, provider.Finding{What: "The group role " + quote(role) + " can log in by itself.", Remedy: "ALTER ROLE " + quote(role) + " NOLOGIN;"})
		}
	}
	return out
}

// checkOwner checks the role that receives tables. If it does not exist, or if the broker is
// not a member of it, the broker could not drop a role that made tables.
func (d *Driver) checkOwner(ctx context.Context, me string) []provider.Finding {
	if d.cfg.Owner == "" {
		return nil
	}
	owner := quote(d.cfg.Owner)
	fatal := func(what, remedy string) []provider.Finding {
		return []provider.Finding{{Fatal: true, What: what, Remedy: remedy}}
	}
	var mighty, member bool
	err := d.pool.QueryRow(ctx, `SELECT o.rolname = $2 OR o.rolsuper OR o.rolcreaterole OR o.rolcreatedb OR o.rolreplication OR o.rolbypassrls,
		pg_catalog.pg_has_role($2, o.oid, 'USAGE') FROM pg_catalog.pg_roles o WHERE o.rolname = $1`, d.cfg.Owner, me).Scan(&mighty, &member)
	switch {
	case err == pgx.ErrNoRows: //nolint:errorlint // pgx returns it bare from Scan
		return fatal("The role "+owner+" of owner does not exist.", "CREATE ROLE "+owner+" NOLOGIN; GRANT "+owner+" TO "+quote(me)+";")
	case err != nil:
		d.log.WarnContext(ctx, "the role of owner could not be looked at", "role", d.cfg.Owner, "error", err)
		return fatal("The role "+owner+" of owner could not be looked at.", "The broker's log has the cause.")
	case mighty:
		return fatal("The role "+owner+" of owner is the broker's own or can do what an administrator can.", "Use a NOLOGIN role that has nothing but what leases leave.")
	case !member:
		return fatal("The broker may not give tables to the role "+owner+" of owner.", "GRANT "+owner+" TO "+quote(me)+";")
	}
	return nil
}

// checkPublic finds databases that every role may connect to, independent of its scopes:
// PostgreSQL grants CONNECT to PUBLIC by default.
func (d *Driver) checkPublic(ctx context.Context) []provider.Finding {
	rows, err := d.pool.Query(ctx, `SELECT d.datname FROM pg_catalog.pg_database d, pg_catalog.aclexplode(coalesce(d.datacl, pg_catalog.acldefault('d', d.datdba))) a
		WHERE d.datallowconn AND a.grantee = 0 AND a.privilege_type = 'CONNECT' ORDER BY 1`)
	if err != nil {
		return nil
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(names) == 0 {
		return nil
	}
	var revoke strings.Builder
	for i, n := range names {
		names[i] = quote(n)
		fmt.Fprintf(&revoke, "REVOKE CONNECT, TEMPORARY ON DATABASE %s FROM PUBLIC; ", names[i])
	}
	return []provider.Finding{{
		What:   "Every role may connect to " + strings.Join(names, ", ") + ", whatever its scope says.",
		Remedy: revoke.String() + "Then GRANT CONNECT ON DATABASE to each group role.",
	}}
}
