package ec2

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/fetch"
)

// maxSkew is the maximum difference between the clocks of ebb and EC2, and between the
// clocks of ebb's replicas.
const maxSkew = time.Minute

// Attestor judges instances of configured accounts and regions.
type Attestor struct {
	cfg   Config
	trust *fetch.Cache[trust]
}

var (
	_ attest.Challenger = (*Attestor)(nil)
	_ attest.Registrar  = (*Attestor)(nil)
	_ attest.Reattester = (*Attestor)(nil)
)

// New returns an Attestor. It reads no files yet. It never uses the network.
func New(c Config) (*Attestor, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	t, err := newTrust(c)
	if err != nil {
		return nil, fmt.Errorf("attest/ec2 %q: %w", c.Name, err)
	}
	return &Attestor{cfg: c, trust: t}, nil
}

// Challenge implements attest.Challenger.
func (a *Attestor) Challenge(ctx context.Context, e attest.Evidence) (attest.Challenge, error) {
	if err := ctx.Err(); err != nil {
		return attest.Challenge{}, a.failure(err)
	}
	return a.cfg.Nonces.Challenge(a.cfg.Name, e.Key, a.cfg.Now())
}

// Attest implements attest.Attestor.
func (a *Attestor) Attest(ctx context.Context, e attest.Evidence) (attest.Identity, error) {
	if err := ctx.Err(); err != nil {
		return attest.Identity{}, a.failure(err)
	}
	now := a.cfg.Now()
	s, err := readShown(e.Document)
	if err != nil {
		return attest.Identity{}, err
	}
	if _, err := a.cfg.Nonces.Check(s.Nonce, a.cfg.Name, e.Key.JKT, now); err != nil {
		return attest.Identity{}, err
	}
	attest.Passed(ctx, "challenge", "")
	signed, err := s.signed()
	if err != nil {
		return attest.Identity{}, err
	}
	attest.Passed(ctx, "form", "")
	t, err := a.trust.Get(ctx)
	if err != nil {
		return attest.Identity{}, a.failure(err)
	}
	regions, err := t.verify(signed, now)
	if err != nil {
		return attest.Identity{}, err
	}
	attest.Passed(ctx, "signature", "RSA with SHA-256, serial number "+signed.serial.Text(16))
	d, err := readDocument(signed.content)
	if err != nil {
		return attest.Identity{}, err
	}
	if err := a.judge(ctx, d, regions, now); err != nil {
		return attest.Identity{}, err
	}
	return a.identity(d), nil
}

// judge returns a rejection unless the configuration accepts the instance now.
func (a *Attestor) judge(ctx context.Context, d document, regions []string, now time.Time) error {
	if !slices.Contains(regions, d.Region) {
		return attest.Reject(attest.ReasonIssuer, "the certificate of the signature is not configured for the region of the instance", nil)
	}
	attest.Passed(ctx, "region", d.Region)
	if !slices.Contains(a.cfg.Accounts, d.AccountID) {
		return attest.Reject(attest.ReasonClaims, "the AWS account is not one that is configured for this attestor", nil)
	}
	attest.Passed(ctx, "account", d.AccountID)
	if d.launched.After(now.Add(maxSkew)) {
		return attest.Reject(attest.ReasonNotYetValid, "the launch of the instance is more than a minute in the future; synchronise the clock of ebb", nil)
	}
	if !now.Before(a.windowEnd(d)) {
		return attest.Reject(attest.ReasonExpired, "the instance was launched too long ago; its identity document is accepted only within launch_window, so launch a new instance", nil)
	}
	attest.Passed(ctx, "launch window", d.PendingTime)
	return nil
}

func (a *Attestor) windowEnd(d document) time.Time { return d.launched.Add(a.cfg.LaunchWindow) }

// identity returns the Identity for a document. It leaves Key empty: the key of the
// challenge belongs to an unproved caller, and the pipeline binds the launch to that
// key with ReplayID.
func (a *Attestor) identity(d document) attest.Identity {
	id := attest.Identity{
		Attestor: a.cfg.Name, Subject: d.subject(), Class: attest.ClassBearer, Selectors: d.selectors(),
		NotAfter: d.launched.Add(a.cfg.Lifetime), ReplayID: d.subject() + " " + d.PendingTime,
	}
	id.ReplayUntil = id.NotAfter
	// Another attestor for the account may have the longest window, and a replica with
	// a slow clock accepts the document for longer. The claim must outlast both.
	if end := d.launched.Add(maxWindow + maxSkew); end.After(id.ReplayUntil) {
		id.ReplayUntil = end
	}
	return id
}

func (a *Attestor) failure(err error) error {
	return fmt.Errorf("attest/ec2 %q: cannot judge: %w", a.cfg.Name, err)
}

// maxShown is the maximum size of evidence. A document of AWS takes about 2 KiB.
const maxShown = 16 << 10

// shown is the document of the evidence.
type shown struct {
	Nonce string `json:"nonce"`
	// RSA2048 is the response of the metadata service at instance-identity/rsa2048, on
	// one line.
	RSA2048 string `json:"rsa2048"`
}

// readShown decodes a document strictly: only known members, each once, and no other
// data.
func readShown(doc []byte) (shown, error) {
	if len(doc) > maxShown {
		return shown{}, attest.Reject(attest.ReasonOversized, "the evidence is larger than 16 KiB", nil)
	}
	var s shown
	if len(doc) < 2 || doc[0] != '{' || doc[len(doc)-1] != '}' {
		return shown{}, malformed("the evidence is not a JSON object", nil)
	}
	if err := json.Unmarshal(doc, &s, json.RejectUnknownMembers(true)); err != nil {
		return shown{}, malformed("the evidence is not a JSON object of nonce and rsa2048 alone", err)
	}
	return s, nil
}

// signed parses the SignedData. It verifies nothing.
func (s shown) signed() (signedData, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(s.RSA2048)
	if err != nil || strings.ContainsAny(s.RSA2048, "\r\n") { // the decoder skips line ends
		return signedData{}, malformed("rsa2048 is not base64 on one line: remove the line ends of the metadata service's answer", err)
	}
	return readSigned(raw)
}

func malformed(public string, cause error) error {
	return attest.Reject(attest.ReasonMalformed, public, cause)
}

// CheckRegistration implements attest.Registrar. It requires instance_id. Every other
// selector is the same for any number of instances, so each user with the right to launch one
// could attest with its document.
func (a *Attestor) CheckRegistration(selectors map[string]string) error {
	id, has := selectors[selInstance]
	if !has {
		return errors.New("attest/ec2: this matches every instance launched in the same way; add instance_id, which RunInstances returns")
	}
	if !instanceForm.MatchString(id) {
		return errors.New("attest/ec2: instance_id does not have the form of an instance id, such as i-0123456789abcdef0, so it matches no instance")
	}
	if account, has := selectors[selAccount]; has && !slices.Contains(a.cfg.Accounts, account) {
		return errors.New("attest/ec2: account is not one of the attestor's accounts, so it matches no instance")
	}
	if region, has := selectors[selRegion]; has && a.cfg.Certificates[region] == "" {
		return errors.New("attest/ec2: the attestor has no certificate for the region, so it matches no instance")
	}
	return nil
}

// SelectorNames implements attest.Selecting.
func (a *Attestor) SelectorNames() []string {
	return []string{selInstance, selAccount, selRegion, "image_id", "instance_type", "architecture", "availability_zone", "private_ip"}
}

// CheckReattest implements attest.Reattester.
func (a *Attestor) CheckReattest() error {
	return errors.New("attest/ec2: a document is accepted only within launch_window, so a sandbox cannot attest again; set lifetime instead of reattest")
}
