package attest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
)

func TestSelectorMatch(t *testing.T) {
	t.Parallel()
	got := attest.Identity{Selectors: map[string]string{"sub": "spiffe://td/team/ab", "env": "prod", "empty": ""}}
	for _, tc := range []struct {
		name string
		want map[string]string
		ok   bool
	}{
		{"one of several", map[string]string{"env": "prod"}, true},
		{"all", map[string]string{"env": "prod", "sub": "spiffe://td/team/ab"}, true},
		{"H19 prefix", map[string]string{"sub": "spiffe://td/team/a"}, false},
		{"H19 glob", map[string]string{"sub": "spiffe://td/team/*"}, false},
		{"star alone", map[string]string{"sub": "*"}, false},
		{"letter case of the value", map[string]string{"env": "Prod"}, false},
		{"letter case of the name", map[string]string{"Env": "prod"}, false},
		{"trailing blank", map[string]string{"env": "prod "}, false},
		{"absent", map[string]string{"env": "prod", "repo": "x"}, false},
		{"regular expression", map[string]string{"env": "pr.d"}, false},
	} {
		err := attest.SelectorMatch(tc.want, got)
		if (err == nil) != tc.ok || errors.Is(err, attest.ErrRejected) == tc.ok {
			t.Errorf("%s: got %v", tc.name, err)
		}
		if err != nil && strings.Contains(err.Error(), "prod") {
			t.Errorf("%s: the error repeats a value: %v", tc.name, err)
		}
	}
	if err := attest.SelectorMatch(map[string]string{"x": "y"}, attest.Identity{}); !errors.Is(err, attest.ErrRejected) {
		t.Errorf("identity without selectors: got %v", err)
	}
}

// TestSelectorRegistration checks that an invalid registration is refused with an error
// that does not match ErrRejected: the runner made the mistake, not the sandbox.
func TestSelectorRegistration(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range 65 {
		many[strings.Repeat("n", i+1)] = "v"
	}
	for name, want := range map[string]map[string]string{
		"nil": nil, "empty": {}, "empty name": {"": "x"}, "empty value": {"empty": ""}, "too many": many,
		"long name": {strings.Repeat("n", 129): "v"}, "long value": {"n": strings.Repeat("v", 2049)},
	} {
		got := attest.Identity{Selectors: want}
		if err := attest.SelectorMatch(want, got); err == nil || errors.Is(err, attest.ErrRejected) {
			t.Errorf("%s: got %v, want a refusal that is not ErrRejected", name, err)
		}
	}
}

func TestReject(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	err := attest.Reject(attest.ReasonUsed, "the ticket has been used", cause)
	r, ok := errors.AsType[*attest.Rejection](err)
	if !errors.Is(err, attest.ErrRejected) || !errors.Is(err, cause) || !ok || r.Reason != attest.ReasonUsed || !strings.Contains(err.Error(), "has been used: cause") {
		t.Errorf("got %v", err)
	}
}

// TestFromToken checks that every reason of package jose maps to a reason of this
// package, and that other errors are returned unchanged.
func TestFromToken(t *testing.T) {
	t.Parallel()
	known := map[attest.Reason]bool{
		attest.ReasonMalformed: true, attest.ReasonOversized: true, attest.ReasonType: true, attest.ReasonAlgorithm: true,
		attest.ReasonKeyUnknown: true, attest.ReasonSignature: true, attest.ReasonIssuer: true, attest.ReasonAudience: true,
		attest.ReasonExpired: true, attest.ReasonNotYetValid: true, attest.ReasonLifetime: true, attest.ReasonClaims: true,
	}
	for _, r := range []jose.Reason{
		jose.ReasonMalformed, jose.ReasonOversized, jose.ReasonHeader, jose.ReasonType, jose.ReasonAlgorithm, jose.ReasonKey,
		jose.ReasonKeyUnknown, jose.ReasonSignature, jose.ReasonIssuer, jose.ReasonAudience, jose.ReasonExpired,
		jose.ReasonNotYetValid, jose.ReasonLifetime, jose.ReasonClaims,
	} {
		got, ok := errors.AsType[*attest.Rejection](attest.FromToken(&jose.Error{Reason: r, Public: "p"}))
		if !ok || !known[got.Reason] || got.Public != "p" {
			t.Errorf("%s: got %+v", r, got)
		}
	}
	down := errors.New("down")
	if err := attest.FromToken(down); err != down {
		t.Errorf("got %v", err)
	}
}

func TestCostly(t *testing.T) {
	t.Parallel()
	leave, err := attest.Costly(t.Context())
	if err != nil || leave == nil {
		t.Fatalf("without a bound: %v", err)
	}
	leave()
	no, in, out := errors.New("no"), 0, 0
	ctx := attest.WithBound(t.Context(), func(context.Context) (func(), error) {
		if in++; in > 1 {
			return nil, no
		}
		return func() { out++ }, nil
	})
	if leave, err = attest.Costly(ctx); err != nil {
		t.Fatal(err)
	}
	leave()
	if _, err = attest.Costly(ctx); !errors.Is(err, no) || in != 2 || out != 1 {
		t.Errorf("%v, %d in, %d out", err, in, out)
	}
}

// TestDecode checks that an error names the kind and comes with the zero value.
func TestDecode(t *testing.T) {
	t.Parallel()
	type settings struct {
		Places []string `json:"places"`
	}
	if got, err := attest.Decode[settings]("kind", []byte(`{"places":["a"]}`)); err != nil || len(got.Places) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err := attest.Decode[settings]("kind", []byte(`{"places":["a"],"Places":["b"]}`))
	if err == nil || !strings.HasPrefix(err.Error(), "attest/kind: configuration: Places: ") || got.Places != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}
