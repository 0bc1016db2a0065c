package egress

import (
	"cmp"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// workLimits limits the work that a sandbox can cause without a valid request: each item costs a
// query, a signature or a log line.
type workLimits struct {
	info         *rate.Limiter // responses to infoPath
	unknown      *rate.Limiter // placeholders that the broker has not accepted for this sandbox
	missed       *rate.Limiter // queries for credential-less leases, beyond one in each credentialLessAge
	unknownHosts *rate.Limiter // SSH connections to hosts without a lease
	lines        *rate.Limiter // log lines about refusals
	names        *rate.Limiter // names that a certificate is made for
	empty        bucket        // tunnels in which no request was sent

	mu      sync.Mutex
	good    *simplelru.LRU[string, bool]         // recently used leases
	hosts   *simplelru.LRU[stricturl.Host, bool] // SSH hosts that recently had a lease
	leftOut int64                                // refusals without a log line
}

// Limits of one sandbox: burst, and rate per second.
const (
	infoAtOnce, infoPerSecond       = 30, 2
	unknownAtOnce, unknownPerSecond = 60, 4
	linesAtOnce, linesPerSecond     = 40, 2
	namesAtOnce, namesPerSecond     = 64, 2
	emptyAtOnce, emptyPerSecond     = 128, 4
	maxGood                         = 256
)

func newWorkLimits() (*workLimits, error) {
	good, err := simplelru.NewLRU[string, bool](maxGood, nil)
	hosts, herr := simplelru.NewLRU[stricturl.Host, bool](maxGood, nil)
	return &workLimits{
		info: rate.NewLimiter(infoPerSecond, infoAtOnce), unknown: rate.NewLimiter(unknownPerSecond, unknownAtOnce),
		missed: rate.NewLimiter(unknownPerSecond, unknownAtOnce), unknownHosts: rate.NewLimiter(unknownPerSecond, unknownAtOnce),
		lines: rate.NewLimiter(linesPerSecond, linesAtOnce), good: good, hosts: hosts,
		names: rate.NewLimiter(namesPerSecond, namesAtOnce), empty: bucket{left: emptyAtOnce},
	}, errors.Join(err, herr)
}

// allowLease reports whether the broker may be asked about a lease. Leases that the broker accepted
// before are always allowed, others as often as unknown allows.
func (f *workLimits) allowLease(leaseID string) bool {
	f.mu.Lock()
	_, is := f.good.Get(leaseID)
	f.mu.Unlock()
	return is || f.unknown.Allow()
}

// noteLease records whether the broker accepted a lease. Later uses of an accepted lease are not
// rate-limited by allowLease.
func (f *workLimits) noteLease(leaseID string, good bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if good {
		f.good.Add(leaseID, true)
	} else {
		f.good.Remove(leaseID)
	}
}

// allowHost reports whether the broker may be asked for a lease to an SSH host. Hosts that had a
// lease before are always allowed, others as often as unknownHosts allows.
func (f *workLimits) allowHost(h stricturl.Host) bool {
	f.mu.Lock()
	_, is := f.hosts.Get(h)
	f.mu.Unlock()
	return is || f.unknownHosts.Allow()
}

// noteHost records whether a host had a lease.
func (f *workLimits) noteHost(h stricturl.Host, is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if is {
		f.hosts.Add(h, true)
	} else {
		f.hosts.Remove(h)
	}
}

// bucket is a rate limiter whose tokens can be given back.
type bucket struct {
	mu   sync.Mutex
	left float64
	at   time.Time
}

func (b *bucket) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if passed := now.Sub(b.at); !b.at.IsZero() && passed > 0 {
		b.left = min(b.left+passed.Seconds()*emptyPerSecond, emptyAtOnce)
	}
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

func (b *bucket) give() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = min(b.left+1, emptyAtOnce)
}

// logLine reports whether a refusal is logged, and how many refusals before it were not.
func (f *workLimits) logLine() (leftOut int64, now bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.lines.Allow() {
		f.leftOut++
		return 0, false
	}
	leftOut, f.leftOut = f.leftOut, 0
	return leftOut, true
}

// share counts how much of a shared resource each task holds. It is not safe for concurrent use.
type share struct {
	n  int
	of map[string]int // by root task; subtasks count with it

	parts int // a task may take 1/parts of the free amount; 0 means shares
}

// Requests without a completion entry in the audit log: of one task, and of all.
const (
	taskPending = 512
	maxPending  = (shares + 1) * taskPending
	maxEnds     = 256 // completion entries of one append
)

// shares is the default of share.parts: one task may take a sixteenth of the free amount.
const shares = 16

// take counts n more for a task. It returns false if the task would hold more than most. It also
// returns false if a task that already holds some asks for more than its part of the free amount. So a
// hundred tasks that take all they can leave room for a later one (dynamic thresholds: Choudhury
// and Hahne, 1998).
func (s *share) take(task string, n, most, all int) bool {
	left := all - s.n
	if had := s.of[task]; n > left || had+n > most || had > 0 && had+n > left/cmp.Or(s.parts, shares) {
		return false
	}
	if s.of == nil {
		s.of = map[string]int{}
	}
	s.n += n
	s.of[task] += n
	return true
}

// give counts n less for a task.
func (s *share) give(task string, n int) {
	s.n -= n
	if s.of[task] -= n; s.of[task] == 0 {
		delete(s.of, task)
	}
}

// connectionLimit limits the connections of sandboxes, and those of ebb to upstreams. Each costs a
// file descriptor and at least one goroutine. No caller waits for a slot, so that a task at its
// limit gets an error.
type connectionLimit struct {
	mu   sync.Mutex
	of   share
	most int // of all
}

// maxConnections is the default of Config.Places.
const maxConnections = 4096

func newConnectionLimit(most int) connectionLimit {
	// With a low total a task may take a large part, enough for its sandbox; with a high total a
	// small one.
	return connectionLimit{most: most, of: share{parts: min(shares, max(4, most/512))}}
}

var errConnectionLimit = errors.New("the task has reached its share of the connection limit; close one, then try again")

// take takes a slot for a connection of a task until give is called; nil = the task has its share.
func (p *connectionLimit) take(root string) (give func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.of.take(root, 1, p.most, p.most) {
		return nil
	}
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.of.give(root, 1)
	})
}

// closeGrace is how long ebb waits for the other side of a connection that is ending.
const closeGrace = time.Second

// writeUnavailable answers a connection that is not served for a reason that may be temporary. It
// answers in HTTP, because every connection of a sandbox begins with HTTP.
func writeUnavailable(c net.Conn, reason stricturl.Reason) {
	status, detail := explain("This connection", deny(reason, nil), nil)
	body := encode(reason, detail)
	_ = c.SetDeadline(time.Now().Add(closeGrace))
	_, err := io.WriteString(c, "HTTP/1.1 "+strconv.Itoa(status)+" "+http.StatusText(status)+"\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+string(body))
	if half, can := c.(interface{ CloseWrite() error }); err == nil && can {
		_ = half.CloseWrite()
		_, _ = io.Copy(io.Discard, io.LimitReader(c, maxHeader)) // a client that writes to a closed connection does not read the response
	}
}

type slot struct {
	net.Conn
	give func()
}

// NetConn returns the connection below.
func (s *slot) NetConn() net.Conn { return s.Conn }

// Close implements net.Conn.
func (s *slot) Close() error {
	s.give()
	return s.Conn.Close()
}

// lineage returns the ids of the tasks that a caller depends on: its own and those above it.
func lineage(who broker.Caller) []string { return append([]string{who.TaskID}, who.Above...) }

// Limits of a connection from a sandbox.
const (
	helloTime  = 5 * time.Second  // from CONNECT to the end of the TLS handshake
	headerTime = 10 * time.Second // for the headers of a request
	idleTime   = 2 * time.Minute
	maxHeader  = 64 << 10
	maxStreams = 64
)
