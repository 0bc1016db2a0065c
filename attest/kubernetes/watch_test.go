package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/kubernetes"
	"github.com/ebb-broker/ebb/attest/kubetest"
)

// podIdentity returns the members of an identity that the database keeps.
func podIdentity() attest.Identity {
	return attest.Identity{Attestor: "cluster", Subject: "pod:agents/tool-1/" + podUID, Class: attest.ClassSigned,
		Selectors: map[string]string{"namespace": "agents", "pod": "tool-1", "pod_uid": podUID}}
}

func watcher(t *testing.T, c kubernetes.Config) attest.Watcher {
	t.Helper()
	w, ok := open(t, c).(attest.Watcher)
	if !ok {
		t.Fatal("it does not watch")
	}
	return w
}

// TestWatch checks that each end of a pod is detected at once with a watch, and within
// one interval without, and that At is the time of the deletion request where it is
// known.
func TestWatch(t *testing.T) {
	t.Parallel()
	for _, mute := range []bool{false, true} {
		t.Run(fmt.Sprintf("mute %t", mute), func(t *testing.T) { t.Parallel(); testWatch(t, mute) })
	}
}

func testWatch(t *testing.T, mute bool) {
	deleting := func(a *apiServer, p object, grace int) {
		part(p, "metadata")["deletionTimestamp"] = a.clock.Now().Add(time.Duration(grace) * time.Second).Format(time.RFC3339)
		part(p, "metadata")["deletionGracePeriodSeconds"] = grace
	}
	for name, tt := range map[string]struct {
		do      func(a *apiServer, p object)
		change  func(*kubernetes.Config)
		how     string // "" = it lives
		asked   bool   // At is known
		longest time.Duration
	}{
		"deleted":               {do: func(a *apiServer, _ object) { delete(a.pods, "agents/tool-1") }, how: "pod_deleted"},
		"replaced":              {do: func(a *apiServer, _ object) { a.create("tool-1", saUID) }, how: "pod_replaced"},
		"succeeded":             {do: func(_ *apiServer, p object) { part(p, "status")["phase"] = "Succeeded" }, how: "pod_succeeded"},
		"failed":                {do: func(_ *apiServer, p object) { part(p, "status")["phase"] = "Failed" }, how: "pod_failed"},
		"terminating":           {do: func(a *apiServer, p object) { deleting(a, p, 30) }, how: "pod_terminating", asked: true},
		"terminating, kept":     {do: func(a *apiServer, p object) { deleting(a, p, 30) }, change: func(c *kubernetes.Config) { c.UntilRemoved = true }},
		"terminating, no sense": {do: func(a *apiServer, p object) { deleting(a, p, -1<<40) }, how: "pod_terminating"},
		"nothing":               {do: func(*apiServer, object) {}},
		"restarted":             {do: func(_ *apiServer, p object) { part(p, "status")["phase"] = "Pending" }},
		"deleted, longer looks": {do: func(a *apiServer, _ object) { delete(a.pods, "agents/tool-1") }, change: func(c *kubernetes.Config) { c.Poll = time.Minute }, how: "pod_deleted", longest: time.Minute},
		"replaced while kept":   {do: func(a *apiServer, _ object) { a.create("tool-1", saUID) }, change: func(c *kubernetes.Config) { c.UntilRemoved = true }, how: "pod_replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newServer(t, attesttest.NewClock())
			a.mute = mute
			c := a.config()
			if tt.change != nil {
				tt.change(&c)
			}
			w, longest := watcher(t, c), 500*time.Millisecond // a pod is not read more often
			if mute {
				longest = max(tt.longest, 5*time.Second)
			}
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				type result struct {
					exit attest.Exit
					err  error
					at   time.Time
				}
				done := make(chan result, 1)
				go func() {
					d, err := w.Watch(ctx, podIdentity())
					done <- result{d, err, time.Now()}
				}()
				time.Sleep(10*time.Minute + 3*time.Second)
				if len(done) > 0 {
					t.Fatalf("a living pod: %+v", <-done)
				}
				start := time.Now()
				a.set(func() { tt.do(a, a.pods["agents/tool-1"]) })
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				cancel()
				got := <-done
				if tt.how == "" {
					if !errors.Is(got.err, context.Canceled) || errors.Is(got.err, attest.ErrElsewhere) {
						t.Errorf("got %+v", got)
					}
					return
				}
				if got.err != nil || got.exit.How != tt.how || got.at.Sub(start) > longest {
					t.Errorf("got %+v after %s", got, got.at.Sub(start))
				}
				if want := a.clock.Now(); tt.asked != got.exit.At.Equal(want) {
					t.Errorf("it exited at %s, asked for at %s", got.exit.At, want)
				}
			})
		})
	}
}

// The interval between reads is reduced by a random part of up to a quarter, so that
// sandboxes which started together are not always read together.
func TestWatchJitter(t *testing.T) {
	t.Parallel()
	a := newServer(t, attesttest.NewClock())
	a.mute = true
	w := watcher(t, a.config())
	var at []time.Time
	synctest.Test(t, func(t *testing.T) {
		a.set(func() {
			a.fault = func(_ http.ResponseWriter, r *http.Request) bool {
				if r.URL.RawQuery == "" {
					at = append(at, time.Now())
				}
				return false
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := w.Watch(ctx, podIdentity()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
	distinct := map[time.Duration]bool{}
	for i := 1; i < len(at); i++ {
		gap := at[i].Sub(at[i-1])
		distinct[gap] = true
		if gap > 5*time.Second || gap < 3750*time.Millisecond {
			t.Errorf("looked again after %s", gap)
		}
	}
	if len(at) < 720 || len(distinct) < 10 {
		t.Errorf("%d looks in an hour, %d different gaps", len(at), len(distinct))
	}
}

// When the cluster stops responding during Watch, Watch returns an error at once, and
// the pod counts as running. A later call detects its end.
func TestWatchThroughAnOutage(t *testing.T) {
	t.Parallel()
	a := newServer(t, attesttest.NewClock())
	w := watcher(t, a.config())
	synctest.Test(t, func(t *testing.T) {
		a.set(func() {
			a.fault = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(503); return true }
			delete(a.pods, "agents/tool-1")
		})
		if d, err := w.Watch(t.Context(), podIdentity()); err == nil || d.How != "" {
			t.Errorf("got %+v, %v", d, err)
		}
		a.set(func() { a.fault = nil })
		if d, err := w.Watch(t.Context(), podIdentity()); err != nil || d.How != "pod_deleted" {
			t.Errorf("got %+v, %v", d, err)
		}
	})
}

// Watch returns ErrElsewhere for an identity that is not a pod of this cluster.
func TestWatchElsewhere(t *testing.T) {
	t.Parallel()
	a := newServer(t, attesttest.NewClock())
	w := watcher(t, a.config())
	for name, change := range map[string]func(*attest.Identity){
		"another attestor": func(id *attest.Identity) { id.Attestor = "cluster-2" },
		"no selectors":     func(id *attest.Identity) { id.Selectors = nil },
		"no uid":           func(id *attest.Identity) { delete(id.Selectors, "pod_uid") },
		"a path":           func(id *attest.Identity) { id.Selectors["pod"] = "../../secrets/x" },
		"a path above":     func(id *attest.Identity) { id.Selectors["namespace"] = ".." },
		"a long name":      func(id *attest.Identity) { id.Selectors["pod"] = strings.Repeat("a", 254) },
	} {
		id := podIdentity()
		change(&id)
		if _, err := w.Watch(t.Context(), id); !errors.Is(err, attest.ErrElsewhere) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(a.asked()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// The cost of Watch: a pod without changes is read once in six polls, a pod that
// changes all the time twice a second, and without permission one watch request is sent
// per minute.
func TestWatchCost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		mute    bool
		noise   time.Duration // 0 = none
		reads   [2]int        // of ten minutes: from, to
		watches [2]int
	}{
		"quiet": {reads: [2]int{20, 28}, watches: [2]int{20, 28}},
		"noisy": {noise: 100 * time.Millisecond, reads: [2]int{1050, 1201}, watches: [2]int{1050, 1201}},
		"mute":  {mute: true, reads: [2]int{120, 161}, watches: [2]int{8, 11}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newServer(t, attesttest.NewClock())
			a.mute = tt.mute
			w := watcher(t, a.config())
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				var noise sync.WaitGroup
				defer noise.Wait()
				if tt.noise > 0 {
					noise.Go(func() {
						for ctx.Err() == nil {
							time.Sleep(tt.noise)
							a.set(func() {})
						}
					})
				}
				if _, err := w.Watch(ctx, podIdentity()); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			})
			reads, watches := 0, 0
			for _, call := range a.asked() {
				if call == "WATCH" {
					watches++
				} else {
					reads++
				}
			}
			if reads < tt.reads[0] || reads > tt.reads[1] || watches < tt.watches[0] || watches > tt.watches[1] {
				t.Errorf("%d reads and %d watches in ten minutes", reads, watches)
			}
		})
	}
}

// A watch that fails or sends false events causes only additional reads of the pod.
func TestWatchThatLies(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(http.ResponseWriter, *http.Request){
		"deleted, it says": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"type":"DELETED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"tool-1"}}}`))
		},
		"gone":     kubetest.Says(410, kubetest.Status(410, "Expired", "too old resource version")),
		"expired":  kubetest.Says(200, object{"type": "ERROR", "object": kubetest.Status(410, "Expired", "x")}),
		"404":      kubetest.Says(404, kubetest.Status(404, "NotFound", "x", "pods", "tool-1")),
		"empty":    func(http.ResponseWriter, *http.Request) {},
		"redirect": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(307) },
		"silent":   func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newServer(t, attesttest.NewClock())
			c := a.config()
			c.Fetch.Transport = inside{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("watch") != "" {
					fault(w, r)
					return
				}
				a.ServeHTTP(w, r)
			})}
			w := watcher(t, c)
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				if d, err := w.Watch(ctx, podIdentity()); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a living pod: %+v, %v", d, err)
				}
				time.AfterFunc(time.Minute, func() { a.set(func() { delete(a.pods, "agents/tool-1") }) })
				start := time.Now()
				if d, err := w.Watch(t.Context(), podIdentity()); err != nil || d.How != "pod_deleted" || time.Since(start) > time.Minute+40*time.Second {
					t.Errorf("%+v, %v after %s", d, err, time.Since(start))
				}
			})
			if n := len(a.asked()); n > 500 {
				t.Errorf("%d reads in three minutes", n)
			}
		})
	}
}

// After a start every sandbox is read, at most eight at once.
func TestWatchAfterAStart(t *testing.T) {
	t.Parallel()
	a := newServer(t, attesttest.NewClock())
	a.mute = true
	var now, most atomic.Int64
	c := a.config()
	c.Fetch.Transport = inside{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "" {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(10 * time.Millisecond)
			now.Add(-1)
		}
		a.ServeHTTP(w, r)
	})}
	a.pods = nil
	synctest.Test(t, func(t *testing.T) {
		w := watcher(t, c) // its turns are of this bubble
		start := time.Now()
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				if d, err := w.Watch(t.Context(), podIdentity()); err != nil || d.How != "pod_deleted" {
					t.Errorf("got %+v, %v", d, err)
				}
			})
		}
		all.Wait()
		if n := most.Load(); n != 8 || time.Since(start) > time.Second {
			t.Errorf("%d at once, all in %s", n, time.Since(start))
		}
	})
}
