package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ebb-broker/ebb/attest"
)

const (
	// quietPolls is the timeout of a watch request, in polls. A watch whose connection
	// broke without notice delays the detection of an exit by that much at most.
	quietPolls = 6
	// minLook is the minimum time between two reads of a pod that changes all the time.
	minLook = 500 * time.Millisecond
	// noWatch is how long no watch request is sent after one has failed.
	noWatch = time.Minute
)

// Watch implements attest.Watcher. It reads the pod, waits for a change, and reads the
// pod again. When watch requests fail, for example because ebb has no permission, it
// reads the pod every Poll, minus a random part so that not all pods are read at once.
// Only the pod as read decides. Every response that is not about this pod is an error,
// and the sandbox counts as running.
func (r *reviewed) Watch(ctx context.Context, id attest.Identity) (attest.Exit, error) {
	namespace, name, uid := id.Selectors["namespace"], id.Selectors["pod"], id.Selectors["pod_uid"]
	if id.Attestor != r.cfg.Name || !labelForm.MatchString(namespace) || !(ref{name, uid}).wellFormed() {
		return attest.Exit{}, attest.ErrElsewhere // the token was not bound to a pod (allow_unbound)
	}
	for {
		start := time.Now()
		p, err := r.look(ctx, namespace, name)
		var exit attest.Exit
		switch {
		case errors.Is(err, errNoPod):
			return attest.Exit{How: howDeleted}, nil
		case err == nil:
			exit, err = r.exit(p, uid)
		}
		if ctx.Err() != nil {
			return attest.Exit{}, ctx.Err()
		}
		if err != nil {
			return attest.Exit{}, fmt.Errorf("attest/kubernetes %q: cannot tell whether the pod is alive: %w", r.cfg.Name, err)
		}
		if exit.How != "" {
			return exit, nil
		}
		pause := r.cfg.Poll - rand.N(r.cfg.Poll/4)
		if r.news(ctx, p) {
			pause = minLook - time.Since(start)
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return attest.Exit{}, ctx.Err()
		case <-t.C:
		}
	}
}

// look reads a pod once fewer than cap(looks) reads are in progress.
func (r *reviewed) look(ctx context.Context, namespace, name string) (pod, error) {
	select {
	case r.looks <- struct{}{}:
		defer func() { <-r.looks }()
		return r.api.pod(ctx, namespace, name)
	case <-ctx.Done():
		return pod{}, ctx.Err()
	}
}

// exit returns the Exit of a pod as read. How is "" while the pod is alive.
func (r *reviewed) exit(p pod, uid string) (attest.Exit, error) {
	how, err := p.end(uid, r.cfg.UntilRemoved)
	d := attest.Exit{How: how}
	if how == howTerminating && !p.asked().After(r.cfg.Now()) {
		d.At = p.asked()
	}
	return d, err
}

// news waits for a change of the pod and reports whether the watch request succeeded.
// After a failure for any sandbox, no watch request is sent for noWatch, and pods are
// polled.
func (r *reviewed) news(ctx context.Context, p pod) bool {
	if p.Metadata.Version == "" || len(p.Metadata.Version) > maxVersion || time.Now().UnixNano() < r.unwatched.Load() {
		return false
	}
	long := quietPolls * (r.cfg.Poll - rand.N(r.cfg.Poll/4))
	if err := r.api.news(ctx, p.Metadata.Namespace, p.Metadata.Name, p.Metadata.Version, long); err != nil {
		was, now := r.unwatched.Load(), time.Now()
		if ctx.Err() == nil && now.UnixNano() >= was && r.unwatched.CompareAndSwap(was, now.Add(noWatch).UnixNano()) {
			r.cfg.Logger.Warn("pods are not watched for a minute but read every poll", "attestor", r.cfg.Name, "poll", r.cfg.Poll, "error", err)
		}
		return false
	}
	return true
}

// maxVersion is the maximum length of a resourceVersion that is sent back in a request.
const maxVersion = 128
