package webhook

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/secret"
)

// Options are the channel's settings in the configuration.
type Options struct {
	URL string `json:"url"` // https, or http on loopback
	// Secret is whsec_ and the base64 of 24 to 64 bytes. Previous is an older secret that
	// receivers may still use: messages are signed with both.
	Secret   notify.Key `json:"secret"`
	Previous notify.Key `json:"previous_secret"`
	// Ed25519 is whsk_ and the base64 of a private key (its seed, or all of it).
	Ed25519 notify.Key `json:"ed25519_key"`
	Private bool       `json:"allow_private_addresses"` // the URL's name may resolve to one
}

// Config holds the arguments of New.
type Config struct {
	Options
	Look  func(string) (string, bool) // os.LookupEnv
	Fetch fetch.Config                // Private is overwritten with that of Options
	Now   func() time.Time            // the time of an attempt, which is signed; nil = time.Now
}

// New checks the configuration and reads the secrets. It opens no connection.
func New(c Config) (notify.Sender, error) {
	c.Fetch.Private = c.Private
	post, err := notify.NewPost(c.URL, c.Fetch)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &signer{now: c.Now}
	if c.Previous.Set() && !c.Secret.Set() {
		return nil, errors.New("previous_secret: set secret as well")
	}
	for _, k := range []struct {
		name, prefix string
		key          notify.Key
		must         bool
		use          func([]byte) error
	}{
		{"secret", "whsec_", c.Secret, !c.Ed25519.Set(), s.addHMAC},
		{"previous_secret", "whsec_", c.Previous, false, s.addHMAC},
		{"ed25519_key", "whsk_", c.Ed25519, false, s.addEd25519},
	} {
		if !k.must && !k.key.Set() {
			continue
		}
		secret, err := k.key.Read(c.Look)
		var key []byte
		if err == nil {
			key, err = decode(secret, k.prefix)
		}
		if err == nil {
			err = k.use(key)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
	}
	return &notify.Hook{Post: post, Body: body, Sign: s.sign}, nil
}

func (s *signer) addHMAC(key []byte) error {
	if len(key) < 24 || len(key) > 64 {
		return errors.New("it must be 24 to 64 bytes: make one with `openssl rand -base64 32`, and write whsec_ before it")
	}
	w, err := standardwebhooks.NewWebhookRaw(key)
	s.hmac = append(s.hmac, w)
	return err
}

func (s *signer) addEd25519(key []byte) error {
	if len(key) != ed25519.SeedSize && len(key) != ed25519.PrivateKeySize {
		return errors.New("it must be 32 or 64 bytes of an Ed25519 private key")
	}
	s.ed25519 = ed25519.NewKeyFromSeed(key[:ed25519.SeedSize])
	if len(key) == ed25519.PrivateKeySize && !s.ed25519.Equal(ed25519.PrivateKey(key)) {
		return errors.New("the public key in its last 32 bytes does not belong to the private key in its first 32 bytes")
	}
	return nil
}

// decode removes the prefix and decodes the base64 of a secret. Errors do not repeat the secret.
func decode(secret secret.Secret, prefix string) ([]byte, error) {
	text, found := strings.CutPrefix(secret.Reveal(), prefix)
	if !found {
		return nil, fmt.Errorf("it does not begin with %s", prefix)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, errors.New("the text after " + prefix + " is not base64")
	}
	return key, nil
}

// signer signs the messages of one webhook.
type signer struct {
	hmac    []*standardwebhooks.Webhook
	ed25519 ed25519.PrivateKey // nil = none
	now     func() time.Time   // the time of this attempt: receivers refuse old timestamps
}

// sign returns the headers of Standard Webhooks, with one signature for each key. The library
// has no v1a (Ed25519).
func (s *signer) sign(m notify.Message, body []byte) (http.Header, error) {
	at := s.now()
	var signatures []string
	for _, key := range s.hmac {
		text, err := key.Sign(m.ID, at, body)
		if err != nil {
			return nil, err
		}
		signatures = append(signatures, text)
	}
	stamp := strconv.FormatInt(at.Unix(), 10)
	if s.ed25519 != nil {
		signed := append([]byte(m.ID+"."+stamp+"."), body...)
		signatures = append(signatures, "v1a,"+base64.StdEncoding.EncodeToString(ed25519.Sign(s.ed25519, signed)))
	}
	h := http.Header{}
	h.Set(standardwebhooks.HeaderWebhookID, m.ID)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, stamp)
	h.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	return h, nil
}
