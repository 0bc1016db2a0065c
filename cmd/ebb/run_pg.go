package main

import (
	"context"
	"strconv"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/ask"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/box"
)

// givePG requests database access before CMD starts. The database's host name
// leads through the proxy, and the variables of libpq (PostgreSQL, "Environment
// Variables") contain its address, and a placeholder as the password. The
// connection to the proxy is not encrypted, because it stays on the sandbox's
// loopback.
func (c runCommand) givePG(ctx context.Context, s ask.Sandbox, in *boxed) error {
	if in.pg.Empty() {
		return nil
	}
	cred, err := runReport(c).placeholder(ctx, s, in, in.pg, "ebb run --pg")
	if err != nil {
		return err
	}
	at := cred.Endpoint
	var host stricturl.Host
	if at != nil {
		host, err = stricturl.ParseHost(at.Host, 0)
	}
	if at == nil || err != nil || at.Protocol != provider.PostgreSQL {
		return usage("--pg: the credential for "+in.pg.String()+" is not for PostgreSQL", "name a scope of a provider of kind postgres whose address is a host name")
	}
	if _, way := in.spec.Sockets["out"]; way {
		if in.spec.Direct, err = box.Directs(append(in.hosts, host.String())); err != nil {
			return usage("--pg: "+err.Error(), "name fewer hosts with --host and --ssh")
		}
	}
	in.spec.Env = append(in.spec.Env,
		"PGHOST="+host.Name, "PGPORT="+strconv.Itoa(int(host.Port)), "PGDATABASE="+at.Database, "PGUSER="+box.User, "PGPASSWORD="+cred.Token.Reveal(),
		"PGSSLMODE=disable", "PGGSSENCMODE=disable")
	return nil
}
