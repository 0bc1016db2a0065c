package all

import (
	"os"
	"slices"
	"testing"
)

// A driver folder that is not in the table would be built, tested and never
// usable.
func TestEveryFolderIsInTheTable(t *testing.T) {
	dirs, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if d.IsDir() && d.Name() != "all" && d.Name() != "providertest" && !slices.Contains(Kinds(), d.Name()) {
			t.Errorf("broker/provider/%s is not in the table of broker/provider/all", d.Name())
		}
	}
}

func TestUnknownKindIsRefused(t *testing.T) {
	if _, err := New("nope", Env{}, nil); err == nil {
		t.Fatal("an unknown kind was accepted")
	}
}
