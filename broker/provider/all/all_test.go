package all

import (
	"testing"
)

func TestUnknownKindIsRefused(t *testing.T) {
	if _, err := New("nope", Env{}, nil); err == nil {
		t.Fatal("an unknown kind was accepted")
	}
}
