package main

import (
	"context"
	"strconv"

	"ebb/broker/provider"
	"ebb/cmd/ebb/internal/ask"
	"ebb/cmd/ebb/internal/box"
)

// givePG asks for a database before CMD starts: its name leads through the proxy, and the
// variables of libpq (PostgreSQL, "Environment Variables") say where it is and hold a
// placeholder for the password. The proxy is on the box's own loopback: nothing is encrypted
// up to there.
func (c *cli) givePG(ctx context.Context, s ask.Sandbox, in *boxed) error {
	if in.pg.Empty() {
		return nil
	}
	cred, err := c.placeholder(ctx, s, in, in.pg, "ebb run --pg")
	if err != nil {
		return err
	}
	at := cred.Endpoint
	if at == nil || at.Protocol != provider.PostgreSQL || at.Host.Port == 0 {
		return usage("--pg: what "+in.pg.String()+" is given opens no sessions of PostgreSQL", "name a scope of a provider of kind postgres whose address is a name")
	}
	if _, way := in.spec.Sockets["out"]; way {
		if in.spec.Direct, err = box.Directs(append(in.hosts, at.Host.String())); err != nil {
			return usage("--pg: "+err.Error(), "name fewer with --host and --ssh")
		}
	}
	in.spec.Env = append(in.spec.Env,
		"PGHOST="+at.Host.Name, "PGPORT="+strconv.Itoa(int(at.Host.Port)), "PGDATABASE="+at.Database, "PGUSER="+box.User, "PGPASSWORD="+cred.Token.Reveal(),
		"PGSSLMODE=disable", "PGGSSENCMODE=disable")
	return nil
}
