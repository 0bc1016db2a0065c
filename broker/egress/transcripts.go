package egress

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"ebb/broker/egress/redact"
	"ebb/broker/exact"
	"ebb/broker/provider"
	"ebb/broker/transcript"
)

// TranscriptRule says which requests are written down, and what of them. Where a request is of
// several rules, the first decides.
type TranscriptRule struct {
	Name      string   // required
	Hosts     []string // "api.example.com", or with a port; empty = all
	Providers []string // of the lease that it leaves by; empty = all
	Methods   []string // required
	Paths     []string // required; as those of exact.Rule. An encoded slash hides nothing from it.

	Query        bool
	Headers      []string // of both directions; none that carries a credential
	RequestBytes int      // of the request's body; 0 = none
	AnswerBytes  int      // of the answer's
	// SkipWhenFull lets requests leave that there is no room for; false = they stay.
	SkipWhenFull bool
}

// Bounds of a rule, and of what is written by one, in bytes.
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
	ruleName   = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	headerName = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
)

// Check says through bad what is wrong with a rule that is at this place of a configuration.
func (r TranscriptRule) Check(at string, bad func(format string, a ...any)) {
	if !ruleName.MatchString(r.Name) {
		bad("%s.name: %q is not a name: a lower-case letter, then up to 31 of a-z, 0-9 and -", at, r.Name)
	}
	if len(r.Hosts) > 64 || len(r.Providers) > 64 {
		bad("%s: name at most 64 hosts and 64 providers", at)
	}
	for _, h := range r.Hosts {
		if _, err := exact.ParseHost(h, 443); err != nil {
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

func (r TranscriptRule) requests() exact.Rule {
	return exact.Rule{Methods: r.Methods, Paths: r.Paths, EncodedSlash: true}
}

// secretHeader reports a header of which the value is never written down.
func secretHeader(name string) bool {
	name = textproto.CanonicalMIMEHeaderKey(name)
	return carriesCredential(name) || slices.Contains(kept, name)
}

// Room is how many bytes a transcript of it takes at most: of JSON, where an escape is six bytes
// for one.
func (r TranscriptRule) Room() int64 {
	headers := 2 * len(r.Headers) * (128 + (maxWrittenLines+1)*(maxWrittenValue+64))
	return int64(4<<10 + 6*(maxWrittenPath+maxWrittenQuery+headers+r.RequestBytes+r.AnswerBytes))
}

// transcripts are the rules, and where what they name is written down.
type transcripts struct {
	store  *transcript.Store
	rules  []transcriptRule
	secret *redact.Named // by names that everybody has for it
}

type transcriptRule struct {
	TranscriptRule
	hosts []exact.Host
	exact exact.Rule
}

// newTranscripts is nil without rules.
func newTranscripts(store *transcript.Store, rules []TranscriptRule) (*transcripts, error) {
	if len(rules) == 0 {
		return nil, nil
	}
	var errs []error
	if store == nil {
		errs = append(errs, errors.New("there is no place for transcripts"))
	}
	if len(rules) > MaxTranscriptRules {
		errs = append(errs, fmt.Errorf("there are more than %d rules", MaxTranscriptRules))
	}
	t := &transcripts{store: store}
	for i, r := range rules {
		r.Check(fmt.Sprintf("rules[%d]", i), func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) })
		one := transcriptRule{TranscriptRule: r, exact: r.requests()}
		for _, text := range r.Hosts {
			h, _ := exact.ParseHost(text, 443)
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

// of are the rules that a request may be of, as soon as it is known by which lease it leaves.
func (t *transcripts) of(h exact.Host, r *http.Request) (some []*transcriptRule) {
	if t == nil {
		return nil
	}
	var path, decoded []string
	for i := range t.rules {
		one := &t.rules[i]
		if len(one.hosts) > 0 && !slices.Contains(one.hosts, h) || !slices.Contains(one.Methods, r.Method) {
			continue
		}
		if path == nil { // of a request that was read already
			path, _ = exact.Path(r.URL.EscapedPath(), exact.PathForm{Slash: true, Text: true})
			// To a server that decodes them, encoded slashes are slashes.
			decoded = strings.Split(strings.ReplaceAll(strings.Join(path, "/"), "%2f", "/"), "/")
		}
		if one.exact.Covers(r.Method, path) || one.exact.Covers(r.Method, decoded) {
			some = append(some, one)
		}
	}
	return some
}
