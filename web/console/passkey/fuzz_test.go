package passkey

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/people"
)

const (
	fuzzOrigin = "https://ebb.test"
	fuzzPerson = "ann"
)

var fuzzDecision = Decision{Request: "req_1", Choice: "narrow", Digest: "d1"}

// signer is a passkey whose valid responses seed the fuzzer. They are the same
// in all its processes.
type signer struct {
	key *ecdsa.PrivateKey
	people.Passkey
}

func newSigner(t testing.TB) signer {
	t.Helper()
	k, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	point, err := k.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	// EC2, ES256, P-256 (RFC 9053 section 7.1.1), as CBOR.
	cose := append([]byte{0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 0x20}, point[1:33]...)
	cose = append(append(cose, 0x22, 0x58, 0x20), point[33:]...)
	return signer{k, people.Passkey{ID: []byte("an id of 16 byte"), Person: fuzzPerson, PublicKey: cose}}
}

func (s signer) assert(t testing.TB, challenge []byte) []byte {
	t.Helper()
	b64 := base64.RawURLEncoding.EncodeToString
	client, err := json.Marshal(map[string]any{"type": "webauthn.get", "challenge": b64(challenge), "origin": fuzzOrigin, "crossOrigin": false})
	if err != nil {
		t.Fatal(err)
	}
	rp, hash := sha256.Sum256([]byte("ebb.test")), sha256.Sum256(client)
	data := append(rp[:], 5, 0, 0, 0, 1)
	sum := sha256.Sum256(append(append([]byte{}, data...), hash[:]...))
	sig, err := s.key.Sign(nil, sum[:], crypto.SHA256) // RFC 6979
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(map[string]any{"id": b64(s.ID), "rawId": b64(s.ID), "type": "public-key", "clientExtensionResults": map[string]any{},
		"response": map[string]any{"clientDataJSON": b64(client), "authenticatorData": b64(data), "signature": b64(sig)}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func fuzzKeys(t testing.TB) *Keys {
	t.Helper()
	at := time.Unix(1_800_000_000, 0).UTC()
	k, err := New(fuzzOrigin, make([]byte, 32), func() time.Time { return at })
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// FuzzAssertion: a browser's response proves an answer only if it is by a
// passkey of this person, and only for the content of the challenge.
func FuzzAssertion(f *testing.F) {
	k, s := fuzzKeys(f), newSigner(f)
	salted := sealed{For: "decide|" + fuzzDecision.text(), Person: fuzzPerson, Session: "session", Salt: bytes.Repeat([]byte{7}, 32), Until: k.now().Add(Lifetime)}
	raw, err := json.Marshal(salted)
	if err != nil {
		f.Fatal(err)
	}
	state := base64.RawURLEncoding.EncodeToString(raw)
	state += "." + k.mac(state)
	good := s.assert(f, fuzzDecision.Challenge(salted.Salt))
	have := []people.Passkey{s.Passkey}
	if _, _, _, err := k.Proved(fuzzDecision, fuzzPerson, "session", state, have, good); err != nil {
		f.Fatal(err)
	}
	f.Add(good, state)
	f.Add(s.assert(f, []byte("another challenge")), state)
	f.Add([]byte(`{"id":"","type":"public-key","response":{}}`), state+"A")
	f.Add([]byte("null"), ".")
	other := Decision{Request: "req_1", Choice: "approve", Digest: "d1"}
	f.Fuzz(func(t *testing.T, response []byte, text string) {
		p, _, once, err := k.Proved(fuzzDecision, fuzzPerson, "session", text, have, response)
		if err == nil && (text != state || !bytes.Equal(p.Key, s.ID) || !bytes.Equal(p.Salt, salted.Salt) || once == "") {
			t.Errorf("it proves by %q: %+v", text, p)
		}
		if _, _, _, err := k.Proved(other, fuzzPerson, "session", text, have, response); err == nil {
			t.Error("it proves another answer")
		}
		if _, _, _, err := k.Proved(fuzzDecision, "bob", "session", text, have, response); err == nil {
			t.Error("it proves somebody else's answer")
		}
		if key, err := k.Registered(fuzzPerson, "", "session", text, response); err == nil {
			t.Errorf("it registers %+v", key)
		}
	})
}

// FuzzProof: a stored proof is valid only for the answer, the passkey and the
// key in the audit entry.
func FuzzProof(f *testing.F) {
	s, salt := newSigner(f), bytes.Repeat([]byte{7}, 32)
	good, err := json.Marshal(Proof{Key: s.ID, PublicKey: s.PublicKey, Salt: salt, RPID: "ebb.test", Origin: fuzzOrigin, Assertion: s.assert(f, fuzzDecision.Challenge(salt))})
	if err != nil {
		f.Fatal(err)
	}
	sig := audit.Signature{RequestID: "req_1", Choice: "narrow", Digest: "d1", By: fuzzPerson, Passkey: hex.EncodeToString(s.ID), KeyHash: hashOf(s.PublicKey), Proof: string(good)}
	if err := Check(sig); err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"key":"AA==","public_key":"AA==","salt":"` + base64.StdEncoding.EncodeToString(salt) + `","origin":"http://[::1]","assertion":{"response":{}}}`))
	f.Add(bytes.Replace(good, []byte(`"assertion"`), []byte(`"Assertion"`), 1))
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := sig
		in.Proof = string(raw)
		if err := Check(in); err == nil {
			p, err := ReadProof(raw)
			if err != nil || !bytes.Equal(p.Key, s.ID) || !bytes.Equal(p.PublicKey, s.PublicKey) || !bytes.Equal(p.Salt, salt) || p.Origin != fuzzOrigin || p.RPID != "ebb.test" {
				t.Errorf("it passes: %+v, %v", p, err)
			}
		}
		in.Choice = "approve"
		if Check(in) == nil {
			t.Error("it passes for another answer")
		}
	})
}
