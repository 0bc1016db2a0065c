package tpm_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-tpm/tpm2"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/tpm"
)

// FuzzDocument: for an arbitrary document, Attest returns either an identity or a rejection, and
// Challenge a challenge or a rejection. Neither panics.
func FuzzDocument(f *testing.F) {
	fix := newFixture(f)
	key := attesttest.NewKey(f)
	b := newBox(fix.maker)
	f.Add(must(json.Marshal(b.request())))
	f.Add(fix.know(b, key).Document)
	f.Add([]byte(`{"nonce":"","ek_cert":[],"pcrs":{}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		if _, err := fix.Challenge(t.Context(), evidence(doc, key)); err != nil && !errors.Is(err, attest.ErrRejected) {
			t.Errorf("challenge: %v", err)
		}
		id, err := fix.Attest(t.Context(), evidence(doc, key))
		if err != nil && !errors.Is(err, attest.ErrRejected) || (err == nil) != (id.Subject != "") {
			t.Errorf("evidence: %+v, %v", id, err)
		}
	})
}

// FuzzPublic: go-tpm reads an accepted TPMT_PUBLIC in the same way, and writes it with the
// same bytes.
func FuzzPublic(f *testing.F) {
	m := newMaker(f, time.Unix(1_800_000_000, 0))
	for _, b := range []*box{newBox(m), rsaBox(m, tpm2.TPMAlgRSASSA), rsaBox(m, tpm2.TPMAlgRSAPSS)} {
		ek, ak := b.publics()
		f.Add(ek)
		f.Add(ak)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if tpm.ParsePublic(b) != nil {
			return
		}
		p, err := tpm2.Unmarshal[tpm2.TPMTPublic](b)
		if err != nil {
			return // symmetric algorithms of which go-tpm knows none are refused by checkEK and checkAK
		}
		// go-tpm drops reserved attribute bits, which the Name covers all the same.
		if again := tpm2.Marshal(p); len(again) != len(b) || !bytes.Equal(again[8:], b[8:]) {
			t.Errorf("%x is read as %x", b, again)
		}
	})
}

func FuzzQuote(f *testing.F) {
	b := newBox(newMaker(f, time.Unix(1_800_000_000, 0)))
	_, ak := b.publics()
	f.Add(b.quote("nonce", nameOf(ak)))
	b.quoteOf = func(p *parts) { p.count = 2 }
	f.Add(b.quote("nonce", nameOf(ak)))
	f.Fuzz(func(t *testing.T, b []byte) {
		indexes, err := tpm.ParseQuote(b)
		if err != nil {
			return
		}
		q, err := tpm2.Unmarshal[tpm2.TPMSAttest](b)
		if err != nil {
			t.Fatalf("%x: go-tpm: %v", b, err)
		}
		if !slices.IsSorted(indexes) || !bytes.Equal(tpm2.Marshal(q), b) {
			t.Errorf("%x is read as %x, PCRs %v", b, tpm2.Marshal(q), indexes)
		}
	})
}

func FuzzSignature(f *testing.F) {
	m := newMaker(f, time.Unix(1_800_000_000, 0))
	for _, b := range []*box{newBox(m), rsaBox(m, tpm2.TPMAlgRSASSA), rsaBox(m, tpm2.TPMAlgRSAPSS)} {
		f.Add(b.sign([]byte("x")))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if tpm.ParseSignature(b) != nil {
			return
		}
		s, err := tpm2.Unmarshal[tpm2.TPMTSignature](b)
		if err != nil || !bytes.Equal(tpm2.Marshal(s), b) {
			t.Errorf("%x: go-tpm reads another: %v", b, err)
		}
	})
}

func FuzzSAN(f *testing.F) {
	for _, types := range [][]int{{1, 2, 3}, {1}, {}} {
		f.Add(san(types...).Value)
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		if model, err := tpm.ParseSAN(der); (err == nil) != (model != "") {
			t.Errorf("%q, %v", model, err)
		}
	})
}
