package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
)

func TestFaultsOfIAM(t *testing.T) {
	all := func(f fault) []fault { return slices.Repeat([]fault{f}, 9) }
	for name, c := range map[string]struct {
		action string
		faults []fault
		busy   bool
	}{
		"read hangs": {"GetRolePolicy", all(hang), false}, "read is cut": {"GetRolePolicy", all(cut), false}, "read is nonsense": {"GetRolePolicy", all(garbage), false},
		"read is endless": {"GetRolePolicy", all(endless), false}, "read is denied": {"GetRolePolicy", all(forbid), false}, "read fails": {"GetRolePolicy", all(broken), false},
		"read is limited": {"GetRolePolicy", all(throttle), true}, "write hangs": {"PutRolePolicy", all(hang), false}, "write fails": {"PutRolePolicy", all(broken), false},
		"written but an error": {"PutRolePolicy", all(doneFails), false}, "write is denied": {"PutRolePolicy", all(forbid), false}, "write is limited": {"PutRolePolicy", all(throttle), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl := newCloud(t)
			d, gs := driver(t, cl.config()), newGrants(cl.now)
			ls := mintAll(t, d, gs, 2, "tsk_1")
			if c.action == "GetRolePolicy" { // there is something to read
				revokeAll(t, d, gs, ls[1:])
			}
			cfg := cl.config()
			if strings.HasSuffix(name, "hangs") {
				cfg.Timeout = "3s"
			}
			d = driver(t, cfg)
			cl.fail(c.action, c.faults...)
			err := d.Revoke(t.Context(), gs.target(ls[0].Grant, ls[0].Credential))
			if err == nil || isBusy(err) != c.busy {
				t.Errorf("Revoke = %v", err)
			}
			if strings.Contains(fmt.Sprint(err), cloudSecret) {
				t.Error("the error holds a secret")
			}
			cl.fail(c.action)
			revokeAll(t, d, gs, ls[:1])
			if alive(t, cl, ls[:1]) != 0 {
				t.Error("alive after the retry")
			}
		})
	}
}

func TestRevokeWhenTheCallerLeaves(t *testing.T) {
	cl := newCloud(t)
	cfg := cl.config()
	cfg.Timeout = "5s"
	d, gs := driver(t, cfg), newGrants(cl.now)
	ls := mintAll(t, d, gs, 2, "tsk_1")
	cl.fail("GetRolePolicy", hang)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := d.Revoke(ctx, gs.target(ls[0].Grant, ls[0].Credential)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	revokeAll(t, d, gs, ls[1:]) // waits for its own turn, behind the one that hangs
	if alive(t, cl, ls) != 0 {
		t.Error("alive")
	}
}

// TestAProxysWordIsNotAWSs: a proxy before IAM answers 404 to every call. The driver does not
// conclude that a role was deleted, that a session is invalid, or that no session was made.
func TestAProxysWordIsNotAWSs(t *testing.T) {
	for name, f := range map[string]fault{"nginx": nginx, "empty": empty, "late": late} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl := newCloud(t)
			d, gs := driver(t, cl.config()), newGrants(cl.now)
			ls := mintAll(t, d, gs, 1, "tsk_1")
			actions := []string{"GetRolePolicy", "GetRole", "PutRolePolicy", "AssumeRole"}
			for _, a := range actions {
				cl.fail(a, slices.Repeat([]fault{f}, 9)...)
			}
			target := gs.target(ls[0].Grant, ls[0].Credential)
			if err := d.Revoke(t.Context(), target); err == nil {
				t.Error("Revoke succeeds")
			}
			if alive, err := d.Probe(t.Context(), target); err == nil && !alive {
				t.Error("the probe takes it for a proof of revocation")
			}
			if _, err := d.Mint(t.Context(), gs.next()); err == nil || errors.Is(err, provider.ErrRefused) || isBusy(err) {
				t.Errorf("Mint = %v", err)
			}
			for _, a := range actions {
				cl.fail(a)
			}
			revokeAll(t, d, gs, ls)
			if alive(t, cl, ls) != 0 {
				t.Error("alive after the retry")
			}
		})
	}
}
