package webpush

import (
	"crypto/ecdh"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	webpush "github.com/SherClockHolmes/webpush-go"

	"github.com/ebb-broker/ebb/broker/people"
)

// maxText is the largest subscription. Addresses of push services have about 200 bytes.
const maxText = 2048

// Subscription checks the JSON of a PushSubscription (Push API, section 8) and seals it. The
// caller adds the person, the name of the browser and the time.
func (s *Sender) Subscription(person, text string) (p people.Push, err error) {
	var sub webpush.Subscription
	if len(text) > maxText || json.Unmarshal([]byte(text), &sub) != nil {
		return p, errors.New("the browser sent no subscription")
	}
	if service, _ := s.service(sub.Endpoint); service == "" {
		return p, errors.New("the browser's push service is not among the services that this ebb permits")
	}
	point, err := base64.RawURLEncoding.Strict().DecodeString(sub.Keys.P256dh)
	if err == nil {
		_, err = ecdh.P256().NewPublicKey(point)
	}
	auth, err2 := base64.RawURLEncoding.Strict().DecodeString(sub.Keys.Auth)
	if err != nil || err2 != nil || len(auth) != 16 {
		return p, errors.New("the subscription must have a P-256 point as p256dh and 16 bytes as auth")
	}
	sum := sha256.Sum256([]byte(sub.Endpoint))
	p.ID, p.Person = hex.EncodeToString(sum[:16]), person
	clear, err := json.Marshal(sub)
	p.Sealed = base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, clear, bound(p)))
	return p, err
}

// service returns the entry of Services that permits an address, and the address's host; "" without one.
func (s *Sender) service(address string) (entry, host string) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.User != nil || u.Fragment != "" || u.Opaque != "" || address != u.String() {
		return "", ""
	}
	for _, entry := range s.cfg.Services {
		if below, all := strings.CutPrefix(entry, "*"); u.Host == entry || all && strings.HasSuffix(u.Host, below) && u.Port() == "" {
			return entry, u.Host
		}
	}
	return "", ""
}

// open returns the address and the keys.
func (s *Sender) open(p people.Push) (sub webpush.Subscription, err error) {
	text, err := base64.RawURLEncoding.DecodeString(p.Sealed)
	if err == nil {
		text, err = s.aead.Open(nil, nil, text, bound(p))
	}
	if err == nil {
		err = json.Unmarshal(text, &sub)
	}
	return sub, err
}

// bound binds a sealed subscription to its row.
func bound(p people.Push) []byte { return []byte("ebb push\x00" + p.ID + "\x00" + p.Person) }
