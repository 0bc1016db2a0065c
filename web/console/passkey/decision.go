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

	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/people"
)

// Decision is one answer to one request, as the passkey signs it.
type Decision struct {
	Request string `json:"request"`
	Choice  string `json:"choice"`
	Digest  string `json:"digest"`
	// For a narrowed approval also the grant, which the facts do not contain.
	Scope string `json:"scope,omitempty"` // canonical
	TTL   int64  `json:"ttl,omitempty"`   // seconds
}

// Combine combines several answers into one decision, in their order. Ids and
// digests contain no comma, and no other choice is named "approve-together".
func Combine(ds []Decision) Decision {
	if len(ds) == 1 {
		return ds[0]
	}
	var ids, digests []string
	for _, d := range ds {
		ids, digests = append(ids, d.Request), append(digests, d.Digest)
	}
	return Decision{Request: strings.Join(ids, ","), Choice: "approve-together", Digest: strings.Join(digests, ",")}
}

// exact reports whether the grant itself is signed, and not only the digest of the facts.
func (d Decision) exact() bool { return d.Scope != "" }

// text is the signed text without the salt. Only the scope may contain a bar,
// and it is the last part.
func (d Decision) text() string {
	if d.exact() {
		return strings.Join([]string{"ebb-decision-v2", d.Request, d.Choice, d.Digest, strconv.FormatInt(d.TTL, 10), d.Scope}, "|")
	}
	return strings.Join([]string{"ebb-decision-v1", d.Request, d.Choice, d.Digest}, "|")
}

// Challenge returns the challenge that the passkey signs. Anyone with the
// answer and the salt can compute it again.
func (d Decision) Challenge(salt []byte) []byte {
	sum := sha256.Sum256(append([]byte(d.text()+"|"), salt...))
	return sum[:]
}

// Proof is stored with a decision. An auditor verifies with it that this key signed the decision.
type Proof struct {
	Key       []byte          `json:"key"`        // id of the passkey
	PublicKey []byte          `json:"public_key"` // COSE (RFC 9052 section 7)
	Salt      []byte          `json:"salt"`
	RPID      string          `json:"rp_id"`
	Origin    string          `json:"origin"`
	Assertion json.RawMessage `json:"assertion"` // PublicKeyCredential.toJSON()
	// Of lists all decisions of a batch, in the order in which they were
	// signed. It is empty for a single decision.
	Of []Decision `json:"of,omitempty"`
	// Exact reports that the scope and lifetime of a narrowed approval were
	// signed, too (ebb-decision-v2).
	Exact bool `json:"exact,omitempty"`
}

// Ask starts a proof. It returns the options for navigator.credentials.get as
// JSON, and the state that the form must send back.
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

// Proved verifies the browser's response. It returns the proof, the passkey's signature counter,
// and the value that the caller must claim so that the proof is accepted once.
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
		return nil, errors.New("the passkey did not verify the person (user verification flag missing)")
	case c.Authenticator.CloneWarning:
		return nil, errCloned
	}
	return c, nil
}

// Verify checks a stored proof: that the passkey in it signed this decision. The audit entry of the
// passkey's registration tells whose it is, by the SHA-256 of PublicKey.
func (p Proof) Verify(d Decision) error {
	if !p.Exact {
		d.Scope, d.TTL = "", 0
	} else if !d.exact() {
		return errors.New("the audit entry does not contain the granted scope")
	}
	if len(p.Of) > 0 {
		if !slices.Contains(p.Of, d) {
			return errors.New("the decision is not part of the signed batch")
		}
		d = Combine(p.Of)
	}
	k, err := New(p.Origin, nil, nil)
	if err != nil {
		return err
	}
	if k.w.Config.RPID != p.RPID {
		return errors.New("rp_id is not the host name of origin")
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(p.Assertion)
	if err != nil {
		return err
	}
	// Whether the passkey is synced is taken from the assertion itself. Proved
	// compared it with the registration at the time.
	synced := parsed.Response.AuthenticatorData.Flags.HasBackupEligible()
	_, err = k.verify(d, p.Salt, user{"", "", []people.Passkey{{ID: p.Key, PublicKey: p.PublicKey, Synced: synced}}}, withoutUser(p.Assertion))
	return err
}

// Check verifies the stored proof of an answer against its audit entry: that this passkey signed
// this choice for this request on these facts. If the entry names no public key, Check verifies only
// that the key in the proof signed, and not that the key is the registered one.
func Check(s audit.Signature) error {
	p, err := ReadProof([]byte(s.Proof))
	switch {
	case err != nil:
		return err
	case hex.EncodeToString(p.Key) != s.Passkey:
		return errors.New("the proof is by another passkey than the audit entry names")
	case s.KeyHash != "" && s.KeyHash != hashOf(p.PublicKey):
		return errors.New("the proof is by another public key than the passkey was registered with")
	}
	return p.Verify(Decision{Request: s.RequestID, Choice: s.Choice, Digest: s.Digest, Scope: s.Scope, TTL: s.TTL})
}

// ReadProof parses a stored proof strictly.
func ReadProof(b []byte) (Proof, error) {
	var p Proof
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, errors.New("the proof is not valid JSON")
	}
	if _, err := d.Token(); err != io.EOF || len(p.Key) == 0 || len(p.PublicKey) == 0 || len(p.Salt) != 32 {
		return p, errors.New("the proof is incomplete")
	}
	return p, nil
}

// withoutUser removes the user handle, which names the owner of the passkey and is not signed.
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

// hashOf returns the hash by which the registration's audit entry names a public key.
func hashOf(publicKey []byte) string {
	sum := sha256.Sum256(publicKey)
	return hex.EncodeToString(sum[:])
}
