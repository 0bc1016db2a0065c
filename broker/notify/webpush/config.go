package webpush

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/fips140"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	webpush "github.com/SherClockHolmes/webpush-go"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/pace"
	"github.com/ebb-broker/ebb/broker/people"
)

// Options are the channel's settings in the configuration.
type Options struct {
	// Contact is a mail address or https URL of the operator, for the push services (RFC 8292
	// section 2.1).
	Contact string `json:"contact"`
	// Services are hosts of push services; "*." stands for one or more labels. Empty means those
	// of Chrome, Firefox, Safari and Edge.
	Services []string `json:"services"`
	Private  bool     `json:"allow_private_addresses"` // the names of the services may resolve to private addresses
}

var usual = []string{"fcm.googleapis.com", "updates.push.services.mozilla.com", "*.push.apple.com", "*.notify.windows.com"}

// Config holds the arguments of New.
type Config struct {
	Options
	Derive func(string) []byte // keys that replicas share; nil: the sender sends nothing
	Store  people.PushStore    // required with Derive
	Fetch  fetch.Config        // Private is overwritten with that of Options
	Now    func() time.Time    // nil = time.Now
}

// Sender sends to the browsers of people.
type Sender struct {
	cfg             Config
	client          *http.Client
	aead            cipher.AEAD
	private, public string // VAPID, base64url

	mu       sync.Mutex
	breakers map[string]*pace.Breaker // by host
}

var _ notify.Sender = (*Sender)(nil)

// New checks the configuration and derives the keys. It opens no connection.
func New(c Config) (*Sender, error) {
	if fips140.Enforced() {
		return nil, errors.New("web push derives the nonces of AES-GCM (RFC 8188 section 2.3), which GODEBUG=fips140=only does not allow: remove the channel")
	}
	if _, err := mail.ParseAddress(c.Contact); err != nil && !strings.HasPrefix(c.Contact, "https://") {
		return nil, errors.New("contact: write a mail address or an https URL of the operator, for the push services")
	}
	if len(c.Services) == 0 {
		c.Services = usual
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &Sender{cfg: c, breakers: map[string]*pace.Breaker{}}
	for _, host := range c.Services {
		if strings.ContainsAny(host, "/@?# ") || strings.Contains(strings.TrimPrefix(host, "*."), "*") || strings.Count(host, ".") == 0 {
			return nil, fmt.Errorf("services: %q is not a host such as push.example.com or *.example.com", host)
		}
	}
	c.Fetch.Private, c.Fetch.Timeout, c.Fetch.MaxBytes = c.Private, timeout, 16<<10
	var err error
	if s.client, err = fetch.NewClient("https://"+strings.TrimPrefix(c.Services[0], "*."), c.Fetch); err != nil || c.Derive == nil {
		return s, err
	}
	block, err := aes.NewCipher(c.Derive("webpush-subscriptions"))
	if err != nil {
		return nil, err
	}
	if s.aead, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		return nil, err
	}
	// A derived text is not a valid private key with probability 2^-32. The loop then derives another.
	for i := 0; ; i++ {
		text := c.Derive("webpush-vapid-" + strconv.Itoa(i))
		if key, err := ecdh.P256().NewPrivateKey(text); err == nil {
			s.private, s.public = base64.RawURLEncoding.EncodeToString(text), base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes())
			return s, nil
		}
	}
}

// maxBreakers limits the memory for breakers: people choose the hosts below an entry "*.".
const maxBreakers = 1000

// breaker returns the breaker of a host. An entry of Services with "*." has one for each of its hosts: otherwise a person
// with subscriptions at hosts that do not exist would stop the notifications of all people at that service.
func (s *Sender) breaker(host string) *pace.Breaker {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.breakers[host]
	if b == nil {
		if len(s.breakers) >= maxBreakers {
			clear(s.breakers)
		}
		b = &pace.Breaker{Failures: 3, Backoff: pace.Backoff{Min: 10 * time.Second, Max: 5 * time.Minute}}
		s.breakers[host] = b
	}
	return b
}

// PublicKey returns the key with which browsers subscribe (applicationServerKey).
func (s *Sender) PublicKey() string { return s.public }

// Where implements notify.Sender.
func (s *Sender) Where() string { return "browsers, through " + strings.Join(s.cfg.Services, ", ") }

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
	// With the keys in the id, a person who knows only another browser's address cannot replace its row.
	sum := sha256.Sum256(slices.Concat([]byte(sub.Endpoint), []byte{0}, point, auth))
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
