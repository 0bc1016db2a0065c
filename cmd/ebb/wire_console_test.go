package main

import (
	"testing"

	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/cmd/internal/config"
)

// TestPresenceFrom: the API cannot bypass a passkey that console.proof
// requires.
//
//ebb:invariant I7 The API accepts no approval at a risk for which the configuration requires a passkey
func TestPresenceFrom(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		low, medium, high string
		want              risk.Level
	}{
		{"", "", "", risk.High}, {"recent", "passkey_if_any", "passkey", risk.High},
		{"", "passkey", "", risk.Medium}, {"passkey", "", "", risk.Low}, {"passkey", "passkey", "passkey", risk.Low},
	} {
		var c config.Console
		c.Proof.Low, c.Proof.Medium, c.Proof.High = tt.low, tt.medium, tt.high
		if got := presenceFrom(c); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}
