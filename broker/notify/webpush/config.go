package webpush

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/fips140"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/mail"
	"strconv"
	"strings"
	"sync"
	"time"

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
