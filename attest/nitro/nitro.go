package nitro

import (
	"context"
	"crypto/subtle"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/attest"
)

// maxSkew is the maximum difference between the hypervisor's clock and ebb's. The nonce
// proves that a document is fresh. A larger difference means that a clock is wrong, and then
// the validity of certificates cannot be judged either.
const maxSkew = 5 * time.Minute

// Attestor judges the documents of one type.
type Attestor struct {
	checked
	cfg    Config
	decode decoder
}

// New returns an Attestor. It never uses the network.
func New(c Config) (*Attestor, error) {
	ready, err := c.check()
	if err != nil {
		return nil, err
	}
	d, err := newDecoder()
	if err != nil {
		return nil, fmt.Errorf("attest/nitro %q: %w", c.Name, err)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Attestor{checked: ready, cfg: c, decode: d}, nil
}

// Challenge implements attest.Challenger. The bytes of the text Nonce must become the nonce
// of the document.
func (a *Attestor) Challenge(ctx context.Context, e attest.Evidence) (attest.Challenge, error) {
	if err := ctx.Err(); err != nil {
		return attest.Challenge{}, fmt.Errorf("attest/nitro %q: %w", a.cfg.Name, err)
	}
	return a.cfg.Nonces.Challenge(a.cfg.Name, e.Key, a.cfg.Now())
}

// Attest implements attest.Attestor. The cheap checks come first: signatures are verified
// only for the answer to a challenge of this key.
func (a *Attestor) Attest(ctx context.Context, e attest.Evidence) (attest.Identity, error) {
	if err := ctx.Err(); err != nil {
		return attest.Identity{}, fmt.Errorf("attest/nitro %q: %w", a.cfg.Name, err)
	}
	now := a.cfg.Now()
	env, p, err := a.decode.document(e.Document)
	if err != nil {
		return attest.Identity{}, err
	}
	registers, other := p.PCRs, p.TPMPCRs
	if a.cfg.Type == NitroTPM {
		registers, other = other, registers
	}
	if len(registers) == 0 || other != nil {
		return attest.Identity{}, attest.Reject(attest.ReasonType, "the attestation document does not have the type that is configured for this attestor", nil)
	}
	attest.Passed(ctx, "form", a.cfg.Type)
	answered, err := a.fresh(ctx, p, e.Key.JKT, now)
	if err != nil {
		return attest.Identity{}, err
	}
	certs, err := readChain(p, a.root)
	if err != nil {
		return attest.Identity{}, err
	}
	until, err := certs.verify(now)
	if err != nil {
		return attest.Identity{}, err
	}
	attest.Passed(ctx, "certificates", certs[0].Subject.CommonName)
	if err := certs.signed(env); err != nil {
		return attest.Identity{}, err
	}
	attest.Passed(ctx, "signature", "ES384")
	values, err := a.measured(registers)
	if err != nil {
		return attest.Identity{}, err
	}
	attest.Passed(ctx, "measurements", "")
	// made is from ebb's own clock, and the same for every use of the evidence.
	made := answered.Add(-attest.NonceLife)
	if end := made.Add(a.cfg.MaxAge); end.Before(until) {
		until = end
	}
	id := attest.Identity{
		Attestor: a.cfg.Name, Subject: p.ModuleID, Class: attest.ClassHardware, Selectors: a.selectors(p.ModuleID, values),
		NotAfter: until, Key: e.Key.JKT, ReplayID: string(p.Nonce), ReplayUntil: answered,
	}
	if until.After(answered) {
		id.ReplayUntil = until
	}
	return id, nil
}

// fresh returns the time until which the challenge can be answered.
func (a *Attestor) fresh(ctx context.Context, p *payload, jkt string, now time.Time) (time.Time, error) {
	answered, err := a.cfg.Nonces.Check(string(p.Nonce), a.cfg.Name, jkt, now)
	if err != nil {
		return time.Time{}, err
	}
	attest.Passed(ctx, "nonce", "")
	if a.cfg.Bind == BindUserData && subtle.ConstantTimeCompare([]byte(p.UserData), []byte(jkt)) != 1 {
		return time.Time{}, attest.Reject(attest.ReasonKeyBinding, "the user_data of the attestation document is not the thumbprint of the key of the request", nil)
	}
	attest.Passed(ctx, "key", jkt)
	made := time.UnixMilli(int64(p.Timestamp)) //nolint:gosec // a value that is too large becomes a time before 1970
	if now.Sub(made).Abs() > maxSkew {
		return time.Time{}, attest.Reject(attest.ReasonLifetime, "the timestamp of the attestation document is more than 5 minutes off: one of the clocks is wrong", nil)
	}
	attest.Passed(ctx, "timestamp", made.UTC().Format(time.RFC3339))
	return answered, nil
}
