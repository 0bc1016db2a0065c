package api_test

import (
	"context"
	"net/http"
	"testing"
	"time"
)

// A client that disconnects while /readyz runs must not make it report, for a
// whole second and to all callers, that the stores are down.
func TestReadyzIsNotSpoiledByWhoHangsUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	r.env.Clock.Add(2 * time.Second)
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	r.do(t, r.request(http.MethodGet, "/readyz", nil).WithContext(gone))
	if a := r.do(t, r.request(http.MethodGet, "/readyz", nil)); a.status != http.StatusOK {
		t.Errorf("after somebody hung up: %d %s", a.status, a.body)
	}
}
