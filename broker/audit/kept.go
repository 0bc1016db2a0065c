package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"
	"unicode/utf8"
)

// Kept is the pair of texts that is stored beside the log for a person's answer to a request. The
// entry of the answer has the SHA-256 of both.
type Kept struct {
	RequestID string `json:"request_id"`
	By        string `json:"by"`
	Snapshot  string `json:"seen,omitempty"`  // what the page showed, as JSON, with the agent's text
	Proof     string `json:"proof,omitempty"` // the passkey's signature, as JSON
}

// MarshalJSON writes ASCII, so that every character shows as it is.
func (k Kept) MarshalJSON() ([]byte, error) {
	type plain Kept
	b, err := json.Marshal(plain(k))
	return ASCII(b), err
}

// Brief returns the entry of an answer, or of the start of a break-glass, reduced to the members
// that identify the stored texts.
func Brief(e Entry) Entry {
	out := Entry{Kind: e.Kind, RequestID: e.RequestID, Actor: e.Actor, Data: e.Data}
	var v struct {
		Snapshot string `json:"seen_sha256,omitempty"`
		Proof    string `json:"proof_sha256,omitempty"`
	}
	if e.Kind == RequestVoted && json.Unmarshal(e.Data, &v) == nil {
		out.Data, _ = json.Marshal(v) // two texts: it cannot fail
	}
	return out
}

// ASCII returns the same JSON in ASCII.
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

// Signature is a passkey's signature over an answer, with everything that is needed to verify it.
type Signature struct {
	RequestID, Choice, Digest string
	Scope                     string // the scope that was granted according to the log
	TTL                       int64  // for how many seconds
	By                        string
	Passkey                   string // its id in hex
	KeyHash                   string // hex SHA-256 of the registered public key (COSE); "" = its registration is not among the entries
	Registered                time.Time
	Proof                     string
}

// Answers collects the entries about answers and about the passkeys that signed them. The zero
// value is ready to use.
type Answers struct {
	votes map[[2]string][]*answer // by request and person: a person with two answers has two
	keys  map[string][]registration
}

type answer struct {
	Choice   string `json:"choice"`
	Digest   string `json:"digest"`
	Scope    string `json:"scope"`
	TTL      int64  `json:"ttl"`
	Passkey  string `json:"passkey"`
	Snapshot string `json:"seen_sha256"`
	Proof    string `json:"proof_sha256"`
	// BreakGlass is the id of a break-glass whose start was signed; empty for answers.
	BreakGlass string `json:"break_glass"`
	at         time.Time
	kept       bool
}

// registration is the period in which a passkey belonged to a person.
type registration struct {
	by          string
	key         string
	from, until time.Time // zero until = still registered
}

// Read records the content of an entry. Entries come in the order of time.
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
		if v.Snapshot == "" && v.Proof == "" {
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

// Judge checks the stored texts against the entry of their answer. signed is the passkey's
// signature, or nil if the answer was not signed.
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
		return nil, errors.New("the entry of the answer does not name the choice and the passkey")
	}
	s.KeyHash, s.Registered, err = a.Registered(v.Passkey, k.By, v.at)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// answerOf returns the answer whose entry has the hashes of the stored texts.
func (a *Answers) answerOf(k Kept) (*answer, error) {
	list := a.votes[[2]string{k.RequestID, k.By}]
	if len(list) == 0 {
		return nil, errors.New("the export has no earlier answer of this person to this request")
	}
	why := errors.New("the text shown to the person was changed: its SHA-256 is not the one in the entry of the answer")
	for _, v := range list {
		switch {
		case v.Snapshot != hashOf(k.Snapshot):
		case v.Proof != hashOf(k.Proof):
			why = errors.New("the stored proof was changed: its SHA-256 is not the one in the entry of the answer")
		case v.kept:
			why = errors.New("the stored texts of this answer come a second time")
		default:
			return v, nil
		}
	}
	return nil, why
}

// Registered returns the SHA-256 of the public key with which a person's passkey was registered at
// a time, and since when. It returns "" when no entry names the passkey.
func (a *Answers) Registered(passkey, by string, at time.Time) (keyHash string, since time.Time, err error) {
	for _, r := range a.keys[passkey] {
		switch {
		case r.by != by:
			err = errors.New("the passkey was registered by another person")
		case !r.until.IsZero() && r.until.Before(at.Add(-skew)):
			err = errors.New("the passkey was removed before the answer")
		case r.from.After(at.Add(skew)):
			err = errors.New("the passkey was registered after the answer")
		default:
			return r.key, r.from, nil
		}
	}
	return "", time.Time{}, err
}

// skew is the tolerated difference between the clocks of replicas.
const skew = time.Minute

// unkept returns the number of answers with stored texts that were not read.
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
		return Kept{}, errors.New("the line is not a valid {\"kept\":{...}} object")
	}
	if _, err := d.Token(); err != io.EOF {
		return Kept{}, errors.New("the line has text after the {\"kept\":{...}} object")
	}
	return wrap.Kept, nil
}
