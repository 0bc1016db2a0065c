package redisstore_test

import (
	"crypto/rand"
	"maps"
	"slices"
	"testing"
)

// All processes that share the store see the same marks, and a mark stays until it is
// dropped.
func TestMarks(t *testing.T) {
	for name, config := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			c := config(t)
			c.Prefix = "test-marks-" + rand.Text()
			one, two := open(t, c), open(t, c)
			for i, put := range []string{"ebb-a", "ebb-b", "ebb-a"} {
				if err := one.PutMark(t.Context(), put, []byte{'0' + byte(i)}); err != nil {
					t.Fatal(err)
				}
			}
			got, err := two.Marks(t.Context())
			if err != nil || string(got["ebb-a"]) != "2" || string(got["ebb-b"]) != "1" || len(got) != 2 {
				t.Fatalf("got %q %v", got, err)
			}
			for range 2 {
				if err := two.DropMark(t.Context(), "ebb-a"); err != nil {
					t.Fatal(err)
				}
			}
			if got, err = one.Marks(t.Context()); err != nil || !slices.Equal(slices.Sorted(maps.Keys(got)), []string{"ebb-b"}) {
				t.Errorf("after a drop: %q %v", got, err)
			}
		})
	}
}
