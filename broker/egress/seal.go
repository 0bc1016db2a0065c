package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"

	"ebb/broker"
	"ebb/broker/provider"
)

// Answers keeps credentials that answers make; *broker.Broker does.
type Answers interface {
	Seal(ctx context.Context, c broker.Caller, u broker.Usable, what provider.Sealing) (*broker.Sealing, error)
}

// maxSealed is how long, in bytes, an answer is that is read as a whole.
const maxSealed = 64 << 10

// seals has what the answer makes intended, when there is such a thing.
func (s *sending) seals(use broker.Usable, out *http.Request) error {
	sealer, is := use.Injector.(provider.AnswerSealer)
	if !is {
		return nil
	}
	what := sealer.Seals(out, use.Target)
	switch {
	case what == nil:
		return nil
	case s.b.p.cfg.Answers == nil:
		return deny(NotAllowed, errors.New("its answer makes a credential, and nobody here keeps one"))
	case what.Scopes.Empty():
		return deny(NotAllowed, errors.New("its answer makes a credential, and the lease is for no request that it would be added to"))
	}
	var err error
	s.members = what.Members
	s.sealing, err = s.b.p.cfg.Answers.Seal(s.ctx, s.b.who, use, *what)
	return err
}

// trip sends the request. One for which there was no connection has made nothing.
func (s *sending) trip(out *http.Request) (*http.Response, error) {
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

// sealed reports whether the answer is one of those that make credentials. Of the others it is
// known that nothing came into being, or nobody knows.
func (s *sending) sealed(status int) bool {
	if s.sealing == nil {
		return false
	}
	if status >= http.StatusMultipleChoices {
		s.sealing.Nothing()
	}
	return status >= http.StatusOK && status < http.StatusMultipleChoices && status != http.StatusNoContent && status != http.StatusResetContent
}

// seal puts placeholders in the place of what the answer makes. What cannot be read for that
// is withheld, and what it has made is then nobody's.
func (s *sending) seal(r *http.Response) error {
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
	stands, err := s.hide(a)
	if err != nil {
		return err
	}
	out, err := a.with(stands, s.marked)
	if err != nil {
		return err
	}
	if len(a.values) == 0 {
		s.sealing.Nothing()
	} else if err := s.sealing.Keep(a.secrets(), a.lives); err != nil {
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

// hide has what the answer makes looked for in all else of it, and says what stands for it.
func (s *sending) hide(a *answer) (stands map[string]string, err error) {
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

// marked is a text of the answer with marks in place of secrets.
func (s *sending) marked(text string) string {
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
	s.echoes.Add(int64(n))
	return text
}

// unseal lets go of what a request has held for its answer.
func (s *sending) unseal() {
	for _, x := range s.hidden {
		s.b.p.redactors.give(x, 0)
	}
	if s.sealing != nil {
		s.sealing.Close()
	}
}
