package aws

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
)

func TestAThousandRevocationsAreAFewWrites(t *testing.T) {
	cl := newCloud(t)
	cfg := cl.config()
	d, gs := driver(t, cfg), newGrants(cl.now)
	gone := mintAll(t, d, gs, 1000, "tsk_big")
	other := mintAll(t, d, gs, 5, "tsk_other")
	revokeAll(t, d, gs, gone)
	if n := alive(t, cl, gone); n != 0 {
		t.Errorf("%d of the task's sessions are alive", n)
	}
	if n := alive(t, cl, other); n != 5 {
		t.Errorf("%d of 5 neighbours are alive", n)
	}
	if n := cl.count("PutRolePolicy"); n > 20 {
		t.Errorf("%d writes", n)
	}
	t.Logf("1000 revocations: %d writes, %d reads", cl.count("PutRolePolicy"), cl.count("GetRolePolicy"))
}

// TestFullPolicyFallsBackToTheTimeOfIssue: without tags the driver can deny only the whole
// role. Its older sessions become invalid, and the driver mints no more until newer sessions
// can be distinguished from them.
func TestFullPolicyFallsBackToTheTimeOfIssue(t *testing.T) {
	cl := newCloud(t)
	cfg := cl.config()
	no := false
	cfg.SessionTags = &no
	cfg.Roles[0].ARNs = append(cfg.Roles[0].ARNs, cloudRoleB)
	d, gs := driver(t, cfg), newGrants(cl.now)
	gone := mintAll(t, d, gs, 1200, "tsk_big")
	revokeAll(t, d, gs, gone)
	if n := alive(t, cl, gone); n != 0 {
		t.Errorf("%d sessions are alive", n)
	}
	if !strings.Contains(cl.inline("data-1")+cl.inline("data-2"), "aws:TokenIssueTime") {
		t.Fatal("1200 sessions fit into the policies: the test shows nothing")
	}
	if _, err := d.Mint(t.Context(), gs.next()); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("Mint right after = %v, want refused", err)
	}
	cl.pass(3 * cutDelay)
	next := mintAll(t, d, gs, 4, "tsk_next")
	if n := alive(t, cl, next); n != 4 {
		t.Errorf("%d of 4 new sessions are alive", n)
	}
	revokeAll(t, d, gs, next[:2])
	if alive(t, cl, next[:2]) != 0 || alive(t, cl, next[2:]) != 2 {
		t.Error("after the cutoff sessions are not revoked one by one")
	}
}

func isBusy(err error) bool {
	_, ok := errors.AsType[*provider.BusyError](err)
	return ok
}

func TestNearlyFullRoleMintsNoMore(t *testing.T) {
	cl := newCloud(t)
	cfg := cl.config()
	no := false
	cfg.SessionTags = &no
	d, gs := driver(t, cfg), newGrants(cl.now)
	ls := mintAll(t, d, gs, 430, "tsk_1")
	revokeAll(t, d, gs, ls[:420])
	if alive(t, cl, ls[420:]) != 10 || strings.Contains(cl.inline("data-1"), "TokenIssueTime") {
		t.Error("neighbours died though there was room")
	}
	if _, err := d.Mint(t.Context(), gs.next()); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("Mint = %v, want refused", err)
	}
	cl.pass(gs.ttl + skew + untilStep*time.Second)
	if _, err := d.Mint(t.Context(), gs.next()); err != nil {
		t.Errorf("Mint after the entries have ended: %v", err)
	}
}

func TestOtherInlinePoliciesTakeRoom(t *testing.T) {
	cl := newCloud(t)
	cl.roles["data-1"].inline["operators"] = `{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"s3:PutObject","Resource":["arn:aws:s3:::` + strings.Repeat("x", 8500) + `"]}]}`
	d, gs := driver(t, cl.config()), newGrants(cl.now)
	ls := mintAll(t, d, gs, 120, "tsk_1")
	revokeAll(t, d, gs, ls)
	if n := alive(t, cl, ls); n != 0 {
		t.Errorf("%d are alive", n)
	}
}
