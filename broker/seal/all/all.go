package all

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/attest/options"
	"github.com/ebb-broker/ebb/broker/seal"
	"github.com/ebb-broker/ebb/broker/seal/file"
	"github.com/ebb-broker/ebb/broker/seal/kms"
	"github.com/ebb-broker/ebb/broker/seal/transit"
)

// kinds maps the word in the configuration to its constructor.
var kinds = map[string]func(config json.RawMessage, instance string) (seal.Wrapper, error){
	"file": kind(func(c file.Config, _ string) (seal.Wrapper, error) { return file.New(c) }),
	"kms": kind(func(c kms.Config, instance string) (seal.Wrapper, error) {
		c.Instance = instance
		return kms.New(c)
	}),
	"transit": kind(func(c transit.Config, _ string) (seal.Wrapper, error) { return transit.New(c, nil) }),
}

// kind decodes the options of a kind strictly and makes its wrapper.
func kind[C any](make func(C, string) (seal.Wrapper, error)) func(json.RawMessage, string) (seal.Wrapper, error) {
	return func(config json.RawMessage, instance string) (seal.Wrapper, error) {
		var c C
		if len(config) > 0 {
			if err := options.Decode(config, &c); err != nil {
				return nil, err
			}
		}
		return make(c, instance)
	}
}

// Kinds returns the names of the kinds, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// New makes a wrapper of a kind for the installation instance.
func New(kind string, config json.RawMessage, instance string) (seal.Wrapper, error) {
	make, known := kinds[kind]
	if !known {
		return nil, fmt.Errorf("unknown kind %q of sealing key: known are %s", kind, strings.Join(Kinds(), ", "))
	}
	return make(config, instance)
}
