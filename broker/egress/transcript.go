package egress

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress/redact"
	"github.com/ebb-broker/ebb/broker/issuance"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/broker/transcript"
)

// TranscriptRule selects requests to store transcripts of, and the parts to store. If several rules
// match a request, the first applies.
type TranscriptRule struct {
	Name      string   // required
	Hosts     []string // "api.example.com", or with a port; empty = all
	Providers []string // of the lease; empty = all
	Methods   []string // required
	Paths     []string // required; in the syntax of stricturl.Rule. An encoded slash hides nothing from a rule.

	Query        bool
	Headers      []string // of both directions; none that carries a credential
	RequestBytes int      // stored bytes of the request body; 0 = none
	AnswerBytes  int      // stored bytes of the response body; 0 = none
	// SkipWhenFull lets requests through without a transcript when the store has no room; false =
	// they are refused.
	SkipWhenFull bool
}

// Limits of a rule, and of what a transcript stores; bodies, paths, queries and values in bytes.
const (
	MaxTranscriptRules   = 64
	maxTranscriptHeaders = 16
	MaxTranscriptBody    = 64 << 10

	maxWrittenPath  = 2 << 10
	maxWrittenQuery = 4 << 10
	maxWrittenValue = 512
	maxWrittenLines = 4 // values of one header
)

var (
	ruleName   = lazyregexp.New(`^[a-z][a-z0-9-]{0,31}$`)
	headerName = lazyregexp.New(`^[A-Za-z0-9-]{1,64}$`)
)

// Check reports the faults of a rule through bad. at is the place of the rule in the configuration.
func (r TranscriptRule) Check(at string, bad func(format string, a ...any)) {
	if !ruleName.MatchString(r.Name) {
		bad("%s.name: %q is not a name: a lower-case letter, then up to 31 of a-z, 0-9 and -", at, r.Name)
	}
	if len(r.Hosts) > 64 || len(r.Providers) > 64 {
		bad("%s: name at most 64 hosts and 64 providers", at)
	}
	for _, h := range r.Hosts {
		if _, err := stricturl.ParseHost(h, 443); err != nil {
			bad("%s.hosts: %q: %v", at, h, err)
		}
	}
	r.requests().Check(at, bad)
	if len(r.Headers) > maxTranscriptHeaders {
		bad("%s.headers: name at most %d", at, maxTranscriptHeaders)
	}
	for _, name := range r.Headers {
		switch {
		case !headerName.MatchString(name):
			bad("%s.headers: %q is not the name of a header", at, name)
		case secretHeader(name):
			bad("%s.headers: %q carries credentials, which are never written down", at, name)
		}
	}
	if r.RequestBytes < 0 || r.RequestBytes > MaxTranscriptBody || r.AnswerBytes < 0 || r.AnswerBytes > MaxTranscriptBody {
		bad("%s: request_bytes and answer_bytes are from 0 to %d", at, MaxTranscriptBody)
	}
}

func (r TranscriptRule) requests() stricturl.Rule {
	return stricturl.Rule{Methods: r.Methods, Paths: r.Paths, EncodedSlash: true}
}

// secretHeader reports whether the value of a header is never stored.
func secretHeader(name string) bool {
	name = textproto.CanonicalMIMEHeaderKey(name)
	return carriesCredential(name) || slices.Contains(droppedHeaders, name)
}

// Room returns the maximum size of a transcript of this rule, in bytes of JSON, where an escape
// takes six bytes for one.
func (r TranscriptRule) Room() int64 {
	headers := 2 * len(r.Headers) * (128 + (maxWrittenLines+1)*(maxWrittenValue+64))
	return int64(4<<10 + 6*(maxWrittenPath+maxWrittenQuery+headers+r.RequestBytes+r.AnswerBytes))
}

// transcripts holds the rules and the store of transcripts.
type transcripts struct {
	store  *transcript.Store
	rules  []transcriptRule
	secret *redact.Named // finds secrets by their common names
}

type transcriptRule struct {
	TranscriptRule
	hosts []stricturl.Host
	exact stricturl.Rule
}

// newTranscripts returns nil if there are no rules.
func newTranscripts(store *transcript.Store, rules []TranscriptRule) (*transcripts, error) {
	if len(rules) == 0 {
		return nil, nil
	}
	var errs []error
	if store == nil {
		errs = append(errs, errors.New("rules are set, but no transcript store is configured"))
	}
	if len(rules) > MaxTranscriptRules {
		errs = append(errs, fmt.Errorf("there are more than %d rules", MaxTranscriptRules))
	}
	t := &transcripts{store: store}
	for i, r := range rules {
		r.Check(fmt.Sprintf("rules[%d]", i), func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) })
		one := transcriptRule{TranscriptRule: r, exact: r.requests()}
		for _, text := range r.Hosts {
			h, _ := stricturl.ParseHost(text, 443)
			one.hosts = append(one.hosts, h)
		}
		one.Headers = nil
		for _, name := range r.Headers {
			one.Headers = append(one.Headers, textproto.CanonicalMIMEHeaderKey(name))
		}
		t.rules = append(t.rules, one)
	}
	var err error
	known := provider.CommonlyDisclosed()
	t.secret, err = redact.NewNamed(append(known.Members, secretMembers...), append(known.Parameters, secretParameters...))
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("egress: transcripts: %w", err)
	}
	return t, nil
}

// of returns the rules that match a request, except for their Providers, which need the lease.
func (t *transcripts) of(h stricturl.Host, r *http.Request) (some []*transcriptRule) {
	if t == nil {
		return nil
	}
	var path, decoded []string
	for i := range t.rules {
		one := &t.rules[i]
		if len(one.hosts) > 0 && !slices.Contains(one.hosts, h) || !slices.Contains(one.Methods, r.Method) {
			continue
		}
		if path == nil { // the path was checked before
			path, _ = stricturl.Path(r.URL.EscapedPath(), stricturl.PathForm{Slash: true, Text: true})
			// A server may decode encoded slashes, so that both readings count.
			decoded = strings.Split(strings.ReplaceAll(strings.Join(path, "/"), "%2f", "/"), "/")
		}
		if one.exact.Covers(r.Method, path) || one.exact.Covers(r.Method, decoded) {
			some = append(some, one)
		}
	}
	return some
}

// transcriptRecorder records what the sandbox sends and receives in one request, and stores it if a
// rule applies. It is on the sandbox's side of the redaction: it never sees the injected
// credential, and sees the response as the sandbox does.
type transcriptRecorder struct {
	rules []*transcriptRule // rules that may apply
	rule  *transcriptRule   // the rule that applies
	entry *transcript.Entry // nil = nothing is stored

	path, query string      // as the sandbox sent them
	said        http.Header // request headers, without credentials

	mu     sync.Mutex // the transport may read the request body after the response
	sent   captured
	got    captured
	status int
	told   http.Header
}

// captured is the beginning of a body.
type captured struct {
	text  []byte
	bytes int64 // length of the whole body
}

func (h *captured) add(p []byte, most int) {
	if room := most - len(h.text); room > 0 {
		h.text = append(h.text, p[:min(len(p), room)]...)
	}
	h.bytes += int64(len(p))
}

// newRecorder records a request to which a rule may apply; nil = none can. The headers of r are
// those that may be sent.
func (b *endpoint) newRecorder(r *http.Request, h stricturl.Host) *transcriptRecorder {
	some := b.p.transcripts.of(h, r)
	if len(some) == 0 {
		return nil
	}
	s := &transcriptRecorder{rules: some, path: r.URL.EscapedPath(), query: r.URL.RawQuery, said: r.Header.Clone()}
	if r.Body != nil && r.Body != http.NoBody {
		most := 0
		for _, rule := range some {
			most = max(most, rule.RequestBytes)
		}
		r.Body = &recordedBody{ReadCloser: r.Body, s: s, most: most}
	}
	return s
}

// recordedBody is the body of a request as the sandbox sends it.
type recordedBody struct {
	io.ReadCloser
	s    *transcriptRecorder
	most int
}

// Read implements io.Reader.
func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.s.sent.add(p[:n], b.most)
	return n, err
}

// recordedWriter is the ResponseWriter for a response to the sandbox.
type recordedWriter struct {
	http.ResponseWriter
	s      *transcriptRecorder
	broken *atomic.Bool
}

// WriteHeader implements http.ResponseWriter.
func (l *recordedWriter) WriteHeader(status int) {
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
func (l *recordedWriter) Write(p []byte) (int, error) {
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

// Unwrap lets http.ResponseController reach the ResponseWriter below. The data of a WebSocket is
// not recorded.
func (l *recordedWriter) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// beginTranscript begins the transcript of a request that is about to be sent, if a rule applies.
func (s *outbound) beginTranscript(use broker.Usable) error {
	if s.transcriptRecorder == nil {
		return nil
	}
	i := slices.IndexFunc(s.transcriptRecorder.rules, func(r *transcriptRule) bool {
		return len(r.Providers) == 0 || slices.Contains(r.Providers, use.Provider)
	})
	if i < 0 {
		return nil
	}
	rule := s.transcriptRecorder.rules[i]
	t := transcript.Transcript{
		Head: transcript.Head{ID: transcript.NewID(), At: s.b.p.cfg.Now().UTC(), TaskID: s.b.who.TaskID, LeaseID: s.leaseID, Rule: rule.Name, Tool: s.b.who.Tool,
			Host: s.host.String(), Method: s.x.Method, Path: bounded(s.conceal(s.transcriptRecorder.path, true), maxWrittenPath)},
		Request: transcript.Message{Headers: s.concealHeaders(s.transcriptRecorder.said, rule.Headers)},
	}
	if rule.Query {
		t.Query = bounded(s.conceal(concealQuery(s.transcriptRecorder.query, nil), true), maxWrittenQuery)
	}
	entry, err := s.b.p.transcripts.store.Begin(t, s.b.who.Root(), rule.Room())
	switch {
	case err == nil:
		s.transcriptRecorder.rule, s.transcriptRecorder.entry, s.x.Transcript = rule, entry, t.ID
		return nil
	case !rule.SkipWhenFull:
		return deny(NoTranscript, err)
	}
	s.x.Transcript = issuance.WithoutTranscript
	if leftOut, now := s.b.workLimits.logLine(); now {
		s.b.p.cfg.Logger.WarnContext(s.ctx, "a request is sent without the transcript that a rule requires", "task_id", s.b.who.TaskID, "rule", rule.Name, "left_out", leftOut, "error", err)
	}
	return nil
}

// endTranscript completes the transcript of a request that was sent, and drops that of one that was
// not.
func (s *outbound) endTranscript() {
	if s.transcriptRecorder == nil || s.transcriptRecorder.entry == nil {
		return
	}
	c := s.transcriptRecorder
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
	answer := transcript.Message{Status: status, Cut: s.interrupted(), Headers: s.concealHeaders(told, c.rule.Headers), Body: s.bodyOf(told, got, c.rule.AnswerBytes)}
	if err := c.entry.End(s.bodyOf(c.said, sent, c.rule.RequestBytes), answer); err != nil {
		s.b.p.cfg.Logger.ErrorContext(s.ctx, "cannot write the end of a transcript", "task_id", s.b.who.TaskID, "transcript", s.x.Transcript, "error", err)
	}
}
