package broker

import (
	"fmt"
	"time"
)

// ClockSkew is the largest assumed difference between the clocks of replicas and identity
// providers.
const ClockSkew = time.Minute

const DefaultWait = 10 * time.Second

// ConfirmTimeout is the longest that a connection goes on without confirmation from the live store.
// When the live store or its feed has not answered for that long, every connection is closed,
// and again for as long as that lasts (I6), because another replica could have revoked the
// credential meanwhile.
const ConfirmTimeout = 3 * time.Second

// FeedWait is how long one read of the feed waits for an event. Several reads fit into ConfirmTimeout,
// so that a single slow read closes nothing.
const FeedWait = ConfirmTimeout / 6

func Earliest(a time.Time, more ...time.Time) time.Time {
	for _, t := range more {
		if !t.IsZero() && t.Before(a) {
			a = t
		}
	}
	return a
}

// CallTime bounds one call of the revocation queue to a provider.
const CallTime = 15 * time.Second

// MaxTicketTTL is the longest life of an enrolment ticket: a person who copies it needs longer than a program.
const MaxTicketTTL = 15 * time.Minute

// TicketLife returns the life of a ticket: the requested one, or TicketTTL for 0. No other function
// bounds a requested life.
func (l Limits) TicketLife(asked Seconds) (time.Duration, error) {
	most := Seconds(MaxTicketTTL / time.Second)
	switch {
	case asked == 0:
		return l.TicketTTL, nil
	case asked < 0 || asked > most:
		return 0, E(Invalid, fmt.Sprintf("The lifetime of a ticket must be 1 to %d seconds; got %d.", most, asked), nil).
			Then("ask for at most 15 minutes: --ticket-ttl 15m")
	}
	return asked.Duration(), nil
}

// Limits bound requests (I4, I12). Zero members take the default, which ends each comment.
type Limits struct {
	DefaultTTL   time.Duration // of a token when the client names no lifetime; 15 min
	MaxTTL       time.Duration // of a token; 1 h
	MaxTaskTTL   time.Duration // of a task; 24 h
	TicketTTL    time.Duration // of an enrolment ticket whose runner names no lifetime; 60 s, never more
	PrincipalTTL time.Duration // of a token for /v1; 10 min
	RequestTTL   time.Duration // how long a request waits for a person; 30 min
	GrantTTL     time.Duration // how long an approval is reused inside its task; 15 min
	CoolDown     time.Duration // after a denial, for the same scopes or more; 15 min
	PollInterval time.Duration // of a waiting client; 5 s
	DefaultCaps  Caps          // of a task that names none; 1000 leases, 600 mints a minute, 3 requests
	MaxCaps      Caps          // the most that a runner may ask for; 1,000,000, 1,000,000, 20
	RunnerTasks  int           // tasks of one runner that are not closed; 10,000
	OwnerPerMin  int           // token requests of all tasks of one owner per minute; 6000
	// UsesPerMinute is the number of requests of one task to which egress adds credentials;
	// 6,000.
	UsesPerMinute int

	OwnerLive    int           // live credentials of all tasks of one owner; 100,000
	Judging      int           // concurrent costly evidence checks of each attestor; 16
	JudgedPerSec int           // costly evidence checks per second of each attestor; 100
	Checkpoint   time.Duration // between signed checkpoints of the audit chain; 1 min
	Sweep        time.Duration // between searches for orphans at providers; 10 min

	OwnerRequests int // requests of one owner at one runner that people are asked in an hour; 10
	DenialsInRow  int // consecutive denials by people of one task's requests after which ebb pauses it; 3
	Denials       int // denials in one task, by policy or people, after each multiple of which ebb pauses it; 20
	Asks          int // requests of one task to people in asksPer, above which ebb pauses it; 10

	HighRiskQuorum int // fewest approvals of a request of high risk; 2
}

func (l Limits) WithDefaults() Limits {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&l.DefaultTTL, 15*time.Minute)
	set(&l.MaxTTL, time.Hour)
	set(&l.MaxTaskTTL, 24*time.Hour)
	set(&l.TicketTTL, time.Minute)
	set(&l.PrincipalTTL, 10*time.Minute)
	set(&l.RequestTTL, 30*time.Minute)
	set(&l.GrantTTL, 15*time.Minute)
	set(&l.CoolDown, 15*time.Minute)
	set(&l.PollInterval, 5*time.Second)
	set(&l.Checkpoint, time.Minute)
	set(&l.Sweep, 10*time.Minute)
	l.DefaultCaps = l.DefaultCaps.Or(Caps{Leases: 1000, MintsPerMinute: 600, OpenRequests: 3})
	l.MaxCaps = l.MaxCaps.Or(Caps{Leases: 1_000_000, MintsPerMinute: 1_000_000, OpenRequests: 20})
	if l.RunnerTasks <= 0 {
		l.RunnerTasks = 10_000
	}
	if l.OwnerPerMin <= 0 {
		l.OwnerPerMin = max(6000, l.DefaultCaps.MintsPerMinute)
	}
	if l.Judging <= 0 {
		l.Judging = 16
	}
	if l.JudgedPerSec <= 0 {
		l.JudgedPerSec = 100
	}
	if l.UsesPerMinute <= 0 {
		l.UsesPerMinute = 6000
	}
	if l.OwnerLive <= 0 {
		l.OwnerLive = max(100_000, l.DefaultCaps.Leases)
	}
	if l.HighRiskQuorum <= 0 {
		l.HighRiskQuorum = 2
	}
	for n, v := range map[*int]int{&l.OwnerRequests: 10, &l.DenialsInRow: 3, &l.Denials: 20, &l.Asks: 10} {
		if *n <= 0 {
			*n = v
		}
	}
	return l
}

// Or fills the members of c that are not set from d.
func (c Caps) Or(d Caps) Caps {
	pick := func(a, b int) int {
		if a > 0 {
			return a
		}
		return b
	}
	return Caps{pick(c.Leases, d.Leases), pick(c.MintsPerMinute, d.MintsPerMinute), pick(c.OpenRequests, d.OpenRequests), pick(c.Uses, d.Uses)}
}

// FailTime bounds the cleanup after a failed mint, so that the cause of the failure does not
// also delay the revocation.
const FailTime = 10 * time.Second

// MintTime bounds a token request to a third party: waiting for a free slot, the mint, and the
// cleanup after a failed one.
const MintTime = GateTime + MintCall + MintSlack + FailTime + CallTime

// MintCall bounds a mint at a third party, from its intent to the provider's
// answer.
const MintCall = 30 * time.Second

// MintSlack is the time in which the outcome must become durable after that. After it
// the revocation queue takes the intent: its minter must have died.
const MintSlack = 10 * time.Second

// GateTime is how long a mint waits for a free slot before the caller is told to
// try again.
const GateTime = 2 * time.Second
