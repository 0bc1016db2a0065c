package all

import (
	"fmt"
	"slices"
	"strings"

	"ebb/broker/provider"
	"ebb/broker/provider/jwt"
)

// Env is what the house lends to every kind.
type Env struct {
	Issuer string
	Keys   jwt.Keys
}

// kinds maps the word in the configuration to its constructor. options is the
// kind's own part of the configuration, decoded but not yet understood.
var kinds = map[string]func(Env, map[string]any) (provider.Driver, error){
	"jwt": func(e Env, options map[string]any) (provider.Driver, error) {
		if len(options) > 0 {
			return nil, fmt.Errorf("provider kind jwt takes no options")
		}
		return jwt.New(jwt.Config{Issuer: e.Issuer, Keys: e.Keys})
	},
}

// Kinds lists the kinds, sorted.
func Kinds() []string {
	var out []string
	for k := range kinds {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// New makes a driver of a kind.
func New(kind string, e Env, options map[string]any) (provider.Driver, error) {
	make, known := kinds[kind]
	if !known {
		return nil, fmt.Errorf("unknown provider kind %q: known are %s", kind, strings.Join(Kinds(), ", "))
	}
	return make(e, options)
}
