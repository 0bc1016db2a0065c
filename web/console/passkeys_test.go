package console_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/web/console/passkey"
	"github.com/ebb-broker/ebb/web/signin/oidc"
)

// authenticator is a software authenticator, with the browser's encoding of its
// responses.
type authenticator struct {
	t      *testing.T
	key    *ecdsa.PrivateKey
	id     []byte
	count  uint32
	origin string
	rp     string
	flags  byte // user present, user verified
}

func newAuthenticator(t *testing.T) *authenticator {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &authenticator{t: t, key: k, id: []byte(rand.Text()), origin: brokertest.Issuer, rp: "ebb.test", flags: 0x05}
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (a *authenticator) must(b []byte, err error) []byte {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
	return b
}

func (a *authenticator) clientData(kind, challenge string) []byte {
	return a.must(json.Marshal(map[string]any{"type": kind, "challenge": challenge, "origin": a.origin, "crossOrigin": false}))
}

func (a *authenticator) data(flags byte) []byte {
	sum := sha256.Sum256([]byte(a.rp))
	return binary.BigEndian.AppendUint32(append(sum[:], flags), a.count)
}

// options returns the console's options at this path.
func (a *authenticator) options(b *browser, path string) (challenge, state string) {
	a.t.Helper()
	got := b.get(path)
	got.is(a.t, http.StatusOK)
	var c struct {
		Options struct {
			Challenge        string `json:"challenge"`
			UserVerification string `json:"userVerification"`
		} `json:"options"`
		State string `json:"state"`
	}
	if err := json.Unmarshal([]byte(got.body), &c); err != nil || c.Options.Challenge == "" || c.State == "" {
		a.t.Fatalf("%v: %s", err, got.body)
	}
	return c.Options.Challenge, c.State
}

func (a *authenticator) create(challenge string) string {
	point := a.must(a.key.PublicKey.Bytes()) // 0x04, x, y (SEC 1 section 2.3.3)
	cose := a.must(cbor.Marshal(map[int]any{1: 2, 3: -7, -1: 1, -2: point[1:33], -3: point[33:]}))
	data := append(a.data(a.flags|0x40), make([]byte, 16)...)
	data = append(binary.BigEndian.AppendUint16(data, uint16(len(a.id))), a.id...)
	object := a.must(cbor.Marshal(map[string]any{"fmt": "none", "attStmt": map[string]any{}, "authData": append(data, cose...)}))
	return string(a.must(json.Marshal(map[string]any{"id": b64(a.id), "rawId": b64(a.id), "type": "public-key", "clientExtensionResults": map[string]any{},
		"response": map[string]any{"clientDataJSON": b64(a.clientData("webauthn.create", challenge)), "attestationObject": b64(object), "transports": []string{"internal"}}})))
}

func (a *authenticator) get(challenge string) string {
	a.count++
	data, client := a.data(a.flags), a.clientData("webauthn.get", challenge)
	hash := sha256.Sum256(client)
	sum := sha256.Sum256(append(append([]byte{}, data...), hash[:]...))
	sig := a.must(ecdsa.SignASN1(rand.Reader, a.key, sum[:]))
	return string(a.must(json.Marshal(map[string]any{"id": b64(a.id), "rawId": b64(a.id), "type": "public-key", "clientExtensionResults": map[string]any{},
		"response": map[string]any{"clientDataJSON": b64(client), "authenticatorData": b64(data), "signature": b64(sig)}})))
}

// register adds a passkey in the settings.
func (a *authenticator) register(b *browser) answer {
	a.t.Helper()
	challenge, state := a.options(b, "/settings/passkeys/options")
	return b.send(b.get("/settings"), "/settings/passkeys", url.Values{"name": {"My key"}, "assertion": {a.create(challenge)}, "state": {state}})
}

func TestPasskeySettings(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	b, other := h.as(brokertest.Approver), h.as(brokertest.Second)
	for name, change := range map[string]func(*authenticator){
		"another origin": func(a *authenticator) { a.origin = "https://evil.test" }, "another host": func(a *authenticator) { a.rp = "evil.test" }, "person not verified": func(a *authenticator) { a.flags = 0x01 },
	} {
		a := newAuthenticator(t)
		change(a)
		if got := a.register(b); got.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", name, got.StatusCode)
		}
	}
	a := newAuthenticator(t)
	challenge, state := a.options(b, "/settings/passkeys/options")
	// A registration cannot be completed by another person, too late, or in
	// another session.
	fields := url.Values{"assertion": {a.create(challenge)}, "state": {state}}
	other.send(other.get("/settings"), "/settings/passkeys", fields).is(t, http.StatusBadRequest)
	again := h.as(brokertest.Approver)
	again.send(again.get("/settings"), "/settings/passkeys", fields).is(t, http.StatusBadRequest)
	h.Clock.Add(2*time.Minute + time.Second)
	b.send(b.get("/settings"), "/settings/passkeys", fields).is(t, http.StatusBadRequest)
	a.register(b).is(t, http.StatusSeeOther)
	page := b.get("/settings")
	page.is(t, http.StatusOK, "My key", "never used")
	if a.register(b).StatusCode == http.StatusSeeOther {
		t.Error("the same passkey twice")
	}
	// Other people cannot rename or remove it.
	id := b.fill(page, "/settings/passkeys/remove", nil).Get("id")
	newAuthenticator(t).register(other).is(t, http.StatusSeeOther)
	other.send(other.get("/settings"), "/settings/passkeys/rename", url.Values{"id": {id}, "name": {"Mine"}}).is(t, http.StatusNotFound)
	for _, bad := range []string{strings.Repeat("x", 61), "a\u202eb", "a\x00b", "\xff"} {
		b.send(b.get("/settings"), "/settings/passkeys/rename", url.Values{"name": {bad}}).is(t, http.StatusBadRequest)
	}
	b.send(page, "/settings/passkeys/rename", url.Values{"name": {" <b>Blue</b> key "}}).is(t, http.StatusSeeOther)
	page = b.get("/settings")
	if page.is(t, http.StatusOK, "&lt;b&gt;Blue&lt;/b&gt; key"); strings.Contains(page.body, "My key") {
		t.Error("it is called as it was")
	}
	var renamed []string
	for e, err := range h.Store.Entries(t.Context(), broker.EntryFilter{Kind: audit.PasskeyRenamed}) {
		if renamed = append(renamed, e.Actor+" "+string(e.Data)); err != nil {
			t.Fatal(err)
		}
	}
	if want := brokertest.Approver + ` {"name":"<b>Blue</b> key","passkey":"` + id + `"}`; len(renamed) != 1 || renamed[0] != want {
		t.Errorf("on the record %q, want %s", renamed, want)
	}
	other.send(other.get("/settings"), "/settings/passkeys/remove", url.Values{"id": {id}}).is(t, http.StatusNotFound)
	b.send(page, "/settings/passkeys/remove", nil).is(t, http.StatusSeeOther)
	if page := b.get("/settings"); strings.Contains(page.body, "Blue") {
		t.Error("it is still there")
	}
	late := newAuthenticator(t)
	late.register(b).is(t, http.StatusSeeOther)
	page = b.get("/settings")
	h.Clock.Add(10*time.Minute + time.Second)
	b.send(page, "/settings/passkeys/remove", nil).is(t, http.StatusForbidden, "To remove a passkey")
	b.send(page, "/settings/passkeys/rename", url.Values{"name": {"Late"}}).is(t, http.StatusForbidden)
	if page = b.get("/settings"); !strings.Contains(page.body, "My key") || strings.Contains(page.body, "/settings/passkeys/remove") {
		t.Error("it is gone, or a button says that it could be")
	}
	b.get("/settings").is(t, http.StatusOK, "sign in again")
	b.get("/settings/passkeys/options").is(t, http.StatusForbidden)
}

// TestPasskeyNeedsStrongProof: a passkey later counts as strong proof, so a
// person with only a password cannot add one.
func TestPasskeyNeedsStrongProof(t *testing.T) {
	t.Parallel()
	o := newOP(t)
	h := o.fixture(t, func(c *oidc.Config) { c.ACRValues = []string{"phr"} })
	b := h.browser()
	o.signIn(t, b, nil).is(t, http.StatusSeeOther)
	b.get("/settings").is(t, http.StatusOK, `href="/settings/again"`)
	b.get("/settings/passkeys/options").is(t, http.StatusForbidden)
	a := b.get("/settings/again")
	if a.is(t, http.StatusSeeOther); a.Header.Get("Location") != "/signin/oidc?again=1" {
		t.Fatal(a.Header)
	}
	o.out(t, b, "/signin/oidc?again=1")
	o.token = func() string { return o.issuer.Token(o.claims(attesttest.Claims{"acr": "phr"})) }
	if a := o.back(b, nil); a.Header.Get("Location") != "/settings" {
		t.Errorf("led to %s", a.Header.Get("Location"))
	}
	newAuthenticator(t).register(b).is(t, http.StatusSeeOther)
	page := b.get("/settings")
	h.Clock.Add(10*time.Minute + time.Second)
	b.get("/settings/passkeys/options").is(t, http.StatusForbidden)
	b.send(page, "/settings/passkeys", url.Values{"assertion": {"{}"}, "state": {"x"}}).is(t, http.StatusForbidden)
}

// TestNoPasskeyAtAddress: browsers support no passkeys for IP addresses.
func TestNoPasskeyAtAddress(t *testing.T) {
	t.Parallel()
	for origin, want := range map[string]error{"http://127.0.0.1:8420": passkey.ErrAddress, "http://[::1]:8420": passkey.ErrAddress, "http://localhost:8420": nil, "https://ebb.example.com": nil} {
		if _, err := passkey.New(origin, make([]byte, 32), time.Now); err != want {
			t.Errorf("%s: %v", origin, err)
		}
	}
}

// TestPasskeySignsWhatIsGranted: the signature of a narrowed approval covers
// scope and minutes. A later change in the form or in the store invalidates it.
func TestPasskeySignsWhatIsGranted(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	b, a := h.as(brokertest.Approver), newAuthenticator(t)
	a.register(b).is(t, http.StatusSeeOther)
	r := h.asked("orders:eu/1:write orders:eu/2:write")
	h.Clock.Add(11 * time.Minute)
	signed := func(scope, minutes string) (assertion, state string) {
		q := url.Values{"choice": {"narrow"}, "digest": {r.Digest}, "scope": {scope}, "minutes": {minutes}}
		c, state := a.options(b, "/requests/"+r.ID+"/challenge?"+q.Encode())
		return a.get(c), state
	}
	for name, to := range map[string][2]string{
		"more minutes": {"orders:eu/1:write", "4"}, "fewer minutes": {"orders:eu/1:write", "2"}, "another scope": {"orders:eu/2:write", "3"}, "all of it": {"orders:eu/1:write orders:eu/2:write", "3"},
	} {
		assertion, state := signed("orders:eu/1:write", "3")
		got := b.choose(b.get("/requests/"+r.ID), r.ID, "narrow", url.Values{"scope": {to[0]}, "minutes": {to[1]}, "assertion": {assertion}, "state": {state}})
		got.is(t, http.StatusForbidden, "not valid for this answer")
		if now := h.again(r.ID); now.State != broker.RequestPending || len(now.Votes) != 0 {
			t.Fatalf("%s: %s", name, now.State)
		}
	}
	for _, q := range []url.Values{
		{"scope": {"orders:eu/1:write"}}, {"minutes": {"3"}}, {"scope": {"orders:eu/3:write"}, "minutes": {"3"}}, {"scope": {"orders:eu/1:write"}, "minutes": {"9999"}}, {"part": {"x"}, "scope": {"orders:eu/1:write"}, "minutes": {"3"}},
	} {
		q.Set("choice", "narrow")
		q.Set("digest", r.Digest)
		b.get("/requests/"+r.ID+"/challenge?"+q.Encode()).is(t, http.StatusBadRequest)
	}
	// The same scope typed differently is equivalent.
	assertion, state := signed(" orders:eu/1:write ", "3")
	b.choose(b.get("/requests/"+r.ID), r.ID, "narrow", url.Values{"part": {"orders:eu/1:write"}, "minutes": {"3"}, "assertion": {assertion}, "state": {state}}).is(t, http.StatusSeeOther)
	if got := h.again(r.ID); got.Granted.String() != "orders:eu/1:write" || got.GrantedTTL != 180 {
		t.Errorf("%s for %d", got.Granted, got.GrantedTTL)
	}
}
