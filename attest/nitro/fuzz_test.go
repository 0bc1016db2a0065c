package nitro_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"testing"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/nitro"
)

// smallest is a payload that can be read: small inputs are fuzzed faster.
func smallest(f *testing.F) []byte {
	f.Helper()
	return indefinite(encode(f, map[string]any{"module_id": "m", "digest": "SHA384", "timestamp": 1, "pcrs": map[int][]byte{0: make([]byte, 32)},
		"certificate": []byte{1}, "cabundle": [][]byte{{1}}, "nonce": nil}))
}

func enveloped(t testing.TB, payload []byte) []byte {
	t.Helper()
	return encode(t, []any{[]byte{0xa1, 0x01, 0x38, 0x22}, map[int]int{}, payload, make([]byte, 96)})
}

// FuzzDocument: Attest rejects an unsigned document, and Read accepts only one encoding of each
// document.
func FuzzDocument(f *testing.F) {
	x := newFixture(f)
	key := attesttest.NewKey(f)
	f.Add(enveloped(f, smallest(f)))
	f.Add([]byte{0x84, 0x44, 0xa1, 0x01, 0x38, 0x22, 0xa0, 0x41, 0xa0, 0x40})
	f.Add([]byte{0xd2, 0x84, 0x5f, 0xff, 0xbf, 0xff, 0x9f, 0xff})
	f.Fuzz(func(t *testing.T, raw []byte) {
		text := []byte(base64.StdEncoding.EncodeToString(raw))
		if again, _, _, err := nitro.Read(text); err == nil && !bytes.Equal(again, raw) {
			t.Errorf("%x is read and encodes to %x", raw, again)
		}
		if id, err := x.a.Attest(t.Context(), attest.Evidence{Document: text, Key: key}); !errors.Is(err, attest.ErrRejected) {
			t.Errorf("got %+v, %v", id, err)
		}
	})
}

// FuzzPayload: for an arbitrary payload, the values that Read returns are within their bounds.
func FuzzPayload(f *testing.F) {
	f.Add(smallest(f))
	f.Add([]byte("\xa1\x64pcrs\xa1\x00\x58\x30"))
	f.Fuzz(func(t *testing.T, payload []byte) {
		_, id, registers, err := nitro.Read([]byte(base64.StdEncoding.EncodeToString(enveloped(t, payload))))
		if err != nil {
			if !errors.Is(err, attest.ErrRejected) {
				t.Errorf("%x: %v", payload, err)
			}
			return
		}
		if id == "" || len(id) > 128 || !jose.Plain(id) {
			t.Errorf("module_id %q", id)
		}
		for n, v := range registers {
			if n > 31 || len(v) != 32 && len(v) != 48 && len(v) != 64 {
				t.Errorf("register %d of %d bytes", n, len(v))
			}
		}
	})
}
