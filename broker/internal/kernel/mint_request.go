package kernel

import (
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/amount"
)

// Decision is the access that the policy, or the policy and people, allowed.
type Decision struct {
	Scopes    scopes.Set
	TTL       time.Duration
	Rules     []string
	Until     time.Time // end of the approval; zero = none
	CouldStay bool      // see CouldStay; the value that the policy alone was given
	RequestID string
	Promise   provider.Revocability // the weakest acceptable revocability of the credential; see Keeps
	First     *broker.Request       // set when this token settles the request
	Content   *content.Facts        // the one request for which the credential can be used; nil = no limit to one request
	MaxAmount amount.Limits         // see broker.Lease
}

// maxPublicKey is far above the size of any public key or certificate request.
const maxPublicKey = 16 << 10

// Certifiable checks the form of a public key before its provider gets it.
func Certifiable(publicKey string) error {
	if len(publicKey) > maxPublicKey || !jose.Plain(publicKey) {
		return broker.E(broker.Invalid, "public_key must be at most 16 KiB of printable characters.", nil)
	}
	return nil
}

// MintRequest is one token request with an authenticated caller and a resolved target: the
// policy evaluates it, and if it is allowed it is minted.
type MintRequest struct {
	Caller
	Scopes   scopes.Set
	Name     string // provider
	Provider broker.Provider
	TTL      time.Duration
	Tool     string
	Delivery string // policy.DeliveryToken or policy.DeliveryEgress
	Details  bool
	Content  *content.Facts // see broker.FactSheet; nil = not limited to one

	PublicKey string // see provider.Grant
}

func Promised(p broker.Provider) provider.Revocability {
	if r := p.Driver.Traits().Revocability; r.Class != "" {
		return r
	}
	return provider.Revocability{Class: provider.ClassTTLOnly}
}

// Txn returns the id that links request, approval, token, use and revocation; a narrowed token
// keeps it.
func (w MintRequest) Txn() string {
	if w.Parent != nil && w.Parent.Txn != "" {
		return w.Parent.Txn
	}
	return broker.NewID("txn_")
}

// Promise returns the revocability of a credential for w, as its provider states it before the
// mint. Without a statement it is the weakest.
func (w MintRequest) Promise() provider.Revocability {
	return Promised(w.Provider)
}

// History sums up the owner's earlier requests, which are given newest first.
func (w MintRequest) History(before []broker.Request) (e broker.Earlier, first bool) {
	approved := map[string]bool{}
	for _, r := range before {
		yes := r.State == broker.RequestApproved || r.State == broker.RequestIssued
		if yes && broker.KindOf(r) == w.Live.Kind {
			for _, s := range r.Granted.Scopes() {
				approved[s.Action()] = true
			}
		}
		if !r.Scopes.Equal(w.Scopes) || r.Provider != w.Name {
			continue
		}
		e.Asked++
		switch {
		case yes:
			e.Approved++
		case r.State == broker.RequestDenied:
			e.Denied++
		}
		if e.Last != "" {
			continue
		}
		e.Last, e.LastAt, e.LastCode = r.State, r.DecidedAt, r.Code
		if r.DecidedAt.IsZero() {
			e.LastAt = r.CreatedAt
		}
		if n := len(r.Votes); n > 0 && r.State != broker.RequestPending {
			e.LastBy = r.Votes[n-1].By
		}
	}
	for _, s := range w.Scopes.Scopes() {
		first = first || !approved[s.Action()]
	}
	return e, first
}
