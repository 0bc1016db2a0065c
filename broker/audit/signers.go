package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
)

// KeyFact is the data of key.added and key.revoked: the signing key, and for a revoked key the time
// from which its signatures do not count.
type KeyFact struct {
	KID    string          `json:"kid"`
	Number int             `json:"number"`          // of its file, never reused
	JWK    json.RawMessage `json:"jwk,omitempty"`   // the public key
	Since  time.Time       `json:"since,omitzero"`  // of a revoked key
	Reason string          `json:"reason,omitzero"` // of a revoked key
}

// signers holds the keys that may sign checkpoints: keys that the caller trusts, and keys that the
// audit log itself names, once a checkpoint of a trusted key covers the entry that names them.
type signers struct {
	given    jose.KeySet
	recorded map[string]*recordedKey
	revoked  map[string]time.Time        // by key id
	sealed   map[string]map[string]int64 // by key id and writer: the last seq that its checkpoints cover
	counted  map[string]time.Time        // by key id: the latest checkpoint that counted
}

// recordedKey is a key that an entry names.
type recordedKey struct {
	key    jose.Key
	number int
	at     place
}

// read records the content of an entry about signing keys.
func (s *signers) read(e Entry) error {
	if e.Kind != KeyAdded && e.Kind != KeyRevoked {
		return nil
	}
	var f KeyFact
	if err := json.Unmarshal(e.Data, &f); err != nil || f.KID == "" {
		return errors.New("the signing key cannot be read")
	}
	if e.Kind == KeyRevoked {
		if s.revoked == nil {
			s.revoked = map[string]time.Time{}
		}
		if was, twice := s.revoked[f.KID]; !twice || f.Since.Before(was) {
			s.revoked[f.KID] = f.Since
		}
		if at, counted := s.counted[f.KID]; counted && !at.Before(f.Since) {
			return errors.New("checkpoints of this revoked key stand before this entry: export again")
		}
		return nil
	}
	key, err := jose.ParseJWK(f.JWK)
	if err != nil || key.KID != f.KID {
		return errors.New("the signing key cannot be read")
	}
	if s.recorded == nil {
		s.recorded = map[string]*recordedKey{}
	}
	if s.recorded[f.KID] == nil {
		s.recorded[f.KID] = &recordedKey{key, f.Number, place{e.Writer, e.Seq}}
	}
	return nil
}

// verify checks the signature of c and returns the id of its key. counts is false for a key that
// was revoked before c was made: such a checkpoint proves nothing.
func (s *signers) verify(c Checkpoint) (kid string, counts bool, err error) {
	gone := false
	err = c.verify(func(h jose.Header) (jose.Key, error) {
		kid = h.KID
		if since, is := s.revoked[kid]; is && !c.At.Before(since) {
			gone = true
			return jose.Key{}, jose.KeyUnknown()
		}
		key, err := s.given.Key(h)
		if err == nil {
			return key, nil
		}
		if r := s.recorded[kid]; r != nil {
			return r.key, nil
		}
		return jose.Key{}, err
	})
	switch {
	case gone:
		return kid, false, nil
	case err == nil:
		if s.counted == nil {
			s.counted = map[string]time.Time{}
		}
		if s.counted[kid].Before(c.At) {
			s.counted[kid] = c.At
		}
		return kid, true, nil
	case kid != "" && !s.has(kid) && s.recorded[kid] == nil:
		err = fmt.Errorf("key %s is missing: neither --keys nor an entry before it has it", kid)
	}
	return kid, false, err
}

func (s *signers) has(kid string) bool {
	return slices.ContainsFunc(s.given.Keys(), func(k jose.Key) bool { return k.KID == kid })
}

// seals records that a checkpoint of kid covers a chain up to seq.
func (s *signers) seals(kid, writer string, seq int64) {
	if s.sealed == nil {
		s.sealed = map[string]map[string]int64{}
	}
	if s.sealed[kid] == nil {
		s.sealed[kid] = map[string]int64{}
	}
	s.sealed[kid][writer] = max(s.sealed[kid][writer], seq)
}

// untrusted returns the keys whose checkpoints counted and that no trusted key covers.
func (s *signers) untrusted() []string {
	trusted := map[string]bool{}
	for _, k := range s.given.Keys() {
		trusted[k.KID] = true
	}
	vouched := func(r *recordedKey) bool {
		for kid, to := range s.sealed {
			if trusted[kid] && to[r.at.writer] >= r.at.seq {
				return true
			}
		}
		return false
	}
	for grew := true; grew; {
		grew = false
		for kid, r := range s.recorded {
			if !trusted[kid] && vouched(r) {
				trusted[kid], grew = true, true
			}
		}
	}
	var out []string
	for kid := range s.counted {
		if !trusted[kid] && s.recorded[kid] != nil { // a given key is trusted under any id
			out = append(out, fmt.Sprintf("key %d (%s)", s.recorded[kid].number, kid))
		}
	}
	slices.Sort(out)
	return out
}

// fault returns an error if the given keys do not cover all keys that signed.
func (s *signers) fault() error {
	names := s.untrusted()
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%s signed checkpoints and is named by this audit log alone: no checkpoint of a key in --keys covers the entry that names it; give its public key with --keys", strings.Join(names, ", "))
}

// used returns the ids of the keys whose checkpoints counted.
func (s *signers) used() []string {
	var out []string
	for kid := range s.counted {
		out = append(out, kid)
	}
	slices.Sort(out)
	return out
}
