package passkey

import (
	"encoding/json"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/ebb-broker/ebb/broker/people"
)

const register = "register"

// Register starts a registration. It returns the options for
// navigator.credentials.create as JSON, and the state that the form must send
// back. have are the person's passkeys; their authenticators are excluded.
func (k *Keys) Register(person, name, session string, have []people.Passkey) (options []byte, state string, err error) {
	s, state, err := k.seal(register, person, session)
	if err != nil {
		return nil, "", err
	}
	u := user{person, name, have}
	var exclude []protocol.CredentialDescriptor
	for _, c := range u.WebAuthnCredentials() {
		exclude = append(exclude, c.Descriptor())
	}
	creation, _, err := k.w.BeginRegistration(u, webauthn.WithExclusions(exclude))
	if err != nil {
		return nil, "", err
	}
	creation.Response.Challenge = s.Salt
	options, err = json.Marshal(creation.Response)
	return options, state, err
}

// Registered verifies the browser's response. The returned passkey has no name yet.
func (k *Keys) Registered(person, name, session, state string, response []byte) (people.Passkey, error) {
	var none people.Passkey
	s, err := k.open(state, register, person, session)
	if err != nil {
		return none, err
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(response)
	if err != nil {
		return none, err
	}
	u := user{person, name, nil}
	c, err := k.w.CreateCredential(u, webauthn.SessionData{
		Challenge: protocol.URLEncodedBase64(s.Salt).String(), RelyingPartyID: k.w.Config.RPID, UserID: u.WebAuthnID(), Expires: s.Until,
		UserVerification: protocol.VerificationRequired, CredParams: webauthn.CredentialParametersDefault(),
	}, parsed)
	if err != nil {
		return none, err
	}
	return people.Passkey{ID: c.ID, Person: person, PublicKey: c.PublicKey, Count: c.Authenticator.SignCount, Synced: c.Flags.BackupEligible, CreatedAt: k.now()}, nil
}
