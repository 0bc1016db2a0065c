package all

import (
	"encoding/json"
	"testing"
)

func TestUnknownKindIsRefused(t *testing.T) {
	for _, k := range []string{"", "nope"} {
		if _, err := New(k, nil, ""); err == nil {
			t.Errorf("kind %q is accepted", k)
		}
	}
	if _, err := New("file", json.RawMessage(`{"pth": "x"}`), ""); err == nil {
		t.Error("an unknown option is accepted")
	}
}
