package web

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/wire"
)

// The golden file was recorded when the core's own types were part of the error documents.
func TestErrorDocumentsAreGolden(t *testing.T) {
	t.Parallel()
	fill := func(name string) string { return name + " <é>" }
	filled := func(in string) *broker.Advice {
		return &broker.Advice{
			Decision: fill(in + ".Advice.Decision"), Code: broker.DenyCode(fill(in + ".Advice.Code")), Note: fill(in + ".Advice.Note"),
			WouldAllow: scopes.MustParseSet("aws:a3/*:read orders:eu/4:write"), RetryAfter: 5, DoNotRetrySame: true,
		}
	}
	end := &broker.Reached{
		Process: fill("Problem.Reached.Process"), LiveStore: fill("Problem.Reached.LiveStore"), Database: fill("Problem.Reached.Database"), Restart: fill("Problem.Reached.Restart"),
	}
	golden, err := os.ReadFile("testdata/errors.golden")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(golden)) {
		name, want, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		got, err := json.Marshal(map[string]any{
			"OAuthError": wire.OAuthError{
				Error: fill("OAuthError.Error"), Description: fill("OAuthError.Description"), DeferralCode: fill("OAuthError.DeferralCode"),
				RequestID: fill("OAuthError.RequestID"), ExpiresIn: 1, Interval: 2, Advice: advice(filled("OAuthError")),
			},
			"OAuthError empty": wire.OAuthError{Advice: advice(nil)},
			"Problem": wire.Problem{
				Type: fill("Problem.Type"), Title: fill("Problem.Title"), Status: 1, Detail: fill("Problem.Detail"), Instance: fill("Problem.Instance"),
				RetryAfter: 2, Advice: advice(filled("Problem")), Reached: reached(end), Missing: []string{fill("Problem.Missing[0]"), fill("Problem.Missing[1]")},
			},
			"Problem empty": wire.Problem{Advice: advice(nil), Reached: reached(nil)},
		}[name])
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", name, err, got, want)
		}
	}
}
