package main

import (
	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/api"
	"github.com/ebb-broker/ebb/web/console/passkey"
	"github.com/ebb-broker/ebb/web/console/proof"
	"github.com/ebb-broker/ebb/web/signin"
	"github.com/ebb-broker/ebb/web/signin/link"
	"github.com/ebb-broker/ebb/web/signin/oidc"
)

// friction returns the configured proofs that an approval requires.
func friction(c config.Console) proof.Friction {
	return proof.Friction{Low: proof.Proof(c.Proof.Low), Medium: proof.Proof(c.Proof.Medium), High: proof.Proof(c.Proof.High)}
}

// presenceFrom returns the lowest risk at which console.proof requires a
// passkey of every approver. From this risk on the API accepts no approval,
// because it would bypass the passkey.
func presenceFrom(c config.Console) risk.Level {
	switch f := friction(c); proof.ProofPasskey {
	case f.Low:
		return risk.Low
	case f.Medium:
		return risk.Medium
	}
	return risk.High
}

// breakGlass configures approving alone in an emergency. Signatures of passkeys
// are checked like those of other decisions. If high risk requires a passkey,
// so does an emergency period.
func breakGlass(c config.Console) approval.BreakGlassConfig {
	g := c.BreakGlass
	g.Check, g.Passkey = passkey.Check, friction(c).High == proof.ProofPasskey
	return g
}

// signIn returns the sign-in methods of the console. Links authenticate the
// owner of a principal's key on this machine, so they exist only for a console
// on loopback.
func (n *node) signIn(s settings) (methods []signin.Method, err error) {
	if o := s.Console.OIDC; o.Issuer != "" {
		m, err := oidc.New(oidc.Config{
			Base: n.pages, Key: n.dir.Ring().Derive("console-oidc"), Name: o.Name, Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: o.ClientSecret(), Scopes: o.Scopes,
			GroupsClaim: o.GroupsClaim, NameClaim: o.NameClaim, SubjectClaim: o.SubjectClaim, ACRValues: o.ACRValues, Roles: s.Console.Roles.Groups(),
			Fetch: fetch.Config{Private: o.Private}, Now: s.Now, Logger: s.Log,
		})
		if err != nil {
			return nil, err
		}
		methods = append(methods, m)
	}
	if s.Loopback() {
		n.links = link.New(link.Config{Broker: n.broker, Base: n.pages, Key: n.dir.Ring().Derive("console-link"), Now: s.Now})
		methods = append(methods, n.links)
	}
	return methods, nil
}

// pagesURL returns the URL of the console of an ebb with this public URL.
func pagesURL(public string, ring *keys.Ring) (string, error) {
	return web.OwnName(public, ring.Derive("console-name"))
}

// apiLinks returns n.links, and an untyped nil if that is nil.
func (n *node) apiLinks() api.Links {
	if n.links == nil {
		return nil
	}
	return n.links
}
