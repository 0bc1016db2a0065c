package verify_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/web/verify"
)

const vectorNow = 1_800_000_000

// object is a JSON object whose members a vector changes: nil removes one.
type object = map[string]any

// forge makes the shared vectors. Its private keys are not stored.
type forge struct {
	t       *testing.T
	issuer  jose.Signer // kid "k1"
	second  jose.Signer // kid "k2", Ed25519
	next    jose.Signer // kid "k3", published later
	holder  jose.Signer
	holder2 jose.Signer // Ed25519
	mallory jose.Signer
	n       int
	file    *vectorFile
}

func newForge(t *testing.T) *forge {
	return &forge{t: t, issuer: p256(t), second: ed(t), next: p256(t), holder: p256(t), holder2: ed(t), mallory: p256(t)}
}

func (f *forge) files() map[string]vectorFile {
	all := map[string]vectorFile{}
	for name, fill := range map[string]func(){
		"token-header": f.tokenHeaders, "token-claims": f.tokenClaims, "proof-header": f.proofHeaders, "proof-claims": f.proofClaims,
		"request": f.requests, "state": f.states,
	} {
		f.file = &vectorFile{Config: vectorConfig{
			Issuer: issuer, Resource: resource, Scope: need.String(), Now: vectorNow, MaxStaleness: 10, Up: 3600,
			Feed: `{"events":[],"cursor":"c0","max_age_seconds":10}`,
		}, JWKS: f.keySets()}
		fill()
		slices.SortFunc(f.file.Vectors, func(a, b vector) int { return strings.Compare(a.Name, b.Name) })
		all[name] = *f.file
	}
	return all
}

func (f *forge) jwk(k jose.Signer, change object) object {
	return merged(attesttest.PublicJWK(f.t, k), change)
}

func merged(base, change object) object {
	out := maps.Clone(base)
	for name, v := range change {
		with(name, v)(out)
	}
	return out
}

// keySets are the responses of the key endpoint.
func (f *forge) keySets() map[string]string {
	set := func(keys ...object) string {
		b, err := json.Marshal(object{"keys": keys})
		if err != nil {
			f.t.Fatal(err)
		}
		return string(b)
	}
	k1 := f.jwk(f.issuer, object{"kid": "k1", "use": "sig", "alg": "ES256"})
	k2 := f.jwk(f.second, object{"kid": "k2", "use": "sig", "alg": "EdDSA"})
	k3 := f.jwk(f.next, object{"kid": "k3", "use": "sig", "alg": "ES256"})
	good := set(k1, k2)
	return map[string]string{
		"issuer": good, "down": "", "rotated": set(k2, k3), "no-key": set(), "not-json": "<html></html>",
		"one-without-kid":      set(f.jwk(f.issuer, nil)),
		"two-for-es256":        set(k1, k3),
		"same-kid":             set(k1, merged(k3, object{"kid": "k1"})),
		"same-kid-two-types":   set(k1, merged(k2, object{"kid": "k1"})),
		"with-private":         set(merged(k1, object{"d": b64(make([]byte, 32))}), k2),
		"with-symmetric":       set(k1, object{"kty": "oct", "k": "AAAA", "kid": "k9"}),
		"with-unknown-type":    set(k1, object{"kty": "LATTICE", "kid": "k9", "x": "AAAA"}),
		"for-encryption":       set(merged(k1, object{"use": "enc"}), k2),
		"key-ops-sign":         set(merged(k1, object{"key_ops": []string{"sign"}}), k2),
		"key-ops-verify":       set(merged(k1, object{"key_ops": []string{"verify"}}), k2),
		"other-alg":            set(merged(k1, object{"alg": "ES384"}), k2),
		"point-not-on-curve":   set(merged(k1, object{"y": k1["x"]}), k2),
		"padded-coordinates":   set(merged(k1, object{"x": k1["x"].(string) + "="}), k2),
		"keys-twice":           good[:len(good)-1] + `,"keys":[]}`,
		"keys-and-KEYS":        good[:len(good)-1] + `,"KEYS":[]}`,
		"text-after-the-set":   good + "{}",
		"key-member-twice":     strings.Replace(good, `"kid":"k1"`, `"kid":"k9","kid":"k1"`, 1),
		"small-order-ed25519":  set(k1, merged(k2, object{"x": b64(append([]byte{1}, make([]byte, 31)...))})),
		"keys-is-not-an-array": `{"keys":{}}`,
	}
}

// claims are those of a valid token.
func (f *forge) claims(change object) object {
	f.n++
	return merged(object{
		"iss": issuer, "aud": resource, "sub": "ann", "client_id": "sbx_1", "jti": fmt.Sprintf("lse_%d", f.n),
		"iat": vectorNow - 60, "exp": vectorNow + 540, "scope": "orders:eu/*:read",
		"cnf": object{"jkt": thumb(f.t, f.holder)}, issuer + verify.TaskClaim: "tsk_1", "txn": "txn_1",
	}, change)
}

func (f *forge) head(change object) object {
	return merged(object{"alg": "ES256", "typ": "at+jwt", "kid": "k1"}, change)
}

func (f *forge) token(change object) string {
	return attesttest.Forge(f.t, f.issuer, f.head(nil), f.claims(change))
}

// raw signs claims whose text ends with more, such as `,"aud":"x"}`.
func (f *forge) raw(more string) string {
	return attesttest.Forge(f.t, f.issuer, f.head(nil), strings.TrimSuffix(text(f.claims(nil)), "}")+more)
}

func text(v any) string { b, _ := json.Marshal(v); return string(b) }

// proof makes a valid proof for GET of path, with header and claims changed.
func (f *forge) proof(token string, head, claims object) string {
	return f.proofBy(f.holder, token, head, claims)
}

func (f *forge) proofBy(k jose.Signer, token string, head, claims object) string {
	return attesttest.Forge(f.t, k, f.proofHead(k, head), f.proofClaimsOf(token, claims))
}

func (f *forge) proofHead(k jose.Signer, change object) object {
	alg := "ES256"
	if _, is := k.(ed25519.PrivateKey); is {
		alg = "EdDSA"
	}
	return merged(object{"alg": alg, "typ": "dpop+jwt", "jwk": attesttest.PublicJWK(f.t, k)}, change)
}

func (f *forge) proofClaimsOf(token string, change object) object {
	f.n++
	return merged(object{
		"jti": fmt.Sprintf("jti-%d", f.n), "htm": "GET", "htu": base + path, "iat": vectorNow, "ath": dpop.AccessTokenHash(token),
	}, change)
}

func (f *forge) get(token string, proofs ...string) *vectorRequest {
	r := &vectorRequest{Method: "GET", URL: base + path, Headers: [][2]string{{"Authorization", "DPoP " + token}}}
	for _, p := range proofs {
		r.Headers = append(r.Headers, [2]string{"DPoP", p})
	}
	return r
}

// wants reads "401 invalid_token", "503" or "allow"; the latter takes the
// result from the token of the request.
func (f *forge) wants(want string, r *vectorRequest) *vectorWant {
	if status, code, _ := strings.Cut(want, " "); want != "allow" {
		n, err := strconv.Atoi(status)
		if err != nil {
			f.t.Fatal(err)
		}
		return &vectorWant{Status: n, Error: code}
	}
	for _, h := range r.Headers {
		scheme, token, _ := strings.Cut(h[1], " ")
		if !strings.EqualFold(scheme, "dpop") {
			continue
		}
		payload, err := base64.RawURLEncoding.DecodeString(strings.Split(strings.TrimSpace(token), ".")[1])
		if err != nil {
			f.t.Fatal(err)
		}
		var c map[string]any
		if err := json.Unmarshal(payload, &c); err != nil {
			f.t.Fatal(err)
		}
		str := func(name string) string { s, _ := c[name].(string); return s }
		jkt, _ := c["cnf"].(map[string]any)["jkt"].(string)
		return &vectorWant{Allow: &vectorToken{str("sub"), str("client_id"), str("scope"), str(issuer + verify.TaskClaim), str("jti"), jkt}}
	}
	f.t.Fatalf("%v has no token", r)
	return nil
}

func (f *forge) step(want string, r *vectorRequest) vectorStep {
	return vectorStep{Request: r, Want: f.wants(want, r)}
}

func (f *forge) add(name string, steps ...vectorStep) *vector {
	f.file.Vectors = append(f.file.Vectors, vector{Name: name, Steps: steps})
	return &f.file.Vectors[len(f.file.Vectors)-1]
}

// tokenCase is a request with a token, and a valid proof for it.
func (f *forge) tokenCase(name, want, token string) *vector {
	return f.add("token: "+name, f.step(want, f.get(token, f.proof(token, nil, nil))))
}

// proofCase is a request with a valid token and the proof that make returns for it.
func (f *forge) proofCase(name, want string, proof func(token string) string) {
	token := f.token(nil)
	f.add("proof: "+name, f.step(want, f.get(token, proof(token))))
}

// resigned replaces the ECDSA signature (r, s) of a JWS.
func (f *forge) resigned(jws string, change func(r, s *big.Int) []byte) string {
	in := jws[:strings.LastIndexByte(jws, '.')]
	sig, err := base64.RawURLEncoding.DecodeString(jws[len(in)+1:])
	if err != nil {
		f.t.Fatal(err)
	}
	return in + "." + b64(change(new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])))
}

func fixed(r, s *big.Int) []byte {
	out := make([]byte, 64)
	r.FillBytes(out[:32])
	s.FillBytes(out[32:])
	return out
}

// asn1Signature signs a JWS again with a signature in DER.
func (f *forge) asn1Signature(k jose.Signer, jws string) string {
	in := jws[:strings.LastIndexByte(jws, '.')]
	sum := sha256.Sum256([]byte(in))
	sig, err := ecdsa.SignASN1(rand.Reader, k.(*ecdsa.PrivateKey), sum[:])
	if err != nil {
		f.t.Fatal(err)
	}
	return in + "." + b64(sig)
}

// signatures are changes of the ECDSA signature that both tokens and proofs are tested with; the value is whether it
// stays valid.
func signatures() map[string]struct {
	valid  bool
	change func(r, s *big.Int) []byte
} {
	n := elliptic.P256().Params().N
	type sigCase = struct {
		valid  bool
		change func(r, s *big.Int) []byte
	}
	bad := func(change func(r, s *big.Int) []byte) sigCase { return sigCase{false, change} }
	return map[string]sigCase{
		"the other of the two s values": {true, func(r, s *big.Int) []byte { return fixed(r, new(big.Int).Sub(n, s)) }},
		"r and s are 0":                 bad(func(*big.Int, *big.Int) []byte { return make([]byte, 64) }),
		"r is 0":                        bad(func(_, s *big.Int) []byte { return fixed(new(big.Int), s) }),
		"s is 0":                        bad(func(r, _ *big.Int) []byte { return fixed(r, new(big.Int)) }),
		"r and s are the order":         bad(func(*big.Int, *big.Int) []byte { return fixed(n, n) }),
		"r and s are exchanged":         bad(func(r, s *big.Int) []byte { return fixed(s, r) }),
		"signature of 63 bytes":         bad(func(r, s *big.Int) []byte { return fixed(r, s)[:63] }),
		"signature of 65 bytes":         bad(func(r, s *big.Int) []byte { return append(fixed(r, s), 0) }),
		"signature of 96 bytes":         bad(func(r, s *big.Int) []byte { return append(fixed(r, s), make([]byte, 32)...) }),
		"signature of 1 byte":           bad(func(*big.Int, *big.Int) []byte { return []byte{1} }),
	}
}
