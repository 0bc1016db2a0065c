package provider_test

import (
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/provider"
)

//ebb:invariant I6 With `GODEBUG=fips140=only`, a PostgreSQL server that requests MD5 authentication is refused
func TestRequireAuthInFIPSMode(t *testing.T) {
	if got := provider.RequireAuth("md5"); !counterpart.FIPSOnly(t) {
		if got != "md5" {
			t.Errorf("outside of the mode: %q", got)
		}
		return
	}
	for configured, want := range map[string]string{
		"": "!md5", "md5": "!md5", "!md5": "!md5", "scram-sha-256": "scram-sha-256", "md5, scram-sha-256": "scram-sha-256", "!password": "!password,!md5", "!md5,!password": "!password,!md5", "none": "none",
	} {
		if got := provider.RequireAuth(configured); got != want {
			t.Errorf("%q: %q, want %q", configured, got, want)
		}
	}
}
