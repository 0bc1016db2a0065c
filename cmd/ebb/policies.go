package main

import (
	"context"
	"os"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/broker/policysource"
	"github.com/ebb-broker/ebb/cmd/internal/config"
)

// openPolicies loads the policies of a server.
func openPolicies(ctx context.Context, s settings, store policyStore) (*policysource.Source, error) {
	c := policysource.Config{Dir: s.Policy, Store: store, Log: s.Log, Now: s.Now}
	if c.Dir == nil && s.PolicyDir != "" {
		c.Dir = os.DirFS(s.PolicyDir)
	}
	if s.PolicySource == config.PolicyDatabase {
		c.Releases = store
	}
	src, err := policysource.Open(ctx, c)
	switch {
	case err == nil:
		return src, nil
	case policyset.Problems(err) != nil && s.PolicyDir != "":
		return nil, usage(err.Error(), "`ebb policy check "+s.PolicyDir+"` checks the policies without starting ebb")
	case policyset.Problems(err) != nil:
		return nil, fail("this version of ebb cannot parse the published policies: "+err.Error(), "start the version that published them, and publish policies that both versions accept")
	case c.Releases != nil:
		return nil, fail("read the published policies: "+err.Error(), "check the database")
	}
	return nil, fail("read the policies: "+err.Error(), "check policy_dir (EBB_POLICY_DIR)")
}

// policyStore stores both the audit log and the published policies.
type policyStore interface {
	broker.Store
	broker.PolicyReleases
}
