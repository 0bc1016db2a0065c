package enroll

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// TicketPrefix begins every ticket, so that scanners for leaked secrets, and
// ebb, know one.
const TicketPrefix = "ebb_tkt_"

// Ticket is what a redeemed ticket stood for.
type Ticket struct {
	TaskID string
	// SandboxID that the task expects.
	SandboxID string
}

// Tickets is the broker's store of tickets, which holds hashes only.
type Tickets interface {
	// Redeem takes the ticket whose TicketHash is hash, for the key jkt. It is
	// atomic and single-use: of any number of callers, on any replica, with the
	// same key or another, exactly one gets the Ticket. A ticket that is unknown,
	// used or expired is an error that matches attest.ErrRejected, and one does
	// not say which; any other error means that the store could not tell.
	Redeem(ctx context.Context, hash, jkt string) (Ticket, error)
}

// NewTicket makes a ticket of 256 random bits and the hash to keep of it.
func NewTicket() (ticket, hash string) {
	var b [32]byte
	rand.Read(b[:]) //nolint:errcheck // never fails, see crypto/rand
	ticket = TicketPrefix + base64.RawURLEncoding.EncodeToString(b[:])
	return ticket, TicketHash(ticket)
}

// TicketHash is the base64url SHA-256 of the ticket's text.
func TicketHash(ticket string) string {
	sum := sha256.Sum256([]byte(ticket))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// validTicket reports whether s has the one spelling of a ticket.
func validTicket(s string) bool {
	text, found := strings.CutPrefix(s, TicketPrefix)
	if !found || len(text) != 43 {
		return false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && len(b) == 32
}
