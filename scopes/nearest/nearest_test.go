package nearest_test

import (
	"testing"

	"github.com/ebb-broker/ebb/scopes/nearest"
)

func TestOf(t *testing.T) {
	t.Parallel()
	known := []string{"write", "read", "revocability", "Ebb::Provider", "get"}
	for got, want := range map[string]string{
		"wrte": "write", "WRITE": "write", "revocabilty": "revocability", "Ebb::Provder": "Ebb::Provider",
		"": "", "x": "", "gt": "", "sat": "", "raed": "read", "erad": "read", "revocabiltiy": "revocability", "quite-another": "", "rd": "",
	} {
		if found := nearest.Of(got, known); found != want {
			t.Errorf("%q: got %q, want %q", got, found, want)
		}
	}
}
