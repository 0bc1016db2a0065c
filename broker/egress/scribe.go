package egress

import (
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"ebb/broker"
	"ebb/broker/exact"
	"ebb/broker/transcript"
)

// scribe hears what the box of one request says and is told, and has it written down when the
// request is of a rule. It stands on the box's side: what is added to a request behind it, it has
// never seen, and what comes back it sees as the box does.
type scribe struct {
	rules []*transcriptRule // of which it may be one
	rule  *transcriptRule   // of which it is
	entry *transcript.Entry // of it; nil = nothing is written down

	path, query string      // as the box sent them
	said        http.Header // with the request, without credentials

	mu     sync.Mutex // the transport reads the body on after an answer
	sent   heard
	got    heard
	status int
	told   http.Header
}

// heard is the beginning of a body.
type heard struct {
	text  []byte
	bytes int64 // of all of it
}

func (h *heard) add(p []byte, most int) {
	if room := most - len(h.text); room > 0 {
		h.text = append(h.text, p[:min(len(p), room)]...)
	}
	h.bytes += int64(len(p))
}

// listen has a request heard that may be of a rule; nil = it is of none. Its headers are those that
// may leave.
func (b *box) listen(r *http.Request, h exact.Host) *scribe {
	some := b.p.transcripts.of(h, r)
	if len(some) == 0 {
		return nil
	}
	s := &scribe{rules: some, path: r.URL.EscapedPath(), query: r.URL.RawQuery, said: r.Header.Clone()}
	if r.Body != nil && r.Body != http.NoBody {
		most := 0
		for _, rule := range some {
			most = max(most, rule.RequestBytes)
		}
		r.Body = &spoken{ReadCloser: r.Body, s: s, most: most}
	}
	return s
}

// spoken is the body of a request as the box sends it.
type spoken struct {
	io.ReadCloser
	s    *scribe
	most int
}

// Read implements io.Reader.
func (b *spoken) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.s.sent.add(p[:n], b.most)
	return n, err
}

// listener is where an answer goes to the box.
type listener struct {
	http.ResponseWriter
	s      *scribe
	broken *atomic.Bool
}

// WriteHeader implements http.ResponseWriter.
func (l *listener) WriteHeader(status int) {
	if l.s.entry != nil && status >= http.StatusOK {
		l.s.mu.Lock()
		if l.s.status == 0 {
			l.s.status, l.s.told = status, l.Header().Clone()
		}
		l.s.mu.Unlock()
	}
	l.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (l *listener) Write(p []byte) (int, error) {
	n, err := l.ResponseWriter.Write(p)
	if l.s.entry != nil {
		l.s.mu.Lock()
		l.s.got.add(p[:n], l.s.rule.AnswerBytes)
		l.s.mu.Unlock()
	}
	if err != nil {
		l.broken.Store(true)
	}
	return n, err
}

// Unwrap is for http.ResponseController. What is said in a WebSocket goes past here.
func (l *listener) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// writeDown begins the transcript of a request that is about to leave, if a rule wants one.
func (s *sending) writeDown(use broker.Usable) error {
	if s.scribe == nil {
		return nil
	}
	i := slices.IndexFunc(s.scribe.rules, func(r *transcriptRule) bool {
		return len(r.Providers) == 0 || slices.Contains(r.Providers, use.Provider)
	})
	if i < 0 {
		return nil
	}
	rule := s.scribe.rules[i]
	t := transcript.Transcript{
		Head: transcript.Head{ID: transcript.NewID(), At: s.b.p.cfg.Now().UTC(), TaskID: s.b.who.TaskID, LeaseID: s.leaseID, Rule: rule.Name, Tool: s.b.who.Tool,
			Host: s.host.String(), Method: s.x.Method, Path: bounded(s.conceal(s.scribe.path, true), maxWrittenPath)},
		Request: transcript.Message{Headers: s.concealHeaders(s.scribe.said, rule.Headers)},
	}
	if rule.Query {
		t.Query = bounded(s.conceal(concealQuery(s.scribe.query, nil), true), maxWrittenQuery)
	}
	entry, err := s.b.p.transcripts.store.Begin(t, s.b.who.Root(), rule.Room())
	switch {
	case err == nil:
		s.scribe.rule, s.scribe.entry, s.x.Transcript = rule, entry, t.ID
		return nil
	case !rule.SkipWhenFull:
		return deny(NoTranscript, err)
	}
	s.x.Transcript = broker.WithoutTranscript
	if leftOut, now := s.b.free.line(); now {
		s.b.p.cfg.Logger.WarnContext(s.ctx, "a request leaves without the transcript that a rule wants", "task_id", s.b.who.TaskID, "rule", rule.Name, "left_out", leftOut, "error", err)
	}
	return nil
}

// written ends the transcript of a request that has left, and drops that of one that has not.
func (s *sending) written() {
	if s.scribe == nil || s.scribe.entry == nil {
		return
	}
	c := s.scribe
	if !s.allowed {
		c.entry.Drop()
		return
	}
	c.mu.Lock()
	sent, got, status, told := c.sent, c.got, c.status, c.told
	c.mu.Unlock()
	if status == 0 && s.x.Status == http.StatusSwitchingProtocols && s.upgrade != nil {
		status = s.x.Status
	}
	answer := transcript.Message{Status: status, Cut: s.isCut(), Headers: s.concealHeaders(told, c.rule.Headers), Body: s.bodyOf(told, got, c.rule.AnswerBytes)}
	if err := c.entry.End(s.bodyOf(c.said, sent, c.rule.RequestBytes), answer); err != nil {
		s.b.p.cfg.Logger.ErrorContext(s.ctx, "the end of a transcript cannot be written", "task_id", s.b.who.TaskID, "transcript", s.x.Transcript, "error", err)
	}
}
