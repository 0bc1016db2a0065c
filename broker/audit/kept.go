package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"
	"unicode/utf8"
)

// Kept is what is kept beside the record with somebody's answer to a request. The record of
// the answer has the SHA-256 of both texts.
type Kept struct {
	RequestID string `json:"request_id"`
	By        string `json:"by"`
	Seen      string `json:"seen,omitempty"`  // what the page said: JSON, agent text and all
	Proof     string `json:"proof,omitempty"` // what a passkey made of it: JSON
}

// MarshalJSON writes ASCII, so that nothing in it draws otherwise than it is.
func (k Kept) MarshalJSON() ([]byte, error) {
	type plain Kept
	b, err := json.Marshal(plain(k))
	return ASCII(b), err
}

// Brief is the entry of an answer, or of the beginning of a break-glass, with no more than
// what tells what was kept of it.
func Brief(e Entry) Entry {
	out := Entry{Kind: e.Kind, RequestID: e.RequestID, Actor: e.Actor, Data: e.Data}
	var v struct {
		Seen  string `json:"seen_sha256,omitempty"`
		Proof string `json:"proof_sha256,omitempty"`
	}
	if e.Kind == RequestVoted && json.Unmarshal(e.Data, &v) == nil {
		out.Data, _ = json.Marshal(v) // two texts: it cannot fail
	}
	return out
}

// ASCII is the same JSON in ASCII.
func ASCII(b []byte) []byte {
	out := make([]byte, 0, len(b)+1)
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		switch {
		case r < 0x7f:
			out = append(out, b[i])
		case r > 0xffff:
			r -= 0x10000
			out = appendUnit(appendUnit(out, 0xd800+r>>10), 0xdc00+r&0x3ff)
		default:
			out = appendUnit(out, r)
		}
		i += n
	}
	return out
}

func appendUnit(out []byte, u rune) []byte {
	const hex = "0123456789abcdef"
	return append(out, '\\', 'u', hex[u>>12&15], hex[u>>8&15], hex[u>>4&15], hex[u&15])
}

// Signature is what the record says that somebody signed with a passkey, and what they
// made of it. Whoever judges it needs nothing else.
type Signature struct {
	RequestID, Choice, Digest string
	Scope                     string // that the record says was granted
	TTL                       int64  // and for how many seconds
	By                        string
	Passkey                   string // its id in hex
	KeyHash                   string // hex SHA-256 of the public key (COSE) that it was registered with; "" = that is not among the entries
	Registered                time.Time
	Proof                     string
}

// Answers collects what entries say of answers and of the passkeys that signed them. The
// zero value has read nothing.
type Answers struct {
	votes map[[2]string][]*answer // by request and person: one who answers again has several
	keys  map[string][]registration
}

type answer struct {
	Choice  string `json:"choice"`
	Digest  string `json:"digest"`
	Scope   string `json:"scope"`
	TTL     int64  `json:"ttl"`
	Passkey string `json:"passkey"`
	Seen    string `json:"seen_sha256"`
	Proof   string `json:"proof_sha256"`
	// BreakGlass is, of one that began, its id: what was signed is that it begins.
	BreakGlass string `json:"break_glass"`
	at         time.Time
	kept       bool
}

// registration is a passkey as long as it was somebody's.
type registration struct {
	by          string
	key         string
	from, until time.Time // zero until = it still is
}

// Read notes what an entry says. Entries come in the order of time.
func (a *Answers) Read(e Entry) error {
	switch e.Kind {
	case RequestVoted, BreakGlassBegun:
		v := &answer{at: e.At}
		if err := json.Unmarshal(e.Data, v); err != nil {
			return errors.New("the answer cannot be read")
		}
		if e.Kind == BreakGlassBegun {
			e.RequestID = v.BreakGlass
		}
		if v.Seen == "" && v.Proof == "" {
			return nil
		}
		if a.votes == nil {
			a.votes = map[[2]string][]*answer{}
		}
		at := [2]string{e.RequestID, e.Actor}
		a.votes[at] = append(a.votes[at], v)
	case PasskeyAdded, PasskeyRemoved:
		var p struct {
			Passkey string `json:"passkey"`
			KeyHash string `json:"public_key_sha256"`
		}
		if err := json.Unmarshal(e.Data, &p); err != nil {
			return errors.New("the passkey cannot be read")
		}
		if a.keys == nil {
			a.keys = map[string][]registration{}
		}
		list := a.keys[p.Passkey]
		if e.Kind == PasskeyRemoved {
			for i := range list {
				if list[i].by == e.Actor && list[i].until.IsZero() {
					list[i].until = e.At
				}
			}
			return nil
		}
		a.keys[p.Passkey] = append(list, registration{by: e.Actor, key: p.KeyHash, from: e.At})
	}
	return nil
}

// Judge holds what was kept against the answer that was read. signed has what a passkey
// signed; nil = nothing did.
func (a *Answers) Judge(k Kept) (signed *Signature, err error) {
	v, err := a.answerOf(k)
	if err != nil {
		return nil, err
	}
	v.kept = true
	if k.Proof == "" {
		return nil, nil
	}
	s := &Signature{RequestID: k.RequestID, Choice: v.Choice, Digest: v.Digest, Scope: v.Scope, TTL: v.TTL, By: k.By, Passkey: v.Passkey, Proof: k.Proof}
	if v.Choice == "" || v.Passkey == "" {
		return nil, errors.New("the record does not say what was signed, and by which passkey")
	}
	s.KeyHash, s.Registered, err = a.Registered(v.Passkey, k.By, v.at)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// answerOf is the answer that something was kept of: the one that has the hashes of it.
func (a *Answers) answerOf(k Kept) (*answer, error) {
	list := a.votes[[2]string{k.RequestID, k.By}]
	if len(list) == 0 {
		return nil, errors.New("no answer before it on the record is the one that this was kept of")
	}
	why := errors.New("what the person saw was changed: it does not have the hash that the record of the answer has")
	for _, v := range list {
		switch {
		case v.Seen != hashOf(k.Seen):
		case v.Proof != hashOf(k.Proof):
			why = errors.New("what proves the answer was changed: it does not have the hash that the record of the answer has")
		case v.kept:
			why = errors.New("what was kept of this answer comes twice")
		default:
			return v, nil
		}
	}
	return nil, why
}

// Registered is the public key, by its SHA-256, with which a passkey was registered that
// was a person's at a moment, and since when; "" when no entry that was read names the passkey.
func (a *Answers) Registered(passkey, by string, at time.Time) (keyHash string, since time.Time, err error) {
	for _, r := range a.keys[passkey] {
		switch {
		case r.by != by:
			err = errors.New("the passkey was registered by somebody else")
		case !r.until.IsZero() && r.until.Before(at.Add(-skew)):
			err = errors.New("the passkey had been removed before")
		case r.from.After(at.Add(skew)):
			err = errors.New("the passkey was registered later")
		default:
			return r.key, r.from, nil
		}
	}
	return "", time.Time{}, err
}

// skew is how far the clocks of replicas may be apart.
const skew = time.Minute

// unkept is how many answers have something that was kept of them and has not been read.
func (a *Answers) unkept() (n int) {
	for _, list := range a.votes {
		for _, v := range list {
			if !v.kept {
				n++
			}
		}
	}
	return n
}

func hashOf(s string) string {
	if s == "" {
		return ""
	}
	return hexSum([]byte(s))
}

// readKept reads a line {"kept":{...}} strictly.
func readKept(line []byte) (Kept, error) {
	var wrap struct {
		Kept Kept `json:"kept"`
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&wrap); err != nil {
		return Kept{}, errors.New("not what was kept of an answer")
	}
	if _, err := d.Token(); err != io.EOF {
		return Kept{}, errors.New("something stands after what was kept of an answer")
	}
	return wrap.Kept, nil
}
