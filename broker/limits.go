package broker

import "time"

// Limits bound what can be asked for (I4, I12). Zero members take the default.
type Limits struct {
	DefaultTTL   time.Duration // of a token when the client names none; 15 min
	MaxTTL       time.Duration // of a token; 1 h
	MaxTaskTTL   time.Duration // of a task; 24 h
	TicketTTL    time.Duration // of an enrolment ticket; 60 s, never more
	PrincipalTTL time.Duration // of a token for /v1; 10 min
	RequestTTL   time.Duration // how long a request waits for a person; 30 min
	GrantTTL     time.Duration // how long an approval is reused inside its task; 15 min
	CoolDown     time.Duration // after a deny, for the same or more; 15 min
	PollInterval time.Duration // of a waiting client; 5 s
	DefaultCaps  Caps          // of a task that names none; 1000 leases, 600 mints a minute, 3 requests
	MaxCaps      Caps          // what a runner may ask for at most; 1,000,000, 1,000,000, 20
	RunnerTasks  int           // tasks of one runner that are not closed; 10,000
	OwnerPerMin  int           // token requests of all tasks of one owner per minute; 6000
	// UsesPerMinute is how many requests of one task egress adds credentials to; 6,000.
	UsesPerMinute int

	OwnerLive    int           // live credentials of all tasks of one owner; 100,000
	Judging      int           // costly judgements at one time, of each attestor; 16
	JudgedPerSec int           // costly judgements a second, of each attestor; 100
	Checkpoint   time.Duration // between signed checkpoints of the audit chain; 1 min
	Sweep        time.Duration // between searches for orphans at providers; 10 min

	OwnerRequests int // requests of one owner at one runner that people are asked in an hour; 10
	DenialsInRow  int // of requests of one task by people, after which ebb pauses it; 3
	Denials       int // in one task, by policy or people, after each so many of which ebb pauses it; 20
	Asks          int // of one task for people, in asksPer, after more than which ebb pauses it; 10

	HighRiskQuorum int // different people who must agree to a request of high risk, at least; 2
}

func (l Limits) withDefaults() Limits {
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
	l.DefaultCaps = l.DefaultCaps.or(Caps{Leases: 1000, MintsPerMinute: 600, OpenRequests: 3})
	l.MaxCaps = l.MaxCaps.or(Caps{Leases: 1_000_000, MintsPerMinute: 1_000_000, OpenRequests: 20})
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

// or fills the members of c that are not set from d.
func (c Caps) or(d Caps) Caps {
	pick := func(a, b int) int {
		if a > 0 {
			return a
		}
		return b
	}
	return Caps{pick(c.Leases, d.Leases), pick(c.MintsPerMinute, d.MintsPerMinute), pick(c.OpenRequests, d.OpenRequests), pick(c.Uses, d.Uses)}
}
