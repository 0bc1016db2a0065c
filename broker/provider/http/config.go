package http

import (
	"errors"
	"fmt"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// Config is the config part of a provider of this kind.
type Config struct {
	// Allow is the most that anybody can ask for: "registry.example.com/**:read". Required.
	Allow []string `json:"allow"`
	// Port of the hosts; 0 = 443.
	Port uint16 `json:"port,omitempty"`
	// SealResponse are routes whose answers make credentials that stay in ebb; none is named twice.
	SealResponse []provider.SealRoute `json:"seal_response,omitempty"`
}

const maxAllow = 64

// set reads Allow as scopes of the provider of that name; all problems at once.
func (c Config) set(name string) (scopes.Set, error) {
	var errs []error
	var all []scopes.Scope
	if len(c.Allow) == 0 || len(c.Allow) > maxAllow {
		errs = append(errs, fmt.Errorf("allow: name 1 to %d, like registry.example.com/**:read", maxAllow))
	}
	for i, text := range c.Allow {
		s, err := scopes.Parse(name + ":" + text)
		if err == nil {
			err = wrong(s)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("allow[%d]: %q is not <host>/<path>:<action>, like registry.example.com/**:read: %w", i, text, err))
			continue
		}
		all = append(all, s)
	}
	if err := errors.Join(errs...); err != nil {
		return scopes.Set{}, err
	}
	return scopes.NewSet(all...)
}

// methods are what an action stands for.
var methods = map[string][]string{"read": {"GET", "HEAD"}, "write": {"POST", "PUT", "PATCH"}, "delete": {"DELETE"}}

// wrong is why a scope names no requests: its host must be one, and its action one that is
// known.
func wrong(s scopes.Scope) error {
	host := s.Segments()[0]
	switch {
	case stricturl.CheckName(host) != nil:
		return errors.New("the first part must be the full name of one host in lower case")
	case len(s.Segments()) == 1:
		return errors.New("say which paths: /** is everything")
	case methods[s.Action()] == nil:
		return errors.New("the action must be read, write or delete")
	}
	return nil
}
