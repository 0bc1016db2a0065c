package all

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// A folder that is not in the table would be built, tested and never usable.
func TestEveryFolderIsInTheTable(t *testing.T) {
	dirs, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if d.IsDir() && d.Name() != "all" && d.Name() != "sealtest" && !slices.Contains(Kinds(), d.Name()) {
			t.Errorf("broker/seal/%s is not in the table of broker/seal/all", d.Name())
		}
	}
}

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
