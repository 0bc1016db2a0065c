package egress

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/egress/redact"
	"github.com/ebb-broker/ebb/broker/provider"
)

// TestWhatIsLookedFor: all secrets that an injector added are looked for, wherever they are in the
// request.
//
//ebb:invariant I8 The redactor searches for the whole value of each injected header, also when the value does not begin with a known authentication scheme
func TestWhatIsLookedFor(t *testing.T) {
	t.Parallel()
	pair := base64.StdEncoding.EncodeToString([]byte("x-access-token:ghs_0123456789"))
	for value, want := range map[string][]string{
		"sk_0123456789":                    {"sk_0123456789"},
		"Bearer sk_0123456789":             {"sk_0123456789"},
		"Basic " + pair:                    {pair, "x-access-token", "ghs_0123456789"},
		"session=0123456789; csrf=ABCDEFG": {"session=0123456789; csrf=ABCDEFG", "csrf=ABCDEFG"},
		"correct horse battery":            {"correct horse battery", "horse battery"},
		"secret12 x":                       {"secret12 x"},
	} {
		before, _ := http.NewRequest(http.MethodGet, "https://api.example.com/", nil)
		after := before.Clone(t.Context())
		after.Header.Set("X-Secret", value)
		got, err := secretsOf(before, after)
		slices.Sort(got)
		slices.Sort(want)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("of %q: %q, %v; want %q", value, got, err, want)
		}
		r, err := redact.New(got...)
		if err != nil {
			t.Fatal(err)
		}
		if out, n := r.Text("you sent " + value); n == 0 || strings.Contains(out, "0123") || strings.Contains(out, "secret12") || strings.Contains(out, "correct") {
			t.Errorf("%q comes back as %q", value, out)
		}
	}
}

// TestWhatCanBeAddedCanBeFound: a redactor can be built for the longest possible secret, wherever
// it is injected, and fits into the limits of a task.
func TestWhatCanBeAddedCanBeFound(t *testing.T) {
	t.Parallel()
	if provider.MinInjected != redact.MinSecret {
		t.Fatalf("secrets of %d bytes are added, and of %d looked for", provider.MinInjected, redact.MinSecret)
	}
	for name, secret := range map[string]string{"ASCII": strings.Repeat("aB3-x_9Z", provider.MaxInjected/8), "text": strings.Repeat("é", provider.MaxInjected/2), "escaped": strings.Repeat(`"&<>/+%\`, provider.MaxInjected/8)} {
		for where, put := range map[string]func(*http.Request){
			"header": func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret) },
			"own":    func(r *http.Request) { r.Header.Set("X-Api-Key", secret[:100]+" "+secret[101:]) },
			"basic": func(r *http.Request) {
				r.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(strings.Repeat("u", 256)+":"+secret)))
			},
		} {
			before, _ := http.NewRequest(http.MethodGet, "https://api.example.com/", nil)
			after := before.Clone(t.Context())
			put(after)
			secrets, err := secretsOf(before, after)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := redact.New(secrets...); err != nil {
				t.Errorf("%s, %s: %v", name, where, err)
			} else if n := redact.Cost(secrets...); n > taskRedactors {
				t.Errorf("%s, %s: %d bytes", name, where, n)
			}
		}
	}
}
