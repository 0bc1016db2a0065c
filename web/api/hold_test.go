package api_test

import (
	"net/url"
	"testing"
)

// A grace period other than a number from 0 to 60 is refused, also one that
// would be in range after an overflow of nanoseconds.
func TestHoldRefusesAGrace(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	for _, grace := range []string{"-1", "61", "soon", "18446744074", "99999999999999999999"} {
		r.post(t, "/oauth2/hold", with(url.Values{"grace_seconds": {grace}}, b.assertion(t)...), b.prove(t)).want(t, grace, 400, "invalid_request")
	}
}
