package all

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/attest/options"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/notify/email"
	"github.com/ebb-broker/ebb/broker/notify/slack"
	"github.com/ebb-broker/ebb/broker/notify/webhook"
)

// Made is a channel that its kind has made.
type Made struct {
	Sender notify.Sender
	Place  bool // it has a destination of its own that gets every message
	People bool // it reaches people by their own address
}

// Look returns variables of the environment: os.LookupEnv.
type Look func(string) (string, bool)

var kinds = map[string]func(json.RawMessage, Look) (Made, error){
	"email": kind(func(o email.Options, look Look) (Made, error) {
		s, err := email.New(email.Config{Options: o, Look: look})
		return Made{s, len(o.To) > 0, o.People}, err
	}),
	"slack": kind(func(o slack.Options, look Look) (Made, error) {
		s, err := slack.New(slack.Config{Options: o, Look: look})
		return Made{s, true, false}, err
	}),
	"webhook": kind(func(o webhook.Options, look Look) (Made, error) {
		s, err := webhook.New(webhook.Config{Options: o, Look: look})
		return Made{s, true, false}, err
	}),
}

// kind decodes the options of a kind strictly: a misspelt restriction must be an error.
func kind[O any](make func(O, Look) (Made, error)) func(json.RawMessage, Look) (Made, error) {
	return func(config json.RawMessage, look Look) (Made, error) {
		var o O
		if len(config) > 0 {
			if err := options.Decode(config, &o); err != nil {
				return Made{}, err
			}
		}
		m, err := make(o, look)
		if err != nil {
			return Made{}, err
		}
		return m, nil
	}
}

// Kinds returns the names of the kinds, sorted.
func Kinds() []string {
	var out []string
	for k := range kinds {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// New makes a channel of a kind. It opens no connection.
func New(kind string, config json.RawMessage, look Look) (Made, error) {
	make, known := kinds[kind]
	if !known {
		return Made{}, fmt.Errorf("unknown kind of channel %q: known are %s", kind, strings.Join(Kinds(), ", "))
	}
	return make(config, look)
}
