package egress

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/issuance"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// Answers stores credentials that responses create; *broker.Broker implements it.
type Answers interface {
	Seal(ctx context.Context, c broker.Caller, u broker.Usable, what provider.Sealing) (*issuance.Sealing, error)
}

// maxSealed is the maximum length in bytes of a response that creates a credential. Such a response
// is read as a whole.
const maxSealed = 64 << 10

// seals records the intent to create credentials, if the response to out creates any.
func (s *outbound) seals(use broker.Usable, out *http.Request) error {
	sealer, is := use.Injector.(provider.AnswerSealer)
	if !is {
		return nil
	}
	what := sealer.Seals(out, use.Target)
	switch {
	case what == nil:
		return nil
	case s.b.p.cfg.Answers == nil:
		return deny(NotAllowed, errors.New("its response contains a new credential, and no store for such credentials is configured"))
	case what.Scopes.Empty():
		return deny(NotAllowed, errors.New("its response contains a new credential, and the lease has no scope for a request that would use it"))
	}
	var err error
	s.members = what.Members
	s.sealing, err = s.b.p.cfg.Answers.Seal(s.ctx, s.b.who, use, *what)
	return err
}

// trip sends the request. If there was no connection, no credential was created.
func (s *outbound) trip(out *http.Request) (*http.Response, error) {
	if s.sealing == nil {
		return s.pool.trip(out)
	}
	var connected atomic.Bool
	r, err := s.pool.trip(out.WithContext(httptrace.WithClientTrace(out.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})))
	if err != nil && !connected.Load() {
		s.sealing.Nothing()
	}
	return r, err
}

// sealed reports whether a response with this status holds new credentials. With 300 or above no
// credential was created; for the other statuses without one that is unknown.
func (s *outbound) sealed(status int) bool {
	if s.sealing == nil {
		return false
	}
	if status >= http.StatusMultipleChoices {
		s.sealing.Nothing()
	}
	return status >= http.StatusOK && status < http.StatusMultipleChoices && status != http.StatusNoContent && status != http.StatusResetContent
}

// seal replaces new credentials in a response by placeholders. A response that cannot be parsed is
// withheld, and its credentials can be used by no caller.
func (s *outbound) seal(r *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxSealed+1))
	s.received.Add(int64(len(body)))
	_ = r.Body.Close()
	switch {
	case err != nil:
		return unquoted(err)
	case len(body) > maxSealed:
		return deny(SealTooLarge, nil)
	}
	a, err := readAnswer(body, s.members)
	if err != nil {
		return err
	}
	stands, err := s.replaceValues(a)
	if err != nil {
		return err
	}
	out, err := a.with(stands, s.marked)
	if err != nil {
		return err
	}
	if len(a.values) == 0 {
		s.sealing.Nothing()
	} else if err := s.sealing.Keep(a.secrets(), a.endWithLease); err != nil {
		return err
	}
	s.clean(r.Header)
	dropDigests(r.Header)
	r.Header.Del("Trailer")
	r.Header.Set("Content-Length", strconv.Itoa(len(out)))
	r.Trailer, r.TransferEncoding, r.ContentLength = nil, nil, int64(len(out))
	r.Body = io.NopCloser(bytes.NewReader(out))
	return nil
}

// replaceValues makes a redactor for each new credential, for the rest of the response, and returns
// the placeholders by member.
func (s *outbound) replaceValues(a *answer) (stands map[string]string, err error) {
	stands = map[string]string{}
	for i, id := range s.sealing.Leases() {
		value, is := a.values[s.members[i]]
		if !is {
			continue
		}
		x, err := s.b.p.redactors.take(s.ctx, s.b.who, id, []string{value})
		if err != nil {
			return nil, err
		}
		s.hidden = append(s.hidden, x)
		stands[s.members[i]] = provider.PlaceholderPrefix + id
	}
	return stands, nil
}

// marked replaces the secrets in a text of the response by marks.
func (s *outbound) marked(text string) string {
	n := 0
	mark := func(found func(string) (string, int)) {
		var more int
		text, more = found(text)
		n += more
	}
	if s.named != nil {
		mark(s.named.Text)
	}
	if s.redactor != nil {
		mark(s.redactor.Text)
	}
	for _, x := range s.hidden {
		mark(x.Text)
	}
	s.redacted.Add(int64(n))
	return text
}

// releaseSealing releases what a request holds for a response with new credentials.
func (s *outbound) releaseSealing() {
	for _, x := range s.hidden {
		s.b.p.redactors.give(x, 0)
	}
	if s.sealing != nil {
		s.sealing.Close()
	}
}

// answer is a JSON object with new credentials.
type answer struct {
	values       map[string]string // by member name
	endWithLease time.Duration     // lifetime of the credentials; 0 = not stated
	rest         []byte            // the object without the credentials
}

// readAnswer parses one JSON object (RFC 8259, I-JSON RFC 7493): valid UTF-8, no duplicate name at
// any level, no data after it. Each of members may be missing, and is otherwise a string that a
// header can hold. No other name at any level may equal one of them without regard to case: a
// client that matches names in another way must not find a value that was missed here. The errors
// quote nothing.
func readAnswer(body []byte, members []string) (*answer, error) {
	a := &answer{values: map[string]string{}, rest: []byte{'{'}}
	d := jsontext.NewDecoder(bytes.NewReader(body))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, notObject(err)
	}
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			return nil, notObject(err)
		}
		name := t.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, notObject(err)
		}
		if err := a.member(name, value, members); err != nil {
			return nil, err
		}
	}
	if t, err := d.ReadToken(); err != nil || t.Kind() != '}' {
		return nil, notObject(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, notObject(err)
	}
	a.rest = append(a.rest, '}')
	return a, nil
}

func notObject(err error) error {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return deny(SealAmbiguous, nil)
	}
	return deny(SealNotJSON, nil)
}

// member adds one member of the object.
func (a *answer) member(name string, value jsontext.Value, members []string) error {
	switch {
	case slices.Contains(members, name):
		return a.value(name, value)
	case sameName(name, members):
		return deny(SealAmbiguous, nil)
	case name == "expires_in":
		seconds, err := strconv.ParseInt(string(value), 10, 32)
		if err != nil || seconds <= 0 {
			return deny(SealBadLifetime, nil)
		}
		a.endWithLease = time.Duration(seconds) * time.Second
	}
	var inside any
	if err := json.Unmarshal(value, &inside); err != nil {
		return deny(SealNotJSON, nil)
	}
	if holdsName(inside, members) {
		return deny(SealAmbiguous, nil)
	}
	if len(a.rest) > 1 {
		a.rest = append(a.rest, ',')
	}
	quoted, err := jsontext.AppendQuote(a.rest, name)
	if err != nil {
		return deny(SealNotJSON, nil)
	}
	// The value is written in one spelling, so that secrets in it are found however they were
	// escaped.
	if a.rest, err = jsontext.AppendFormat(append(quoted, ':'), value, jsontext.PreserveRawStrings(false)); err != nil {
		return deny(SealNotJSON, nil)
	}
	return nil
}

// value adds a member that holds a credential.
func (a *answer) value(name string, value jsontext.Value) error {
	if value.Kind() != '"' {
		return deny(SealBadValue, nil)
	}
	text, err := jsontext.AppendUnquote(nil, []byte(value))
	if err != nil {
		return deny(SealNotJSON, nil)
	}
	s := string(text)
	odd := strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' })
	if odd || holds(s) || !provider.CanInject(secret.New(s)) {
		return deny(SealBadValue, nil)
	}
	a.values[name] = s
	return nil
}

// sameName reports whether name is one of members, without regard to case.
func sameName(name string, members []string) bool {
	return slices.ContainsFunc(members, func(m string) bool { return strings.EqualFold(m, name) })
}

// holdsName reports whether a value contains one of these names at any level.
func holdsName(v any, members []string) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return holdsName(e, members) })
	case map[string]any:
		for name, e := range v {
			if sameName(name, members) || holdsName(e, members) {
				return true
			}
		}
	}
	return false
}

// with returns the object with placeholders for the credentials, and with marks for secrets in the
// rest.
func (a *answer) with(stands map[string]string, marked func(string) string) ([]byte, error) {
	rest, is := strings.CutPrefix(marked(string(a.rest)), "{")
	out := []byte{'{'}
	for name, s := range stands {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(strconv.AppendQuote(out, name), ':')
		out = strconv.AppendQuote(out, s)
	}
	if len(out) > 1 && rest != "}" {
		out = append(out, ',')
	}
	out = append(out, rest...)
	if !is || !jsontext.Value(out).IsValid() { // a mark has replaced a part of the syntax
		return nil, deny(SealAmbiguous, nil)
	}
	return out, nil
}

// secrets returns the credentials by member name.
func (a *answer) secrets() map[string]secret.Secret {
	out := make(map[string]secret.Secret, len(a.values))
	for name, value := range a.values {
		out[name] = secret.New(value)
	}
	return out
}
