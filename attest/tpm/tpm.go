package tpm

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/google/go-tpm/tpm2"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/fetch"
)

// Attestor judges quotes of TPMs whose manufacturers the configuration trusts.
type Attestor struct {
	cfg    Config
	pinned map[int][][]byte
	roots  *fetch.Cache[authorities]
}

var (
	_ attest.Challenger = (*Attestor)(nil)
	_ attest.Registrar  = (*Attestor)(nil)
)

// New returns an Attestor. It reads the roots at the first use.
func New(c Config) (*Attestor, error) {
	pinned, err := c.check()
	if err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	roots, err := newAuthorities(c)
	if err != nil {
		return nil, fmt.Errorf("attest/tpm %q: %w", c.Name, err)
	}
	return &Attestor{cfg: c, pinned: pinned, roots: roots}, nil
}

// Challenge implements attest.Challenger. e.Document is {ek_cert, ek_public, ak_public}. The
// challenge's document is {credential_blob, secret}. Only the TPM with that EK can decrypt
// it, while that AK is loaded.
func (a *Attestor) Challenge(ctx context.Context, e attest.Evidence) (attest.Challenge, error) {
	if err := ctx.Err(); err != nil {
		return attest.Challenge{}, a.failure(err)
	}
	if e.Key.JKT == "" {
		return attest.Challenge{}, errKey()
	}
	var req request
	if err := decode(e.Document, &req); err != nil {
		return attest.Challenge{}, err
	}
	s, err := req.read()
	if err != nil {
		return attest.Challenge{}, err
	}
	if _, _, err := a.keys(ctx, s); err != nil {
		return attest.Challenge{}, err
	}
	ek, err := s.ek.encapsulation()
	if err != nil {
		return attest.Challenge{}, a.failure(err)
	}
	nonce, until := a.cfg.Nonces.Issue(a.cfg.Name, e.Key.JKT, a.cfg.Now())
	blob, secret, err := tpm2.CreateCredential(rand.Reader, ek, s.ak.name(), a.secret(nonce, s))
	if err != nil {
		return attest.Challenge{}, a.failure(err)
	}
	text := func(b []byte) string {
		return base64.StdEncoding.EncodeToString(tpm2.Marshal(tpm2.TPM2BData{Buffer: b}))
	}
	doc, err := json.Marshal(credential{Blob: text(blob), Secret: text(secret)})
	if err != nil {
		return attest.Challenge{}, a.failure(err)
	}
	return attest.Challenge{Nonce: nonce, Document: doc, ExpiresAt: until}, nil
}

// secret returns the secret in the credential of a challenge. Its 32 bytes fit the digest of
// every EK that checkEK accepts.
func (a *Attestor) secret(nonce string, s *shown) []byte {
	return a.cfg.Nonces.Secret(nonce, string(s.ek.name()), string(s.ak.name()))
}

func errKey() error {
	return attest.Reject(attest.ReasonKeyBinding, "the evidence needs a DPoP proof of the sandbox's key", nil)
}

func (a *Attestor) failure(err error) error {
	return fmt.Errorf("attest/tpm %q: cannot judge: %w", a.cfg.Name, err)
}

// keys checks the EK and the AK as far as is possible without their TPM.
func (a *Attestor) keys(ctx context.Context, s *shown) (*endorsed, crypto.PublicKey, error) {
	if err := s.ek.checkEK(); err != nil {
		return nil, nil, attest.Reject(attest.ReasonClaims, "the endorsement key does not have the properties of a TPM's endorsement key", err)
	}
	if err := s.ak.checkAK(); err != nil {
		return nil, nil, attest.Reject(attest.ReasonClaims, "the attestation key is not a restricted signing key that was made in its TPM and stays there", err)
	}
	ek, err := s.ek.key()
	if err != nil {
		return nil, nil, malformed(err)
	}
	ak, err := s.ak.key()
	if err != nil {
		return nil, nil, malformed(err)
	}
	roots, err := a.roots.Get(ctx)
	if err != nil {
		return nil, nil, a.failure(err)
	}
	found, err := roots.endorse(s.chain, ek, a.cfg.Now())
	if err != nil {
		return nil, nil, attest.Reject(attest.ReasonIssuer, "the endorsement key has no certificate from a configured root", err)
	}
	attest.Passed(ctx, "EK certificate", found.model)
	attest.Passed(ctx, "AK attributes", hex.EncodeToString(s.ak.name()))
	return found, ak, nil
}

// Attest implements attest.Attestor.
func (a *Attestor) Attest(ctx context.Context, e attest.Evidence) (attest.Identity, error) {
	var none attest.Identity
	if err := ctx.Err(); err != nil {
		return none, a.failure(err)
	}
	if e.Key.JKT == "" {
		return none, errKey()
	}
	var ans answer
	if err := decode(e.Document, &ans); err != nil {
		return none, err
	}
	// The cheapest check is first: evidence without a nonce of this ebb causes no further
	// work.
	until, err := a.cfg.Nonces.Check(ans.Nonce, a.cfg.Name, e.Key.JKT, a.cfg.Now())
	if err != nil {
		return none, err
	}
	attest.Passed(ctx, "challenge", "")
	s, err := ans.read()
	if err != nil {
		return none, err
	}
	quoted, err := ans.readQuote()
	if err != nil {
		return none, err
	}
	ek, ak, err := a.keys(ctx, s)
	if err != nil {
		return none, err
	}
	if subtle.ConstantTimeCompare(quoted.secret, a.secret(ans.Nonce, s)) != 1 {
		return none, attest.Reject(attest.ReasonSignature, "the secret is not the one in the challenge's credential for this EK and AK; request a new challenge", nil)
	}
	attest.Passed(ctx, "credential activation", "the AK is in the TPM of the EK")
	q, where, err := a.quote(ctx, quoted, s, ak, ans.Nonce)
	if err != nil {
		return none, err
	}
	id := attest.Identity{
		Attestor: a.cfg.Name, Subject: ek.hash, Class: attest.ClassHardware, Key: e.Key.JKT,
		ReplayID: ans.Nonce, ReplayUntil: until, NotAfter: until.Add(a.cfg.MaxAge - attest.NonceLife),
		Selectors: map[string]string{
			"ek": ek.hash, "ak": hex.EncodeToString(s.ak.name()), "ak_hierarchy": where,
			"reset_count": strconv.FormatUint(uint64(q.resets), 10), "restart_count": strconv.FormatUint(uint64(q.starts), 10),
		},
	}
	for i, v := range quoted.pcrs {
		id.Selectors["pcr"+strconv.Itoa(i)] = hex.EncodeToString(v)
	}
	if ek.until.Before(id.NotAfter) {
		id.NotAfter = ek.until
	}
	if id.ReplayUntil.Before(id.NotAfter) {
		id.ReplayUntil = id.NotAfter
	}
	return id, nil
}

// quote checks the structure that the AK signed, and returns the hierarchy of the AK.
func (a *Attestor) quote(ctx context.Context, v *quoted, s *shown, ak crypto.PublicKey, nonce string) (*quote, string, error) {
	if err := v.signature.verify(s.ak, ak, v.raw); err != nil {
		return nil, "", attest.Reject(attest.ReasonSignature, "the quote is not signed by the attestation key", err)
	}
	q, err := parseQuote(v.raw)
	if err != nil {
		return nil, "", attest.Reject(attest.ReasonType, "the attestation key did not sign a quote of exactly the SHA-256 bank", err)
	}
	want := sha256.Sum256([]byte(nonce))
	if subtle.ConstantTimeCompare(q.extra, want[:]) != 1 {
		return nil, "", attest.Reject(attest.ReasonNonce, "the quote is not over the SHA-256 of the challenge's nonce", nil)
	}
	where, err := q.hierarchy(s.ek, s.ak)
	if err != nil {
		return nil, "", attest.Reject(attest.ReasonSignature, "the signer that the quote names is not the attestation key", err)
	}
	attest.Passed(ctx, "quote over the nonce", "AK in hierarchy "+where)
	if err := v.pcrs.of(q); err != nil {
		return nil, "", attest.Reject(attest.ReasonMeasurement, "the PCR values differ from those in the quote", err)
	}
	if err := v.pcrs.allowed(a.pinned); err != nil {
		return nil, "", attest.Reject(attest.ReasonMeasurement, "a PCR is not quoted or does not have an allowed value", err)
	}
	attest.Passed(ctx, "PCRs", fmt.Sprintf("%d quoted, %d pinned", len(v.pcrs), len(a.pinned)))
	return q, where, nil
}
