package broker

// KeptHandles is how many revocation handles are in memory.
func (b *Broker) KeptHandles() int { return len(b.kept.all()) }
