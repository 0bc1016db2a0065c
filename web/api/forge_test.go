package api_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"testing"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

func newEd25519(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// withTicket is a task whose sandbox enrols with a ticket.
func withTicket() broker.TaskSpec {
	s := brokertest.Spec()
	s.Ticket = true
	return s
}

func evidenceOf(document string) attest.Evidence { return attest.Evidence{Document: []byte(document)} }
