package main

import (
	"context"
	"os"

	"ebb/broker"
	"ebb/broker/policyset"
	"ebb/broker/policysource"
	"ebb/cmd/ebb/internal/config"
)

// openPolicies loads the policies that a server decides by.
func openPolicies(ctx context.Context, s settings, journal policyJournal) (*policysource.Source, error) {
	c := policysource.Config{Dir: s.Policy, Journal: journal, Log: s.Log, Now: s.Now}
	if c.Dir == nil && s.PolicyDir != "" {
		c.Dir = os.DirFS(s.PolicyDir)
	}
	if s.PolicySource == config.PolicyDatabase {
		c.Releases = journal
	}
	src, err := policysource.Open(ctx, c)
	switch {
	case err == nil:
		return src, nil
	case policyset.Problems(err) != nil && s.PolicyDir != "":
		return nil, &failure{exitUsage, err.Error(), "`ebb policy check " + s.PolicyDir + "` checks without starting"}
	case policyset.Problems(err) != nil:
		return nil, fail("the published policies cannot be read by this version of ebb: "+err.Error(), "start the version that published them, and publish what both understand")
	case c.Releases != nil:
		return nil, fail("the published policies cannot be read: "+err.Error(), "look at the database")
	}
	return nil, fail("the policies cannot be read: "+err.Error(), "check policy_dir (EBB_POLICY_DIR)")
}

// policyJournal is what keeps both the record and what was published.
type policyJournal interface {
	broker.Journal
	broker.PolicyReleases
}
