package jwt

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// claimsOf is the payload of a token for g: the claims of RFC 9068 section 2.2,
// with scope as a string (RFC 8693 section 4.2), cnf with one member (RFC 7800),
// act (RFC 8693 section 4.1) and, when asked for, authorization_details (RFC 9396
// section 9.1), then the private claims by name. It is on the path of every mint:
// a reflecting encoder would take a quarter of what the signature takes.
func claimsOf(issuer string, g provider.Grant) (json.RawMessage, error) {
	o := object{b: append(make([]byte, 0, 768), '{')}
	o.text("iss", issuer)
	o.text("sub", g.Subject)
	o.text("aud", g.Resource)
	o.text("client_id", g.Sandbox)
	o.number("iat", g.IssuedAt.Unix())
	o.number("exp", g.ExpiresAt.Unix())
	o.text("jti", g.LeaseID)
	o.text("scope", g.Scopes.String())
	o.texts("cnf", map[string]string{"jkt": g.Binding.JKT, "x5t#S256": g.Binding.X5T})
	if g.Txn != "" {
		o.text("txn", g.Txn)
	}
	if g.Subject != g.Sandbox && g.Actor != nil {
		o.actor(g.Actor)
	}
	if g.Details {
		o.value("authorization_details", scopes.DetailsOf(g.Scopes))
	}
	for _, name := range slices.Sorted(maps.Keys(g.Claims)) {
		if _, taken := slices.BinarySearch(registered, name); !taken {
			o.text(name, g.Claims[name])
		}
	}
	return append(o.b, '}'), o.err
}

// registered are the names that claimsOf writes or could write: a private claim
// never replaces one of them.
var registered = []string{
	"act", "aud", "authorization_details", "client_id", "cnf", "exp", "iat", "iss", "jti", "nbf", "scope", "sub", "txn",
}

// object is a JSON object while it is written; the caller keeps names apart.
type object struct {
	b   []byte
	err error // the first
}

func (o *object) name(n string) {
	if c := o.b[len(o.b)-1]; c != '{' {
		o.b = append(o.b, ',')
	}
	o.quote(n)
	o.b = append(o.b, ':')
}

func (o *object) actor(a *provider.Actor) {
	o.name("act")
	o.b = append(o.b, '{')
	o.text("sub", a.Subject)
	o.text("iss", a.Issuer)
	if a.Actor != nil {
		o.actor(a.Actor)
	}
	o.b = append(o.b, '}')
}

// quote refuses text that is not UTF-8: no two readers agree on it.
func (o *object) quote(s string) {
	b, err := jsontext.AppendQuote(o.b, s)
	if o.b = b; err != nil && o.err == nil {
		o.err = fmt.Errorf("a claim is not text: %w", err)
	}
}

func (o *object) text(n, v string) {
	o.name(n)
	o.quote(v)
}

func (o *object) number(n string, v int64) {
	o.name(n)
	o.b = strconv.AppendInt(o.b, v, 10)
}

// texts writes an object of those that are not empty, by name.
func (o *object) texts(n string, m map[string]string) {
	o.name(n)
	o.b = append(o.b, '{')
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] != "" {
			o.text(name, m[name])
		}
	}
	o.b = append(o.b, '}')
}

func (o *object) value(n string, v any) {
	o.name(n)
	raw, err := json.Marshal(v)
	if o.b = append(o.b, raw...); err != nil && o.err == nil {
		o.err = fmt.Errorf("the claim %s: %w", n, err)
	}
}
