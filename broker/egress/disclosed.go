package egress

import (
	"net/http"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"ebb/broker"
	"ebb/broker/egress/redact"
	"ebb/broker/provider"
)

// discloses is what looks for credentials that the answer makes, nil = it makes none. When
// nobody can look for what a provider names, its request stays here.
func (s *sending) discloses(use broker.Usable, r *http.Request) (*redact.Named, error) {
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

// maxNamed is how many are kept: a provider has one or two.
const maxNamed = 256

// named are those that were made, by what asked for them.
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
