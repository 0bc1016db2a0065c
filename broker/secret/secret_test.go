package secret_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/secret"
)

// E92: every way to print a value that Go has must miss the secret (I8).
//
//ebb:invariant I8 A secret is printed, logged and marshalled as a fixed mark, whatever the formatting verb or encoder
func TestSecretNeverPrints(t *testing.T) {
	const canary = "canary-0xC0FFEE"
	s := secret.New(canary)
	type wrapper struct {
		S secret.Secret
		P *secret.Secret
		M map[string]secret.Secret
	}
	w := wrapper{S: s, P: &s, M: map[string]secret.Secret{"k": s}}
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "s", s, "w", w, "p", &s)
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "s", s, "w", w, "p", &s)
	js, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	outs := []string{s.String(), s.GoString(), logged.String(), string(js), fmt.Errorf("failed with %v %w", s, fmt.Errorf("%q", s)).Error()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%p"} {
		outs = append(outs, fmt.Sprintf(verb, s), fmt.Sprintf(verb, w), fmt.Sprintf(verb, &w), fmt.Sprintf(verb, []any{s, w}))
	}
	for _, out := range outs {
		if strings.Contains(out, canary) || strings.Contains(out, fmt.Sprintf("%x", canary)) {
			t.Errorf("the secret is in %q", out)
		}
	}
	if s.Reveal() != canary || s.Empty() || !s.Equal(secret.New(canary)) || s.Equal(secret.New("x")) {
		t.Error("the secret itself is damaged")
	}
	if err := json.Unmarshal([]byte(`"x"`), &secret.Secret{}); err == nil {
		t.Error("a secret was decoded from JSON")
	}
	if !(secret.Secret{}).Empty() || (secret.Secret{}).Reveal() != "" {
		t.Error("the zero secret is not empty")
	}
}
