package dpop

import "time"

// Memory says since when a server remembers which proofs were used. It begins anew when the
// server starts without the proofs of its predecessor, and when their store loses data.
type Memory struct {
	// Began is zero for a memory that has lost nothing.
	Began time.Time
	// Nonce is random and was made when the memory began or later: a proof that carries it
	// was made after that. "" = there is none yet.
	Nonce string
}

// apart is how far the clocks of a server's processes, of which one may have ended, may differ.
const apart = time.Minute

// Covers reports whether the memory would know of an earlier use of p. It does not when p could
// have been accepted before the memory began. The client chooses iat, which may lie ahead: only
// the nonce shows that such a proof is new.
func (m Memory) Covers(p Proof) bool {
	return m.Began.IsZero() || p.From.After(m.Began.Add(apart)) || m.Nonce != "" && p.Nonce == m.Nonce
}

// Young reports whether proofs that arrive at now may need the nonce. Offer it until then
// (RFC 9449, section 8.2). window is the larger of Options.Past and Options.Future, 0 = 60 s.
func (m Memory) Young(now time.Time, window time.Duration) bool {
	return !m.Began.IsZero() && now.Before(m.Began.Add(2*apart+2*orDefault(window)))
}
