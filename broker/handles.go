package broker

import (
	"context"
	"maps"
	"slices"
	"sync"

	"ebb/broker/provider"
)

// handles are revocation handles that could not be made durable. While this
// process lives they are not lost.
type handles struct {
	mu sync.Mutex
	m  map[string]provider.Secret // by lease
}

func (h *handles) keep(leaseID string, s provider.Secret) {
	if s.Empty() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.m == nil {
		h.m = map[string]provider.Secret{}
	}
	h.m[leaseID] = s
}

func (h *handles) get(leaseID string) provider.Secret {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.m[leaseID]
}

func (h *handles) drop(leaseID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.m, leaseID)
}

func (h *handles) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.m))
}

// handlesPage is how many leases are asked for at once whose handles may be dropped.
const handlesPage = 100

// dropHandles drops the handles of leases that somebody else has settled: another
// replica, or a person there. Nobody needs them any more, and they are secrets.
func (b *Broker) dropHandles(ctx context.Context) {
	for ids := range slices.Chunk(b.kept.all(), handlesPage) {
		look, cancel := context.WithTimeout(ctx, failTime)
		ls, err := b.cfg.Journal.Leases(look, LeaseFilter{IDs: ids, Now: b.now(), Page: Page{Limit: len(ids)}})
		cancel()
		if err != nil {
			b.cfg.Logger.WarnContext(ctx, "whether revocation handles in memory are still needed could not be read", "error", err)
			return
		}
		for _, l := range ls {
			if l.State.final() {
				b.kept.drop(l.ID)
			}
		}
	}
}
