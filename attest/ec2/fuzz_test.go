package ec2_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/ec2"
	"github.com/ebb-broker/ebb/attest/jose"
)

// FuzzSigned checks that data which AWS did not sign is rejected, and that parsed
// content occurs in the input, in one or several parts.
func FuzzSigned(f *testing.F) {
	x := newFixture(f)
	key := attesttest.NewKey(f)
	nonce, _ := x.nonces.Issue("cloud", key.JKT, x.clock.Now())
	good := x.maker.launch(x.clock.Now(), instance())
	f.Add(good.sealed())
	for _, change := range []func(*parts){
		func(p *parts) { p.wrap = der },
		func(p *parts) { p.octets = inPieces(p.document()) },
		func(p *parts) { p.octets = der(4, []byte(p.document())) },
		func(p *parts) { p.more = der(0xa0, x.maker.cert.Raw) },
		func(p *parts) { p.content = func(string) string { return "{}" } },
	} {
		p := x.maker.launch(x.clock.Now(), instance())
		change(p)
		p.maker = x.other // signed by another key, so all are invalid
		f.Add(p.sealed())
	}
	signed := good.document()
	f.Fuzz(func(t *testing.T, raw []byte) {
		content, _, err := ec2.Read(raw)
		if err != nil && !errors.Is(err, attest.ErrRejected) {
			t.Errorf("%x: %v", raw, err)
		}
		if len(content) > len(raw) {
			t.Errorf("%x: a content of %d bytes", raw, len(content))
		}
		e := with(t, key, map[string]string{"nonce": nonce, "rsa2048": base64.StdEncoding.EncodeToString(raw)})
		id, err := x.Attest(t.Context(), e)
		if err == nil && string(content) != signed || err != nil && !errors.Is(err, attest.ErrRejected) {
			t.Errorf("%x: got %+v, %v", raw, id, err)
		}
	})
}

// FuzzDocument checks that the identity of an arbitrary signed document is within its
// bounds.
func FuzzDocument(f *testing.F) {
	m := newMaker(f, 0, time.Unix(1_800_000_000, 0))
	p := m.launch(time.Unix(1_800_000_000, 0), "i-0123456789abcdef0")
	f.Add([]byte(p.document()))
	f.Add([]byte(`{"accountId":"123456789012","accountId":null}`))
	f.Add([]byte(`{"privateIp":"::ffff:1.2.3.4%x"}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		p := m.launch(time.Time{}, "")
		p.content, p.signature = func(string) string { return string(content) }, der(4)
		got, selectors, err := ec2.Read(p.sealed())
		if err != nil {
			if !errors.Is(err, attest.ErrRejected) {
				t.Errorf("%q: %v", content, err)
			}
			return
		}
		if !bytes.Equal(got, content) || len(selectors) < 7 {
			t.Errorf("%q: got %q, %v", content, got, selectors)
		}
		for name, v := range selectors {
			if v == "" || len(v) > 64 || !jose.Plain(v) {
				t.Errorf("%s is %q", name, v)
			}
		}
	})
}

// FuzzShown checks that only the valid evidence is accepted.
func FuzzShown(f *testing.F) {
	x := newFixture(f)
	good := x.evidence(f)
	f.Add(good.Document)
	f.Add([]byte(`{"nonce":"","rsa2048":"MIA="}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		e := good
		e.Document = doc
		if id, err := x.Attest(t.Context(), e); err != nil && !errors.Is(err, attest.ErrRejected) || err == nil && id.ReplayID == "" {
			t.Errorf("%q: got %+v, %v", doc, id, err)
		}
	})
}
