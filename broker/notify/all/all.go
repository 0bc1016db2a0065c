package all

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/options"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/notify/email"
	"github.com/ebb-broker/ebb/broker/notify/slack"
	"github.com/ebb-broker/ebb/broker/notify/teams"
	"github.com/ebb-broker/ebb/broker/notify/webhook"
	"github.com/ebb-broker/ebb/broker/notify/webpush"
	"github.com/ebb-broker/ebb/broker/people"
)

// Env holds the dependencies that channels of all kinds share.
type Env struct {
	Look   func(string) (string, bool) // variables of the environment: os.LookupEnv
	Derive func(string) []byte         // keys that replicas share; nil: channels are only listed and tested
	Pushes people.PushStore            // nil if Derive is nil
}

var kinds = map[string]func(json.RawMessage, Env) (notify.Channel, error){
	"email": kind(func(o email.Options, env Env) (notify.Channel, error) {
		s, err := email.New(email.Config{Options: o, Look: env.Look})
		return notify.Channel{Sender: s, Place: len(o.To) > 0, People: o.People}, err
	}),
	"slack": chat(slack.Body),
	"teams": chat(teams.Body),
	"webpush": kind(func(o webpush.Options, env Env) (notify.Channel, error) {
		s, err := webpush.New(webpush.Config{Options: o, Derive: env.Derive, Store: env.Pushes})
		return notify.Channel{Sender: s, Push: true}, err
	}),
	"webhook": kind(func(o webhook.Options, env Env) (notify.Channel, error) {
		s, err := webhook.New(webhook.Config{Options: o, Look: env.Look})
		return notify.Channel{Sender: s, Place: true}, err
	}),
}

// kind decodes the options of a kind strictly: a misspelt restriction must be an error.
func kind[O any](open func(O, Env) (notify.Channel, error)) func(json.RawMessage, Env) (notify.Channel, error) {
	return func(config json.RawMessage, env Env) (notify.Channel, error) {
		var o O
		if len(config) > 0 {
			if err := options.Decode(config, &o); err != nil {
				return notify.Channel{}, err
			}
		}
		c, err := open(o, env)
		if err != nil {
			return notify.Channel{}, err // not c: its Sender is an interface with a nil pointer in it
		}
		return c, nil
	}
}

// chat returns a kind that posts JSON to an incoming webhook.
func chat(body func(notify.Message) ([]byte, error)) func(json.RawMessage, Env) (notify.Channel, error) {
	return kind(func(o notify.HookOptions, env Env) (notify.Channel, error) {
		s, err := notify.NewHook(o, env.Look, fetch.Config{}, body)
		return notify.Channel{Sender: s, Place: true}, err
	})
}

// Kinds returns the names of the kinds, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// New makes a channel of a kind. It opens no connection.
func New(kind string, config json.RawMessage, env Env) (notify.Channel, error) {
	open, known := kinds[kind]
	if !known {
		return notify.Channel{}, fmt.Errorf("unknown kind of channel %q: use one of %s", kind, strings.Join(Kinds(), ", "))
	}
	return open(config, env)
}
