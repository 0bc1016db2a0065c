package broker

import "context"

// KeptHandles is how many revocation handles are in memory.
func (b *Broker) KeptHandles() int { return len(b.kept.all()) }

// Holds is how many control connections of a task count here.
func (b *Broker) Holds(taskID string) int {
	b.holds.mu.Lock()
	defer b.holds.mu.Unlock()
	return len(b.holds.of[taskID])
}

// WatchOpen is what Run does every ten seconds.
func (b *Broker) WatchOpen(ctx context.Context) { b.watchOpen(ctx) }
