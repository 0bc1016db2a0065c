package static_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/providertest"
	"github.com/ebb-broker/ebb/broker/provider/static"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/broker/vaultapi"
	"github.com/ebb-broker/ebb/scopes"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	providertest.Run(t, providertest.Subject{
		Driver: driver(t, config(), vaultOf(t, "stripe", canary)), Grant: func() provider.Grant { return grant("stripe:charges:read") }, Unsupported: "stripe:charges:drop",
	})
}

// TestMintGivesAPlaceholder: the sandbox's credential contains nothing from the secret.
func TestMintGivesAPlaceholder(t *testing.T) {
	t.Parallel()
	d := driver(t, config(), vaultOf(t, "stripe", canary))
	g := grant("stripe:charges:read stripe:charges:write")
	c, err := d.Mint(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	if text := c.Token.Reveal() + c.Handle.Reveal() + fmt.Sprintf("%+v", c); strings.Contains(text, "canary") || c.Token.Reveal() != "ebb-placeholder."+g.LeaseID {
		t.Errorf("minted %q", text)
	}
	if c.Type != "N_A" || c.Format != provider.PlaceholderFormat || !c.ExpiresAt.Equal(g.ExpiresAt) {
		t.Errorf("minted %+v", c)
	}
	if tr := d.Traits(); !tr.InjectOnly || tr.ThirdParty || tr.Revocability.Class != provider.ClassInstant {
		t.Errorf("Traits = %+v", tr)
	}
}

func TestScopesAreExact(t *testing.T) {
	t.Parallel()
	d := driver(t, config(), vaultOf(t, "stripe", canary))
	for _, bad := range []string{"stripe:charges:*", "stripe:*:read", "stripe:charges/1:read", "stripe:other:read", "stripe:charges:read stripe:other:read", "stripe:**:*"} {
		if err := d.Check(scopes.MustParseSet(bad)); !errors.Is(err, provider.ErrUnsupported) {
			t.Errorf("Check(%s) = %v", bad, err)
		}
	}
}

// TestMissingOrUnusableSecrets: (E93) a missing secret, or one that its place cannot contain,
// is reported at a mint and to the operator, without any part of it.
//
//ebb:invariant I8 The static provider refuses to mint or inject a secret that responses cannot be searched for, or that could change the request's structure
func TestMissingOrUnusableSecrets(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		place static.Place
		value string
		fits  bool
	}{
		"header":             {static.Place{Header: "X-Api-Key"}, "canary~!@ x", true},
		"next header":        {static.Place{Header: "X-Api-Key"}, "canary\r\nX-Admin: 1", false},
		"line feed":          {static.Place{Header: "X-Api-Key"}, "canary\nX-Admin: 1", false},
		"line end at end":    {static.Place{Header: "X-Api-Key"}, "canary\n", false},
		"smuggled request":   {static.Place{Header: "X-Api-Key"}, "canary\r\n\r\nGET /admin HTTP/1.1\r\nHost: x\r\n", false},
		"null":               {static.Place{Header: "X-Api-Key"}, "canary\x00", false},
		"next line":          {static.Place{Header: "X-Api-Key"}, "canary\u0085x", false},
		"line separator":     {static.Place{Header: "X-Api-Key"}, "canary\u2028x", false},
		"looks like CR LF":   {static.Place{Header: "X-Api-Key"}, "canary\u560d\u560aX-Admin: 1", false}, // cut to bytes it is CR LF
		"not UTF-8":          {static.Place{Header: "X-Api-Key"}, "canary\xff", false},
		"space":              {static.Place{Header: "X-Api-Key"}, " canary", false},
		"all there is":       {static.Place{Header: "X-Api-Key"}, strings.Repeat("x", 8<<10), true},
		"short":              {static.Place{Header: "X-Api-Key"}, "canary7", false}, // it would be found in every answer
		"short, basic":       {static.Place{Basic: &static.Basic{User: "bot"}}, "canary7", false},
		"large":              {static.Place{Header: "X-Api-Key"}, "canary" + strings.Repeat("x", 8<<10), false},
		"basic":              {static.Place{Basic: &static.Basic{User: "bot"}}, "canary:é", true},
		"basic, line":        {static.Place{Basic: &static.Basic{User: "bot"}}, "canary\n", false},
		"basic, user":        {static.Place{Basic: &static.Basic{}}, "canary42", true},
		"basic, user, colon": {static.Place{Basic: &static.Basic{}}, "canary:x", false},
		"query":              {static.Place{Query: "key"}, "canary&x=1#é", true},
		"query, line":        {static.Place{Query: "key"}, "canary\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config()
			c.Inject = tt.place
			d := driver(t, c, vaultOf(t, "stripe", tt.value))
			_, err := d.Mint(t.Context(), grant("stripe:charges:read"))
			if (err == nil) != tt.fits || err != nil && (!errors.Is(err, provider.ErrRefused) || strings.Contains(err.Error(), "canary")) {
				t.Errorf("Mint: %v", err)
			}
			r := request(t, "GET", "https://api.example.com/v1/charges")
			before := wire(t, r)
			err = d.Inject(t.Context(), r, lease("stripe:charges:read"))
			if (err == nil) != tt.fits || err != nil && (wire(t, r) != before || strings.Contains(err.Error(), "canary")) {
				t.Errorf("Inject: %v\n%s", err, wire(t, r))
			}
			fatal := false
			for _, f := range d.CheckSetup(t.Context()) {
				fatal = fatal || f.Fatal
				if strings.Contains(f.What+f.Remedy, "canary") {
					t.Errorf("a finding tells the secret: %+v", f)
				}
			}
			if fatal == tt.fits {
				t.Errorf("CheckSetup: %+v", d.CheckSetup(t.Context()))
			}
		})
	}
	d := driver(t, config(), vaultOf(t, "another", canary))
	if _, err := d.Mint(t.Context(), grant("stripe:charges:read")); !errors.Is(err, provider.ErrRefused) || !strings.Contains(err.Error(), "ebb secrets put stripe") {
		t.Errorf("none: %v", err)
	}
	if f := d.CheckSetup(t.Context()); len(f) != 1 || !f[0].Fatal || !strings.Contains(f[0].Remedy, "ebb secrets put stripe") {
		t.Errorf("none: %+v", f)
	}
}

//ebb:invariant I6 A configuration is refused if it adds a credential in a header for the destination, type or framing of a request
func TestConfigsThatAreRefused(t *testing.T) {
	t.Parallel()
	rule := func(methods, paths string) map[string]map[string]static.Rule {
		return map[string]map[string]static.Rule{"charges": {"read": {Rule: stricturl.Rule{Methods: strings.Fields(methods), Paths: strings.Fields(paths)}}}}
	}
	s := vaultOf(t, "stripe", canary)
	for name, change := range map[string]func(*static.Config){
		"no secret":   func(c *static.Config) { c.Secret = "" },
		"two secrets": func(c *static.Config) { c.Vault = &static.KV{} },
		"secret":      func(c *static.Config) { c.Secret = "../x" },
		"vault":       func(c *static.Config) { c.Secret, c.Vault = "", &static.KV{Path: "../x", Field: "key"} },
		"vault login": func(c *static.Config) {
			c.Secret, c.Vault = "", &static.KV{Path: "x", Field: "key", Config: vaultapi.Config{Address: "https://v.test"}}
		},
		"no host":        func(c *static.Config) { c.Hosts = nil },
		"pattern":        func(c *static.Config) { c.Hosts = []string{"*.example.com"} },
		"trailing dot":   func(c *static.Config) { c.Hosts = []string{"api.example.com."} },
		"upper case":     func(c *static.Config) { c.Hosts = []string{"API.example.com"} },
		"IDN":            func(c *static.Config) { c.Hosts = []string{"bücher.example"} },
		"URL":            func(c *static.Config) { c.Hosts = []string{"https://api.example.com"} },
		"login":          func(c *static.Config) { c.Hosts = []string{"x@api.example.com"} },
		"port":           func(c *static.Config) { c.Hosts = []string{"api.example.com:"} },
		"nowhere":        func(c *static.Config) { c.Inject = static.Place{} },
		"two places":     func(c *static.Config) { c.Inject = static.Place{Header: "X", Query: "y"} },
		"host header":    func(c *static.Config) { c.Inject = static.Place{Header: "Host"} },
		"framing":        func(c *static.Config) { c.Inject = static.Place{Header: "Transfer-Encoding"} },
		"header":         func(c *static.Config) { c.Inject = static.Place{Header: "X Y"} },
		"header line":    func(c *static.Config) { c.Inject = static.Place{Header: "X:\r\nY"} },
		"prefix":         func(c *static.Config) { c.Inject = static.Place{Header: "X", Prefix: "a\r\nb: "} },
		"lonely prefix":  func(c *static.Config) { c.Inject = static.Place{Query: "x", Prefix: "a"} },
		"user":           func(c *static.Config) { c.Inject = static.Place{Basic: &static.Basic{User: "a:b"}} },
		"both":           func(c *static.Config) { c.Inject = static.Place{Basic: &static.Basic{User: "a", Password: "b"}} },
		"query":          func(c *static.Config) { c.Inject = static.Place{Query: "a&b"} },
		"no grants":      func(c *static.Config) { c.Grants = nil },
		"no actions":     func(c *static.Config) { c.Grants = map[string]map[string]static.Rule{"charges": {}} },
		"resource":       func(c *static.Config) { c.Grants["*"] = c.Grants["charges"] },
		"action":         func(c *static.Config) { c.Grants["charges"]["*"] = c.Grants["charges"]["read"] },
		"no methods":     func(c *static.Config) { c.Grants = rule("", "/x") },
		"no paths":       func(c *static.Config) { c.Grants = rule("GET", "") },
		"CONNECT":        func(c *static.Config) { c.Grants = rule("CONNECT", "/x") },
		"TRACE":          func(c *static.Config) { c.Grants = rule("TRACE", "/x") },
		"any method":     func(c *static.Config) { c.Grants = rule("*", "/x") },
		"relative":       func(c *static.Config) { c.Grants = rule("GET", "x") },
		"up":             func(c *static.Config) { c.Grants = rule("GET", "/x/../y") },
		"in the middle":  func(c *static.Config) { c.Grants = rule("GET", "/x/**/y") },
		"part":           func(c *static.Config) { c.Grants = rule("GET", "/x*") },
		"query in path":  func(c *static.Config) { c.Grants = rule("GET", "/x?y=1") },
		"escaped":        func(c *static.Config) { c.Grants = rule("GET", "/x%2fy") },
		"empty segments": func(c *static.Config) { c.Grants = rule("GET", "/x//y") },
	} {
		c := config()
		change(&c)
		if _, err := static.New("stripe", c, s, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := static.New("stripe", static.Config{}, s, nil); err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("not every problem at once: %v", err)
	}
	if _, err := static.New("stripe", config(), nil, nil); err == nil {
		t.Error("accepted without a secret store")
	}
	if _, err := static.New("stripe", config(), s, time.Now); err != nil {
		t.Error(err)
	}
}

// TestDescribeGoesByMethods: the effect follows from the methods of an action, not from the
// operator's name of it.
func TestDescribeGoesByMethods(t *testing.T) {
	c := config()
	c.Grants["charges"]["read"] = static.Rule{Rule: stricturl.Rule{Methods: []string{"GET", "DELETE"}, Paths: []string{"/v1/charges/*"}}}
	d := driver(t, c, vaultOf(t, "stripe", "sk"))
	for text, want := range map[string][2]provider.Answer{
		"stripe:charges:read":  {provider.Yes, provider.No},
		"stripe:charges:write": {provider.Yes, provider.Unknown},
		"stripe:all:use":       {provider.No, provider.Yes},
	} {
		e, err := d.Describe(scopes.MustParseSet(text).Scopes()[0])
		if err != nil || e.Writes != want[0] || e.Reversible != want[1] {
			t.Errorf("%s: %+v, %v", text, e, err)
		}
	}
	for _, text := range []string{"stripe:charges:drop", "stripe:other:read", "stripe:charges:*", "stripe:**:read"} {
		if e, err := d.Describe(scopes.MustParseSet(text).Scopes()[0]); !errors.Is(err, provider.ErrUnsupported) {
			t.Errorf("%s: %+v, %v", text, e, err)
		}
	}
}
