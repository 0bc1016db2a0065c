package ec2_test

import (
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/ec2"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := f.clock.Now()
	good := func() []byte { return f.maker.launch(now, instance()).sealed() }
	bad := map[string]func(t *testing.T) attest.Evidence{
		"wrong key": func(t *testing.T) attest.Evidence {
			e := f.evidence(t)
			e.Key = attesttest.NewKey(t)
			return e
		},
		"no key": func(t *testing.T) attest.Evidence {
			e := f.evidence(t)
			e.Key = attest.Key{X5T: "x"}
			return e
		},
	}
	for name, n := range map[string]struct {
		nonces   *attest.Nonces
		attestor string
		at       time.Time
	}{
		"wrong audience": {newNonces(t, 2), "cloud", now}, "another attestor's nonce": {f.nonces, "cloud2", now},
		"an old nonce": {f.nonces, "cloud", now.Add(-attest.NonceLife)}, "a nonce of the future": {f.nonces, "cloud", now.Add(2 * attest.NonceLife)},
	} {
		bad[name] = func(t *testing.T) attest.Evidence {
			k := attesttest.NewKey(t)
			nonce, _ := n.nonces.Issue(n.attestor, k.JKT, n.at)
			return with(t, k, map[string]string{"nonce": nonce, "rsa2048": base64.StdEncoding.EncodeToString(good())})
		}
	}
	for name, spoil := range map[string]func(*parts){"wrong issuer": foreign(newMaker(t, 2, now)), "expired": launched(now.Add(-5 * time.Minute)),
		"not yet valid": launched(now.Add(time.Minute + time.Second))} {
		bad[name] = func(t *testing.T) attest.Evidence { return f.evidence(t, spoil) }
	}
	for name, b := range badDocuments(t, f) {
		bad[name] = func(t *testing.T) attest.Evidence { return f.evidence(t, b.spoil) }
	}
	for name, m := range badMembers(good()) {
		bad[name] = func(t *testing.T) attest.Evidence {
			e := f.shown(t, good(), attesttest.NewKey(t))
			e.Document = m(e.Document)
			return e
		}
	}
	attesttest.Run(t, attesttest.Suite{
		Attestor: f.Attestor, Clock: f.clock, Bad: bad, Fresh: attest.NonceLife,
		Good: func(t *testing.T) attest.Evidence { return f.evidence(t) },
		Down: func(t *testing.T) (attest.Attestor, attest.Evidence) {
			a := f.open(t, func(c *ec2.Config) {
				c.Certificates = map[string]string{region: filepath.Join(t.TempDir(), "none.pem")}
			})
			return a, f.evidence(t)
		},
		Lures: func(t *testing.T, url string) []attest.Evidence {
			var out []attest.Evidence
			for _, name := range []string{"region", "imageId", "billingProducts", "version"} {
				out = append(out, f.evidence(t, func(p *parts) { p.set(name, `"`+url+`"`) }))
			}
			return out
		},
	})
}

// badMembers returns changes of the JSON around the SignedData.
func badMembers(raw []byte) map[string]func([]byte) []byte {
	insert := func(text string) func([]byte) []byte {
		return func(doc []byte) []byte { return []byte(strings.Replace(string(doc), "{", "{"+text+",", 1)) }
	}
	text := base64.StdEncoding.EncodeToString(raw)
	swap := func(to string) func([]byte) []byte {
		return func(doc []byte) []byte {
			head, _, _ := strings.Cut(string(doc), `"rsa2048":`)
			return []byte(head + `"rsa2048":` + to + "}")
		}
	}
	return map[string]func([]byte) []byte{
		"a member more":        insert(`"document":"{}"`),
		"a nonce twice":        insert(`"nonce":"x"`),
		"rsa2048 twice":        insert(`"rsa2048":"x"`),
		"a name in upper case": insert(`"Nonce":"x"`),
		"a list":               func(doc []byte) []byte { return []byte("[" + string(doc) + "]") },
		"null for it":          swap("null"),
		"a number for it":      swap("1"),
		"nothing for it":       swap(`""`),
		"line ends":            swap(`"` + text[:64] + `\n` + text[64:] + `"`),
		"PEM":                  swap(`"-----BEGIN PKCS7-----\n` + text + `\n-----END PKCS7-----"`),
		"base64url":            swap(`"` + strings.NewReplacer("+", "-", "/", "_").Replace(text+"+/++") + `"`),
		"cut base64":           swap(`"` + text[:len(text)-1] + `"`),
		"half of it":           swap(`"` + text[:len(text)/8*4] + `"`),
		"twice":                swap(`"` + text + text + `"`),
		"64 KiB":               swap(`"` + strings.Repeat("A", 64<<10) + `"`),
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	launchedAt := f.clock.Now()
	p := f.maker.launch(launchedAt, "i-0123456789abcdef0")
	raw, key := p.sealed(), attesttest.NewKey(t)
	f.clock.Advance(4 * time.Minute)
	var steps []string
	id, err := f.Attest(attest.WithTrace(t.Context(), func(s attest.Step) { steps = append(steps, s.Check) }), f.shown(t, raw, key))
	if err != nil {
		t.Fatal(err)
	}
	if id.Subject != account+"/"+region+"/i-0123456789abcdef0" || id.Class != attest.ClassBearer || id.Attestor != "cloud" || id.TaskID != "" {
		t.Errorf("got %+v", id)
	}
	// The pipeline binds the launch to the first key only when the identity names no
	// key.
	if id.Key != "" || id.ReplayID != id.Subject+" "+launchedAt.Format(time.RFC3339) {
		t.Errorf("got key %q, replay id %q", id.Key, id.ReplayID)
	}
	if !id.NotAfter.Equal(launchedAt.Add(time.Hour)) || !id.ReplayUntil.Equal(id.NotAfter) {
		t.Errorf("got %v, %v", id.NotAfter, id.ReplayUntil)
	}
	want := map[string]string{"account": account, "region": region, "instance_id": "i-0123456789abcdef0", "image_id": "ami-0fa9e1f64142cde17",
		"instance_type": "t2.medium", "architecture": "x86_64", "availability_zone": region + "a", "private_ip": "10.0.0.209"}
	if !maps.Equal(id.Selectors, want) {
		t.Errorf("got %v", id.Selectors)
	}
	if got := strings.Join(steps, ","); got != "challenge,form,signature,region,account,launch window" {
		t.Errorf("steps %s", got)
	}
}

// Every copy and encoding of the document of one launch has the same ReplayID, and
// another launch has another. The document itself has no id that stays the same in
// every copy.
func TestOneLaunchOneReplayID(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	at, box := f.clock.Now(), instance()
	replay := func(change ...func(*parts)) string {
		p := f.maker.launch(at, box)
		for _, c := range change {
			c(p)
		}
		id, err := f.Attest(t.Context(), f.shown(t, p.sealed(), attesttest.NewKey(t)))
		if err != nil {
			t.Fatal(err)
		}
		return id.ReplayID
	}
	first := replay()
	for name, change := range map[string]func(*parts){
		"another encoding":   func(p *parts) { p.wrap = der },
		"in parts":           func(p *parts) { p.octets = inPieces(p.document()) },
		"other spaces":       func(p *parts) { p.content = func(s string) string { return " " + s + "\n" } },
		"another member":     func(p *parts) { p.members = append(p.members, member{"new", "1"}) },
		"another type":       func(p *parts) { p.set("instanceType", `"t2.large"`) },
		"signed later":       func(p *parts) { p.attributes = attributesOf(p.document(), "260101000000Z") },
		"without protection": func(p *parts) { a := attributesOf(p.document(), "260101000000Z"); p.attributes = append(a[:1], a[3]) },
	} {
		if got := replay(change); got != first {
			t.Errorf("%s: %q and %q", name, got, first)
		}
	}
	if got := replay(launched(at.Add(-time.Second))); got == first {
		t.Error("a second launch of the instance is the first")
	}
	if got := replay(func(p *parts) { p.set("instanceId", `"`+instance()+`"`) }); got == first {
		t.Error("two instances are one")
	}
	// Instance ids are unique only within a region.
	p := f.other.launch(at, box)
	p.set("region", `"`+other+`"`)
	id, err := f.Attest(t.Context(), f.shown(t, p.sealed(), attesttest.NewKey(t)))
	if err != nil || id.ReplayID == first || id.Selectors["region"] != other {
		t.Errorf("got %+v, %v", id, err)
	}
}

// The launch window is configurable, and the claim of the first key outlasts it on a
// replica with a slow clock.
func TestWindow(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *ec2.Config) { c.LaunchWindow, c.Lifetime = 10*time.Minute, 10*time.Minute })
	at := f.clock.Now()
	raw := f.maker.launch(at, instance()).sealed()
	for _, tt := range []struct {
		after time.Duration
		want  attest.Reason // "": accepted
	}{
		{-time.Minute - time.Second, attest.ReasonNotYetValid}, {-time.Minute, ""}, {0, ""}, {10*time.Minute - time.Second, ""},
		{10 * time.Minute, attest.ReasonExpired}, {365 * 24 * time.Hour, attest.ReasonExpired},
	} {
		f.clock.Set(at.Add(tt.after))
		id, err := f.Attest(t.Context(), f.shown(t, raw, attesttest.NewKey(t)))
		if attesttest.Reason(err) != tt.want || (tt.want == "") != (err == nil) {
			t.Errorf("%s after the launch: got %v, want %q", tt.after, err, tt.want)
		}
		if err == nil && (!id.NotAfter.Equal(at.Add(10*time.Minute)) || !id.ReplayUntil.Equal(at.Add(31*time.Minute))) {
			t.Errorf("%s after the launch: until %v, claimed until %v", tt.after, id.NotAfter, id.ReplayUntil)
		}
	}
}

// Base64 with non-zero spare bits at its end, another spelling of the same bytes, is
// refused.
func TestSpareBits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := attesttest.NewKey(t)
	var raw []byte
	for n := 0; len(raw)%3 != 1; n++ {
		p := f.maker.launch(f.clock.Now(), instance())
		p.content = func(s string) string { return s + strings.Repeat(" ", n) }
		raw = p.sealed()
	}
	e := f.shown(t, raw, key)
	if _, err := f.Attest(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	doc := string(e.Document)
	at := strings.Index(doc, `=="`) - 1
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	e.Document = []byte(doc[:at] + string(alphabet[strings.IndexByte(alphabet, doc[at])+1]) + doc[at+1:])
	if _, err := f.Attest(t.Context(), e); attesttest.Reason(err) != attest.ReasonMalformed {
		t.Errorf("got %v", err)
	}
}

func TestChallenge(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if c, err := f.Challenge(t.Context(), attest.Evidence{Key: attest.Key{X5T: "x"}}); attesttest.Reason(err) != attest.ReasonKeyBinding {
		t.Errorf("without a key: %+v, %v", c, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := f.Challenge(over, attest.Evidence{Key: attesttest.NewKey(t)}); !errors.Is(err, context.Canceled) || errors.Is(err, attest.ErrRejected) {
		t.Errorf("cancelled: %+v, %v", c, err)
	}
	c, err := f.Challenge(t.Context(), attest.Evidence{Key: attesttest.NewKey(t)})
	if err != nil || len(c.Nonce) != 75 || c.Document != nil || !c.ExpiresAt.Equal(f.clock.Now().Add(attest.NonceLife)) {
		t.Errorf("got %+v, %v", c, err)
	}
}
