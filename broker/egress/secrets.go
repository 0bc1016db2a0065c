package egress

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/clientcert"
	"github.com/ebb-broker/ebb/broker/egress/redact"
	"github.com/ebb-broker/ebb/broker/provider"
)

// lookFor makes the redactor that finds the injected secrets, and the key of the client
// certificate, in the response.
func (s *outbound) lookFor(use broker.Usable, before, after *http.Request, shown *clientcert.Certificate) error {
	if use.Bare {
		return nil
	}
	secrets, err := secretsOf(before, after)
	for _, piece := range shown.Secrets() {
		if len(piece) >= redact.MinSecret {
			secrets = append(secrets, piece)
		}
	}
	if err == nil {
		s.redactor, err = s.b.p.redactors.take(s.ctx, s.b.who, s.leaseID, secrets)
	}
	if _, denied := errors.AsType[*Denial](err); err == nil || denied || s.ctx.Err() != nil {
		return err
	}
	return deny(Doubt, err)
}

// signed are the headers of an AWS signature. They hold no secret, and the signature is valid for
// this request alone.
var signed = []string{"Authorization", "X-Amz-Date", "X-Amz-Content-Sha256"}

// schemes are authorization schemes: a secret after one is looked for without it. Any other first
// word may be a part of the secret, as the first pair of a Cookie is.
var schemes = []string{"bearer", "basic", "token", "dpop", "apikey"}

// secretsOf returns what an injector added: values of headers, user and password of Basic, and
// values of parameters.
func secretsOf(before, after *http.Request) ([]string, error) {
	aws := strings.HasPrefix(after.Header.Get("Authorization"), awsScheme+" ")
	var secrets []string
	add := func(s string) {
		if len(s) >= redact.MinSecret {
			secrets = append(secrets, s)
		}
	}
	for name, values := range after.Header {
		for _, v := range values {
			if slices.Contains(before.Header[name], v) || aws && slices.Contains(signed, name) {
				continue
			}
			scheme, rest, two := strings.Cut(v, " ")
			if two {
				add(rest)
			}
			if !two || !slices.Contains(schemes, strings.ToLower(scheme)) {
				add(v)
				continue
			}
			if raw, err := base64.StdEncoding.DecodeString(rest); err == nil && strings.EqualFold(scheme, "Basic") {
				user, password, _ := strings.Cut(string(raw), ":")
				add(user)
				add(password)
			}
		}
	}
	had, err1 := url.ParseQuery(before.URL.RawQuery)
	has, err2 := url.ParseQuery(after.URL.RawQuery)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	for name, values := range has {
		for _, v := range values {
			if !slices.Contains(had[name], v) {
				add(v)
			}
		}
	}
	return secrets, nil
}

// discloses returns what finds credentials that the response creates; nil = the response creates
// none. If the names that a provider states cannot be searched for, the request is refused.
func (s *outbound) discloses(use broker.Usable, r *http.Request) (*redact.Named, error) {
	d, is := use.Injector.(provider.Discloser)
	if !is {
		return nil, nil
	}
	names := d.Discloses(r, use.Target)
	if names.Empty() {
		return nil, nil
	}
	return s.b.p.named.of(names)
}

// maxNamed is how many are cached; a provider has one or two.
const maxNamed = 256

// named caches what finds credentials by their names.
type named struct {
	mu  sync.Mutex
	all *simplelru.LRU[*provider.Disclosed, *redact.Named]
}

func newNamed() (*named, error) {
	all, err := simplelru.NewLRU[*provider.Disclosed, *redact.Named](maxNamed, nil)
	return &named{all: all}, err
}

func (n *named) of(names *provider.Disclosed) (*redact.Named, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if found, is := n.all.Get(names); is {
		return found, nil
	}
	made, err := redact.NewNamed(names.Members, names.Parameters)
	if err == nil {
		n.all.Add(names, made)
	}
	return made, err
}
