package passkey

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"ebb/broker/people"
)

// Decision is what somebody wants.
type Decision struct{ Request, Choice, Digest string }

func (d Decision) text() string { return strings.Join([]string{d.Request, d.Choice, d.Digest}, "|") }

// challenge is what the passkey signs: whoever has request, choice, digest and salt
// computes it again.
func (d Decision) challenge(salt []byte) []byte {
	sum := sha256.Sum256(append([]byte("ebb-decision-v1|"+d.text()+"|"), salt...))
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
}

// Ask begins a proof: options for navigator.credentials.get, as JSON, and what the form
// must carry back.
func (k *Keys) Ask(d Decision, person, session string, have []people.Passkey) (options []byte, state string, err error) {
	s, state, err := k.seal("decide|"+d.text(), person, session)
	if err != nil {
		return nil, "", err
	}
	assertion, _, err := k.w.BeginLogin(user{person, "", have}, webauthn.WithChallenge(d.challenge(s.Salt)), webauthn.WithUserVerification(protocol.VerificationRequired))
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
			p = Proof{Key: c.ID, PublicKey: h.PublicKey, Salt: s.Salt, RPID: k.w.Config.RPID, Origin: k.w.Config.RPOrigins[0], Assertion: response}
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
		Challenge: protocol.URLEncodedBase64(d.challenge(salt)).String(), RelyingPartyID: k.w.Config.RPID, UserID: u.WebAuthnID(), UserVerification: protocol.VerificationRequired,
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
