package passkey

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"ebb/broker/audit"
	"ebb/broker/people"
)

// Decision is what somebody wants.
type Decision struct {
	Request string `json:"request"`
	Choice  string `json:"choice"`
	Digest  string `json:"digest"`
	// Of a smaller yes also what is granted, which the facts do not have.
	Scope string `json:"scope,omitempty"` // canonical
	TTL   int64  `json:"ttl,omitempty"`   // seconds
}

// Together is one answer to several requests, in their order. No id and no digest holds a
// comma, and no other answer is called so.
func Together(ds []Decision) Decision {
	if len(ds) == 1 {
		return ds[0]
	}
	var ids, digests []string
	for _, d := range ds {
		ids, digests = append(ids, d.Request), append(digests, d.Digest)
	}
	return Decision{Request: strings.Join(ids, ","), Choice: "approve-together", Digest: strings.Join(digests, ",")}
}

// exact reports whether what is granted is signed itself, and not by the digest of the facts.
func (d Decision) exact() bool { return d.Scope != "" }

// text is what is signed but for the salt. The scope is its last part: no other has a bar.
func (d Decision) text() string {
	if d.exact() {
		return strings.Join([]string{"ebb-decision-v2", d.Request, d.Choice, d.Digest, strconv.FormatInt(d.TTL, 10), d.Scope}, "|")
	}
	return strings.Join([]string{"ebb-decision-v1", d.Request, d.Choice, d.Digest}, "|")
}

// Challenge is what the passkey signs: whoever has the answer and the salt computes it again.
func (d Decision) Challenge(salt []byte) []byte {
	sum := sha256.Sum256(append([]byte(d.text()+"|"), salt...))
	return sum[:]
}

// Proof is kept with a decision: by it an auditor checks that this key signed it.
type Proof struct {
	Key       []byte          `json:"key"`        // id of the passkey
	PublicKey []byte          `json:"public_key"` // COSE (RFC 9052 section 7)
	Salt      []byte          `json:"salt"`
	RPID      string          `json:"rp_id"`
	Origin    string          `json:"origin"`
	Assertion json.RawMessage `json:"assertion"` // PublicKeyCredential.toJSON()
	// Of are all that were decided together, in the order in which they were signed; empty =
	// one alone.
	Of []Decision `json:"of,omitempty"`
	// Exact: scope and time of a smaller yes were signed, too (ebb-decision-v2).
	Exact bool `json:"exact,omitempty"`
}

// Ask begins a proof: options for navigator.credentials.get, as JSON, and what the form
// must carry back.
func (k *Keys) Ask(d Decision, person, session string, have []people.Passkey) (options []byte, state string, err error) {
	s, state, err := k.seal("decide|"+d.text(), person, session)
	if err != nil {
		return nil, "", err
	}
	assertion, _, err := k.w.BeginLogin(user{person, "", have}, webauthn.WithChallenge(d.Challenge(s.Salt)), webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return nil, "", err
	}
	options, err = json.Marshal(assertion.Response)
	return options, state, err
}

// Proved judges what the browser made of it, and says by which passkey and how often
// that has been used now. once names what the caller spends, so that it counts once.
func (k *Keys) Proved(d Decision, person, session, state string, have []people.Passkey, response []byte) (p Proof, count uint32, once string, err error) {
	s, err := k.open(state, "decide|"+d.text(), person, session)
	if err != nil {
		return p, 0, "", err
	}
	c, err := k.verify(d, s.Salt, user{person, "", have}, response)
	if err != nil {
		return p, 0, "", err
	}
	for _, h := range have {
		if bytes.Equal(h.ID, c.ID) {
			p = Proof{Key: c.ID, PublicKey: h.PublicKey, Salt: s.Salt, RPID: k.w.Config.RPID, Origin: k.w.Config.RPOrigins[0], Assertion: response, Exact: d.exact()}
		}
	}
	return p, c.Authenticator.SignCount, protocol.URLEncodedBase64(s.Salt).String(), nil
}

func (k *Keys) verify(d Decision, salt []byte, u user, response []byte) (*webauthn.Credential, error) {
	parsed, err := protocol.ParseCredentialRequestResponseBytes(response)
	if err != nil {
		return nil, err
	}
	c, err := k.w.ValidateLogin(u, webauthn.SessionData{
		Challenge: protocol.URLEncodedBase64(d.Challenge(salt)).String(), RelyingPartyID: k.w.Config.RPID, UserID: u.WebAuthnID(), UserVerification: protocol.VerificationRequired,
	}, parsed)
	switch {
	case err != nil:
		return nil, err
	case !parsed.Response.AuthenticatorData.Flags.UserVerified():
		return nil, errors.New("the person was not verified")
	case c.Authenticator.CloneWarning:
		return nil, ErrCloned
	}
	return c, nil
}

// Verify checks a proof that was kept: that the passkey in it signed this decision.
// Whose passkey it was, the record of its registration says, by the SHA-256 of PublicKey.
func (p Proof) Verify(d Decision) error {
	if !p.Exact {
		d.Scope, d.TTL = "", 0
	} else if !d.exact() {
		return errors.New("the record does not say what was granted")
	}
	if len(p.Of) > 0 {
		if !slices.Contains(p.Of, d) {
			return errors.New("it is not among those that were decided together")
		}
		d = Together(p.Of)
	}
	k, err := New(p.Origin, nil, nil)
	if err != nil {
		return err
	}
	if k.w.Config.RPID != p.RPID {
		return errors.New("rp_id and origin do not belong together")
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(p.Assertion)
	if err != nil {
		return err
	}
	// A passkey that is synced is one whose assertion says so: it was judged then.
	synced := parsed.Response.AuthenticatorData.Flags.HasBackupEligible()
	_, err = k.verify(d, p.Salt, user{"", "", []people.Passkey{{ID: p.Key, PublicKey: p.PublicKey, Synced: synced}}}, withoutUser(p.Assertion))
	return err
}

// Check judges what was kept of an answer by what the record says of it: that this passkey
// signed this choice for this request on these facts. Where the record names no public key
// it only shows that whoever has the one in the proof did.
func Check(s audit.Signature) error {
	p, err := ReadProof([]byte(s.Proof))
	switch {
	case err != nil:
		return err
	case hex.EncodeToString(p.Key) != s.Passkey:
		return errors.New("the proof is of another passkey than the record names")
	case s.KeyHash != "" && s.KeyHash != hashOf(p.PublicKey):
		return errors.New("the proof is by another public key than the passkey was registered with")
	}
	return p.Verify(Decision{Request: s.RequestID, Choice: s.Choice, Digest: s.Digest, Scope: s.Scope, TTL: s.TTL})
}

// ReadProof reads a proof that was kept, strictly.
func ReadProof(b []byte) (Proof, error) {
	var p Proof
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, errors.New("the proof cannot be read")
	}
	if _, err := d.Token(); err != io.EOF || len(p.Key) == 0 || len(p.PublicKey) == 0 || len(p.Salt) != 32 {
		return p, errors.New("the proof is not whole")
	}
	return p, nil
}

// withoutUser takes the user handle out, which names whom the passkey was made for and
// is not signed.
func withoutUser(assertion []byte) []byte {
	var a map[string]json.RawMessage
	var r map[string]json.RawMessage
	if json.Unmarshal(assertion, &a) != nil || json.Unmarshal(a["response"], &r) != nil {
		return assertion
	}
	delete(r, "userHandle")
	a["response"], _ = json.Marshal(r)
	out, _ := json.Marshal(a)
	return out
}

// hashOf names a public key as the record of its registration does.
func hashOf(publicKey []byte) string {
	sum := sha256.Sum256(publicKey)
	return hex.EncodeToString(sum[:])
}
