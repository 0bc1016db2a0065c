package oidc_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/oidc"
)

type object = map[string]any

// golden is a token as a vendor documents it, with the expected identity.
type golden struct {
	Source   string
	Config   object
	Claims   object
	Identity struct {
		Subject   string
		Class     attest.Class
		Selectors map[string]string
	}
}

func goldens(t testing.TB) map[string]golden {
	t.Helper()
	out := map[string]golden{}
	for _, name := range oidc.Presets() {
		out[name] = readGolden(t, name)
	}
	files, err := filepath.Glob("testdata/presets/*.json")
	if err != nil || len(files) != len(out) {
		t.Errorf("%d files for %d presets, %v", len(files), len(out), err)
	}
	return out
}

func readGolden(t testing.TB, name string) golden {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/presets", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	d.DisallowUnknownFields()
	if err := d.Decode(&g); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if g.Source == "" {
		t.Errorf("%s: where is its shape from?", name)
	}
	return g
}

// vendorKey signs for every platform. It is shared because generating an RSA key is slow.
var vendorKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// vendor is a platform in this process. It serves its keys at the address in the preset
// and at no other address.
type vendor struct {
	t     testing.TB
	clock *attesttest.Clock
	golden
	key  *rsa.PrivateKey
	jwks []byte

	mu     sync.Mutex
	asked  []string
	status int
}

func newVendor(t testing.TB, g golden) *vendor {
	t.Helper()
	key, err := vendorKey()
	if err != nil {
		t.Fatal(err)
	}
	public, err := jose.NewKey("vendor-1", &key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	jwks, err := jose.MarshalJWKS(public)
	if err != nil {
		t.Fatal(err)
	}
	return &vendor{t: t, clock: attesttest.NewClock(), golden: g, key: key, jwks: jwks, status: http.StatusOK}
}

// RoundTrip implements http.RoundTripper.
func (v *vendor) RoundTrip(r *http.Request) (*http.Response, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked = append(v.asked, r.URL.String())
	return &http.Response{StatusCode: v.status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(v.jwks)), Request: r}, nil
}

// config returns the golden configuration with members replaced; nil removes a member.
func (v *vendor) config(change object) (oidc.Config, error) {
	v.t.Helper()
	raw, err := json.Marshal(changed(v.Config, change))
	if err != nil {
		v.t.Fatal(err)
	}
	c, err := oidc.Decode(raw)
	c.Name, c.Now, c.Fetch = v.Config["preset"].(string), v.clock.Now, fetch.Config{Transport: v}
	return c, err
}

func (v *vendor) open(change object) *oidc.Attestor {
	v.t.Helper()
	c, err := v.config(change)
	if err != nil {
		v.t.Fatal(err)
	}
	a, err := oidc.New(c)
	if err != nil {
		v.t.Fatal(err)
	}
	return a
}

// evidence returns the golden token issued now, with claims changed.
func (v *vendor) evidence(change object) attest.Evidence {
	return v.evidenceWith(object{"alg": "RS256", "typ": "JWT", "kid": "vendor-1"}, change)
}

func (v *vendor) evidenceWith(header, change object) attest.Evidence {
	v.t.Helper()
	claims := maps.Clone(v.Claims)
	now := v.clock.Now().Unix()
	issued := number(v.t, v.Claims["iat"])
	for _, date := range []string{"iat", "nbf", "exp"} {
		if at, has := claims[date]; has {
			claims[date] = now + number(v.t, at) - issued
		}
	}
	claims["jti"] = rand.Text()
	token := attesttest.Forge(v.t, v.key, header, changed(claims, change))
	return attest.Evidence{Attestor: "ci", Document: []byte(token), Key: attest.Key{JKT: "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}}
}

func number(t testing.TB, v any) int64 {
	t.Helper()
	n, err := v.(json.Number).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// changed returns base with members replaced. nil removes a member, and "a|b|c" names a
// member of nested objects.
func changed(base, change object) object {
	out := maps.Clone(base)
	for name, value := range change {
		first, rest, deep := strings.Cut(name, "|")
		switch {
		case deep:
			out[first] = changed(out[first].(object), object{rest: value})
		case value == nil:
			delete(out, name)
		default:
			out[name] = value
		}
	}
	return out
}

// TestPresets checks that a token as the vendor issues it gives the documented identity,
// with keys from the vendor's address.
func TestPresets(t *testing.T) {
	t.Parallel()
	keys := map[string]string{
		"github-actions":   "https://token.actions.githubusercontent.com/.well-known/jwks",
		"github-ghe":       "https://token.actions.octocorp.ghe.com/.well-known/jwks",
		"github-server":    "https://git.corp.example/_services/token/.well-known/jwks",
		"gitlab":           "https://gitlab.com/oauth/discovery/keys",
		"buildkite":        "https://agent.buildkite.com/.well-known/jwks",
		"circleci":         "https://oidc.circleci.com/org/8268f1d5-9e76-4077-bf49-2c2007b7d71f/.well-known/jwks-pub.json",
		"fly":              "https://oidc.fly.io/example-org/.well-known/jwks",
		"e2b":              "https://id.e2b.dev/.well-known/jwks.json",
		"modal":            "https://oidc.modal.com/.well-known/jwks.json",
		"vercel":           "https://oidc.vercel.com/acme/.well-known/jwks",
		"google-compute":   "https://www.googleapis.com/oauth2/v3/certs",
		"google-cloud-run": "https://www.googleapis.com/oauth2/v3/certs",
		"google-gke":       "https://container.googleapis.com/v1/projects/my-project/locations/europe-west1/clusters/agents/jwks",
		"azure-v1":         "https://login.microsoftonline.com/5a86b3fb-4213-49cd-b4d6-be91482ad3c0/discovery/keys",
		"azure-v2":         "https://login.microsoftonline.com/5a86b3fb-4213-49cd-b4d6-be91482ad3c0/discovery/v2.0/keys",
	}
	for name, g := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVendor(t, g)
			e := v.evidence(nil)
			id, err := v.open(nil).Attest(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			if id.Subject != g.Identity.Subject || id.Class != g.Identity.Class || !maps.Equal(id.Selectors, g.Identity.Selectors) {
				t.Errorf("got %s %s %v\nwant %s %s %v", id.Subject, id.Class, id.Selectors, g.Identity.Subject, g.Identity.Class, g.Identity.Selectors)
			}
			if !slices.Equal(v.asked, []string{keys[name]}) {
				t.Errorf("asked %q for keys, want %q", v.asked, keys[name])
			}
			if err := attest.SelectorMatch(g.Identity.Selectors, id); err != nil {
				t.Errorf("its own selectors: %v", err)
			}
		})
	}
}

// rejected checks that Attest returns ReasonClaims and no identity.
func rejected(t *testing.T, name string, a *oidc.Attestor, e attest.Evidence) {
	t.Helper()
	id, err := a.Attest(t.Context(), e)
	r, ok := errors.AsType[*attest.Rejection](err)
	if !ok || id.Subject != "" || id.Selectors != nil {
		t.Errorf("%s: got %+v, %v; want a rejection", name, id, err)
		return
	}
	for _, why := range []attest.Reason{attest.ReasonClaims, attest.ReasonIssuer, attest.ReasonAudience, attest.ReasonLifetime} {
		if r.Reason == why {
			return
		}
	}
	t.Errorf("%s: rejected for %s: %v", name, r.Reason, err)
}
