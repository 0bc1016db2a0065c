package attest_test

import (
	"strings"
	"testing"

	"ebb/attest"
)

// A kind gets all of its configuration or nothing, and the error says whose it is.
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
