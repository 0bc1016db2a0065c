package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"ebb/attest"
)

const (
	// quietPolls is how many polls a watch replaces: one whose connection died in
	// silence costs that much and no more.
	quietPolls = 6
	// minLook keeps a pod that changes all the time from being read all the time.
	minLook = 500 * time.Millisecond
	// noWatch is how long nobody watches after a watch has failed.
	noWatch = time.Minute
)

// Watch implements attest.Watcher. It reads the pod, waits for news of it, and
// reads it again; where the API server gives no news (ebb may not watch), every
// Poll, a little less so that not all sandboxes are read at once. What judges is
// always the pod as it was read. Whatever is not an answer about this very pod is
// an error and nobody's death.
func (r *reviewed) Watch(ctx context.Context, id attest.Identity) (attest.Death, error) {
	namespace, name, uid := id.Selectors["namespace"], id.Selectors["pod"], id.Selectors["pod_uid"]
	if id.Attestor != r.cfg.Name || !labelForm.MatchString(namespace) || !(ref{name, uid}).wellFormed() {
		return attest.Death{}, attest.ErrElsewhere // not of a pod: allow_unbound
	}
	for {
		start := time.Now()
		p, err := r.look(ctx, namespace, name)
		var death attest.Death
		switch {
		case errors.Is(err, errNoPod):
			return attest.Death{How: howDeleted}, nil
		case err == nil:
			death, err = r.death(p, uid)
		}
		if ctx.Err() != nil {
			return attest.Death{}, ctx.Err()
		}
		if err != nil {
			return attest.Death{}, fmt.Errorf("attest/kubernetes %q: cannot tell whether the pod lives: %w", r.cfg.Name, err)
		}
		if death.How != "" {
			return death, nil
		}
		pause := r.cfg.Poll - rand.N(r.cfg.Poll/4)
		if r.news(ctx, p) {
			pause = minLook - time.Since(start)
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return attest.Death{}, ctx.Err()
		case <-t.C:
		}
	}
}

// look reads a pod when it is its turn.
func (r *reviewed) look(ctx context.Context, namespace, name string) (pod, error) {
	select {
	case r.looks <- struct{}{}:
		defer func() { <-r.looks }()
		return r.api.pod(ctx, namespace, name)
	case <-ctx.Done():
		return pod{}, ctx.Err()
	}
}

// death of a pod as it was read. No How: it lives.
func (r *reviewed) death(p pod, uid string) (attest.Death, error) {
	how, err := p.end(uid, r.cfg.UntilRemoved)
	d := attest.Death{How: how}
	if how == howTerminating && !p.asked().After(r.cfg.Now()) {
		d.At = p.asked()
	}
	return d, err
}

// news waits for some and says whether it could. A watch that failed, for
// whichever sandbox, is not tried again for a while: polling does.
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

// maxVersion bounds what of an answer goes into the next request.
const maxVersion = 128
