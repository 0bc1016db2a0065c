package all

import (
	"encoding/json"
	"testing"
)

func TestRefuses(t *testing.T) {
	env := Env{Look: func(string) (string, bool) { return "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", true }}
	if m, err := New("webhook", json.RawMessage(`{"url": "https://hooks.example.com/x", "secret": {"variable": "S"}}`), env); err != nil || !m.Place || m.People || m.Sender.Where() != "https://hooks.example.com" {
		t.Errorf("got %+v, %v", m, err)
	}
	if m, err := New("email", json.RawMessage(`{"server": "smtps://mx.example.com", "from": "a@example.com", "people": true}`), env); err != nil || m.Place || !m.People {
		t.Errorf("got %+v, %v", m, err)
	}
	for kind, options := range map[string]string{"nope": `{}`, "webhook": `{"url": "https://hooks.example.com/x", "secret": {"variable": "S"}, "allow_private_adresses": true}`, "email": `{}`, "slack": `{"url": "https://x"}`, "webpush": `{}`} {
		if m, err := New(kind, json.RawMessage(options), env); err == nil || m.Sender != nil {
			t.Errorf("%s: taken", kind)
		}
	}
}
