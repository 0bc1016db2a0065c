package kernel

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
)

// LiveState is this process's knowledge of the LiveStore's completeness.
type LiveState struct {
	Incomplete atomic.Bool  // data was lost and is not refilled yet: requests fail closed
	Losses     atomic.Int64 // losses of the LiveStore that this process has taken into account
	Since      atomic.Int64 // Unix milliseconds from which the LiveStore remembers proofs; 0 = it has lost nothing
}

// memory returns since when the LiveStore remembers used proofs and assertions. The nonce of
// proofs is the name of that memory, which all replicas know.
func (ad *Admitter) memory(now time.Time) dpop.Memory {
	ad.Reckon()
	var m dpop.Memory
	if since := ad.Live.Since.Load(); since != 0 {
		m.Began = time.UnixMilli(since)
	}
	if m.Young(now, 0) {
		m.Nonce = ad.LiveStore.Memory()
	}
	return m
}

// Reckon starts a new memory when the LiveStore has lost data, also when another replica has
// noticed and repaired the loss. A caller that continues after a loss finds the new start time.
func (ad *Admitter) Reckon() {
	if n := ad.LiveStore.Losses(); n != ad.Live.Losses.Load() {
		ad.Live.Since.Store(ad.Clock.Now().UnixMilli())
		ad.Live.Losses.Store(n)
	}
}

// forgotten refuses a proof that may have been used before the memory began (RFC 9449 section
// 11.1), unless it carries the nonce of the memory. When it is called after the claim of a
// proof, it sees every loss before the claim.
func (ad *Admitter) forgotten(p broker.Possession) error {
	if p.Proof == nil {
		return nil
	}
	m := ad.memory(ad.Clock.Now())
	switch {
	case m.Covers(*p.Proof):
		return nil
	case m.Nonce == "":
		return broker.StoreError(broker.ErrLost)
	}
	return broker.E(broker.UseNonce, "This ebb has just started or lost its memory of used DPoP proofs. Make a new proof with the nonce of the DPoP-Nonce header.", nil)
}

// CheckNonce refuses a proof that needs the nonce of the memory and lacks it. Call it before
// single-use values of the request are claimed, because the client repeats the request with the
// nonce (RFC 9449 section 8).
func (ad *Admitter) CheckNonce(p broker.Possession) error {
	if err := ad.forgotten(p); err != nil && broker.AsError(err).Kind == broker.UseNonce {
		return err
	}
	return nil // later steps check whether the LiveStore is complete; an end works without it
}

// Nonce returns the nonce for a client's next proof: that of a young memory, or in nonce mode
// the current one. "" = no nonce is required.
func (ad *Admitter) Nonce(now time.Time) string {
	if n := ad.memory(now).Nonce; n != "" {
		return n
	}
	if ad.nonces != nil {
		return ad.nonces.Issue(now)
	}
	return ""
}

// NonceCheck returns dpop.Options.Nonce: nil when nonce mode is off.
func (ad *Admitter) NonceCheck() func(nonce string, now time.Time) bool {
	if ad.nonces == nil {
		return nil
	}
	return func(nonce string, now time.Time) bool {
		return nonce == ad.memory(now).Nonce || ad.nonces.Check(nonce, now)
	}
}

// AssertionLead is how far ahead of ebb's clock the iat of a client assertion may be. FAPI 2.0
// requires 10 seconds (Security Profile, section 5.3.2.1). It is no more, because after a start
// assertions are refused for that long.
const AssertionLead = 10 * time.Second

// acceptedFrom returns the earliest time at which an assertion could have been accepted.
func acceptedFrom(c *jose.Claims) time.Time {
	switch {
	case !c.IssuedAt.IsZero():
		return c.IssuedAt.Add(-AssertionLead)
	case !c.NotBefore.IsZero():
		return c.NotBefore.Add(-broker.Skew)
	}
	return c.Expiry.Add(-AssertionLife - broker.Skew)
}

// Unremembered refuses a client assertion that could have been accepted before the memory
// began: it has no nonce that would prove that it is new. holder means that the request also
// proves a key of the client, so that only the client can have sent it.
func (ad *Admitter) Unremembered(c *jose.Claims, holder bool) error {
	now := ad.Clock.Now()
	m := ad.memory(now)
	switch {
	case holder, m.Began.IsZero(), acceptedFrom(c).After(m.Began):
		return nil
	case m.Nonce == "" && m.Young(now, 0): // the LiveStore is not complete yet
		return &UnclaimedError{Refusal: broker.StoreError(broker.ErrLost), Cause: broker.ErrLost}
	}
	return &broker.Error{Kind: broker.Unavailable, RetryAfter: max(m.Began.Add(AssertionLead+time.Second).Sub(now), time.Second),
		Public: "This ebb has just started or lost its memory of used client assertions. Wait for the seconds of Retry-After, then sign a new assertion; or add a DPoP proof of the key that signs it."}
}

// ProvesKey reports whether the request proved one of the keys, by the certificate of its
// connection or by a new proof.
func (ad *Admitter) ProvesKey(p broker.Possession, keys ...jose.Key) bool {
	return p.Key.JKT != "" && ad.forgotten(p) == nil && slices.ContainsFunc(keys, func(k jose.Key) bool {
		jkt, err := k.Thumbprint()
		return err == nil && jkt == p.Key.JKT
	})
}

// Error implements error.
func (e *UnclaimedError) Error() string { return e.Refusal.Error() }

// Unwrap returns the refusal, for callers that treat it as any other Error.
func (e *UnclaimedError) Unwrap() error { return e.Refusal }
