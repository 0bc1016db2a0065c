package ssh_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider/ssh"
	"github.com/ebb-broker/ebb/broker/provider/ssh/krl"
)

// probe wants one of "alive", "dead" and "early".
func probe(t *testing.T, r *rig, lease, want, when string) {
	t.Helper()
	g := r.grant(t, "ssh:web/bo:login")
	g.LeaseID = lease
	alive, err := r.Probe(t.Context(), target(g))
	got := map[bool]string{true: "alive", false: "dead"}[alive]
	if alive && errors.Is(err, errors.ErrUnsupported) {
		got, err = "early", nil
	}
	if err != nil || got != want {
		t.Errorf("%s: %s, %v, want %s", when, got, err, want)
	}
}

func TestProbeWaitsForTheHosts(t *testing.T) {
	r := newRig(t, func(o *ssh.Options) { o.KRL.File = filepath.Join(t.TempDir(), "krl") })
	g := r.grant(t, "ssh:web/bo:login")
	r.mint(t, g)
	if err := r.Revoke(t.Context(), target(r.grant(t, "ssh:web/bo:login"))); err != nil {
		t.Fatal(err)
	}
	probe(t, r, g.LeaseID, "alive", "not revoked")
	if err := r.Revoke(t.Context(), target(g)); err != nil {
		t.Fatal(err)
	}
	probe(t, r, g.LeaseID, "early", "published this moment")
	// Hosts fetch every 60 s; another replica's file is up to 6 s behind.
	if b := r.Traits().Revocability.Bound; b != 66*time.Second {
		t.Errorf("bound %s", b)
	}
	r.clock.forward(65 * time.Second)
	probe(t, r, g.LeaseID, "early", "published for 65 s")
	r.clock.forward(time.Second)
	probe(t, r, g.LeaseID, "dead", "published for 66 s")
	// A restart has seen nothing yet: later, never wrong.
	r.Driver = r.again(t)
	probe(t, r, g.LeaseID, "early", "after a restart")
	// An operator has restored an old file.
	l := krl.List{}
	if err := os.WriteFile(r.o.KRL.File, l.Marshal(), 0o600); err != nil {
		t.Fatal(err)
	}
	r.clock.forward(2 * time.Minute)
	probe(t, r, g.LeaseID, "alive", "not in the file")
	if err := os.WriteFile(r.o.KRL.File, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if alive, err := r.Probe(t.Context(), target(g)); err == nil || !alive {
		t.Errorf("a file of garbage: alive %v, %v", alive, err)
	}
	r.clock.forward(10 * time.Minute)
	if alive, err := r.Probe(t.Context(), target(g)); err != nil || alive {
		t.Errorf("expired on every host: alive %v, %v", alive, err)
	}
}

func TestProbeReadsTheURL(t *testing.T) {
	var r *rig
	var answer atomic.Value
	answer.Store("list")
	stop := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch b := list(t, r.Driver); answer.Load() {
		case "list":
			_, _ = w.Write(b)
		case "cut":
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write(b)
		case "short":
			_, _ = w.Write(b[:len(b)-1])
		case "500":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write(b)
		case "redirect":
			w.Header().Set("Location", "https://evil.example/")
			w.WriteHeader(http.StatusFound)
		case "huge":
			_, _ = w.Write(make([]byte, krl.MaxSize+1))
		case "hang":
			<-stop
		}
	}))
	defer s.Close()
	defer close(stop)
	r = newRig(t, func(o *ssh.Options) { o.KRL = ssh.KRLOptions{Refresh: "1s", URL: s.URL + "/krl"} })
	g := r.grant(t, "ssh:web/bo:login")
	if err := r.Revoke(t.Context(), target(g)); err != nil {
		t.Fatal(err)
	}
	probe(t, r, g.LeaseID, "early", "first sight")
	r.clock.forward(2 * time.Second)
	probe(t, r, g.LeaseID, "dead", "seen for 2 s")
	for _, bad := range []string{"cut", "short", "500", "redirect", "huge"} {
		answer.Store(bad)
		if alive, err := r.Probe(t.Context(), target(g)); err == nil || !alive {
			t.Errorf("%s: alive %v, %v", bad, alive, err)
		}
	}
	answer.Store("500")
	fatal := 0
	for _, f := range r.CheckSetup(t.Context()) {
		if f.Fatal {
			fatal++
		}
		if f.What == "" || f.Remedy == "" || strings.Contains(f.What, "PRIVATE") {
			t.Errorf("finding %+v", f)
		}
	}
	if fatal != 1 {
		t.Errorf("%d fatal findings", fatal)
	}
}

func TestASoundSetUpHasNoFatalFinding(t *testing.T) {
	r := newRig(t, func(o *ssh.Options) {
		o.KRL.File, o.Kill = filepath.Join(t.TempDir(), "krl"), &ssh.Kill{Command: []string{"/bin/true"}}
	})
	for _, f := range r.CheckSetup(t.Context()) {
		if f.Fatal {
			t.Errorf("%s %s", f.What, f.Remedy)
		}
	}
}
