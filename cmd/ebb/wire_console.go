package main

import (
	"ebb/attest/fetch"
	"ebb/broker"
	"ebb/broker/keys"
	"ebb/broker/risk"
	"ebb/cmd/ebb/internal/config"
	"ebb/web"
	"ebb/web/api"
	"ebb/web/console"
	"ebb/web/console/passkey"
	"ebb/web/signin"
	"ebb/web/signin/link"
	"ebb/web/signin/oidc"
)

// friction is what an approval takes, as configured.
func friction(c config.Console) console.Friction {
	return console.Friction{Low: console.Proof(c.Proof.Low), Medium: console.Proof(c.Proof.Medium), High: console.Proof(c.Proof.High)}
}

// presenceFrom returns the lowest risk at which console.proof demands a passkey of everybody. From
// there on the API takes no approval, which would be the way around the passkey.
func presenceFrom(c config.Console) risk.Level {
	switch f := friction(c); console.ProofPasskey {
	case f.Low:
		return risk.Low
	case f.Medium:
		return risk.Medium
	}
	return risk.High
}

// breakGlass is who approves alone in an emergency: what their passkeys sign is judged as
// that of other answers is, and where high risk takes a passkey, so does this.
func breakGlass(c config.Console) broker.BreakGlassConfig {
	g := c.BreakGlass
	g.Check, g.Passkey = passkey.Check, friction(c).High == console.ProofPasskey
	return g
}

// signIn is the ways in to the console. Links are for whoever holds a principal's key
// on this machine, and so for a console that only this machine reaches.
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

// pagesURL is where the console of an ebb with this public URL is.
func pagesURL(public string, ring *keys.Ring) (string, error) {
	return web.OwnName(public, ring.Derive("console-name"))
}

// apiLinks is n.links without a nil that is not nil.
func (n *node) apiLinks() api.Links {
	if n.links == nil {
		return nil
	}
	return n.links
}
