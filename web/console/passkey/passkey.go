package passkey

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/ebb-broker/ebb/broker/people"
)

// Lifetime of a challenge.
const Lifetime = 2 * time.Minute

var (
	// ErrAddress: the origin is an IP address. Browsers create passkeys for host names only.
	ErrAddress = errors.New("passkeys need a host name, and the console's origin is an IP address; set public_url to a host name")
	// errStale: the challenge belongs to another session or answer, or has expired.
	errStale = errors.New("the challenge belongs to another form or is older than 2 minutes")
	// errCloned: the passkey's signature counter went backwards.
	errCloned = errors.New("the passkey's signature counter went backwards: a copy of the passkey may be in use")
)

// Keys makes challenges and verifies the responses. It stores nothing.
type Keys struct {
	w   *webauthn.WebAuthn
	key []byte
	now func() time.Time
}

// New returns Keys for a console at origin. key has 32 bytes and is the same on all replicas.
func New(origin string, key []byte, now func() time.Time) (*Keys, error) {
	u, err := url.Parse(origin)
	if err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return nil, ErrAddress
	}
	w, err := webauthn.New(&webauthn.Config{
		RPID: u.Hostname(), RPDisplayName: "ebb", RPOrigins: []string{origin}, AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{UserVerification: protocol.VerificationRequired, ResidentKey: protocol.ResidentKeyRequirementPreferred},
	})
	return &Keys{w: w, key: key, now: now}, err
}

// sealed is the state in the form. The salt in it is the challenge of a
// registration, and part of the challenge of a decision.
type sealed struct {
	For     string    `json:"f"` // the purpose
	Person  string    `json:"p"`
	Session string    `json:"s"`
	Salt    []byte    `json:"n"`
	Until   time.Time `json:"u"`
}

func (k *Keys) seal(what, person, session string) (sealed, string, error) {
	s := sealed{For: what, Person: person, Session: session, Salt: make([]byte, 32), Until: k.now().Add(Lifetime)}
	_, _ = rand.Read(s.Salt) // never fails (crypto/rand)
	raw, err := json.Marshal(s)
	if err != nil {
		return s, "", err
	}
	text := base64.RawURLEncoding.EncodeToString(raw)
	return s, text + "." + k.mac(text), nil
}

func (k *Keys) open(text, what, person, session string) (s sealed, err error) {
	body, mac, _ := strings.Cut(text, ".")
	if !hmac.Equal([]byte(mac), []byte(k.mac(body))) {
		return s, errStale
	}
	raw, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil || json.Unmarshal(raw, &s) != nil || s.For != what || s.Person != person || s.Session != session || !k.now().Before(s.Until) {
		return s, errStale
	}
	return s, nil
}

func (k *Keys) mac(text string) string {
	m := hmac.New(sha256.New, k.key)
	m.Write([]byte("passkey\x00" + text))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// user implements webauthn.User for a person with passkeys.
type user struct {
	id, name string
	keys     []people.Passkey
}

// WebAuthnID implements webauthn.User. It is a hash, so that authenticators do
// not get the person's id.
func (u user) WebAuthnID() []byte { h := sha256.Sum256([]byte(u.id)); return h[:] }

// WebAuthnName implements webauthn.User.
func (u user) WebAuthnName() string { return u.id }

// WebAuthnDisplayName implements webauthn.User.
func (u user) WebAuthnDisplayName() string { return u.name }

// WebAuthnCredentials implements webauthn.User.
func (u user) WebAuthnCredentials() []webauthn.Credential {
	out := make([]webauthn.Credential, len(u.keys))
	for i, p := range u.keys {
		out[i] = webauthn.Credential{ID: p.ID, PublicKey: p.PublicKey, Flags: webauthn.CredentialFlags{UserPresent: true, UserVerified: true, BackupEligible: p.Synced, BackupState: p.Synced},
			Authenticator: webauthn.Authenticator{SignCount: p.Count}}
	}
	return out
}
