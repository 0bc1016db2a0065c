package egress

// Redactors are how many p has, how many requests use one, and how many bytes they count as.
func (p *Proxy) Redactors() (n, uses, bytes int) {
	p.redactors.mu.Lock()
	defer p.redactors.mu.Unlock()
	for _, x := range p.redactors.all {
		uses += x.uses
	}
	return len(p.redactors.all), uses, p.redactors.held.n
}
