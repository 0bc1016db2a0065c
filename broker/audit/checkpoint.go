package audit

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/ebb-broker/ebb/attest/jose"
)

// Checkpoint is a signed statement of the heads of chains. The first checkpoints by a key together
// name every chain, later ones the chains that have grown. With a checkpoint, a verifier detects
// changed or removed entries before those heads.
type Checkpoint struct {
	At    time.Time       `json:"at"`
	Heads map[string]Head `json:"heads"` // by writer
	JWS   string          `json:"jws"`   // compact JWS over At and Heads, typ "ebb-checkpoint+jwt"
}

// Head is the last entry of a chain.
type Head struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}

// CheckpointType is the typ of a checkpoint's JWS (RFC 8725 section 3.11).
const CheckpointType = "ebb-checkpoint+jwt"

// maxCheckpoint is the maximum size of a checkpoint's JWS, which has about 200 bytes for each
// head.
const maxCheckpoint = 4 << 20

var (
	errCheckpoint = errors.New("not a checkpoint in canonical form")
	errHead       = errors.New("a head needs a writer, a seq of at least 1 and a hash of 64 lower-case hex digits")
)

// SignCheckpoint signs heads, which must not be empty, as of the time at.
func SignCheckpoint(signer jose.Signer, kid string, at time.Time, heads map[string]Head) (Checkpoint, error) {
	if kid == "" || len(heads) == 0 {
		return Checkpoint{}, errors.New("a checkpoint needs a key id and at least one head")
	}
	c := Checkpoint{At: at.UTC().Truncate(time.Millisecond), Heads: heads}
	claims, err := c.claims()
	if err != nil {
		return Checkpoint{}, err
	}
	c.JWS, err = jose.Sign(signer, jose.SignHeader{Type: CheckpointType, KID: kid}, json.RawMessage(claims))
	if err != nil {
		return Checkpoint{}, fmt.Errorf("sign checkpoint: %w", err)
	}
	return c, nil
}

// Verify checks that the JWS is signed by one of keys over exactly At and Heads. With any error,
// also one that does not match jose.ErrToken, c proves nothing.
func (c Checkpoint) Verify(keys jose.KeySet) error { return c.verify(keys.Key) }

func (c Checkpoint) verify(keys jose.KeySource) error {
	want, err := c.claims()
	if err != nil {
		return err
	}
	profile := jose.Profile{
		Types: []string{CheckpointType}, Algs: []jose.Alg{jose.ES256, jose.EdDSA, jose.RS256},
		AnyIssuer: true, AnyAudience: true, NoExp: true,
		Limits: jose.Limits{Size: maxCheckpoint, Depth: 4, Members: maxCheckpoint / 64},
	}
	named := func(h jose.Header) (jose.Key, error) {
		if h.KID == "" {
			return jose.Key{}, jose.KeyUnknown()
		}
		return keys(h)
	}
	got, err := jose.Verify(c.JWS, profile, named, c.At)
	if err != nil {
		return err
	}
	if !bytes.Equal(got.Payload(), want) {
		return errors.New("the signature is over another time or other heads")
	}
	return nil
}

// claims returns the payload of the JWS: canonical JSON of At and Heads.
func (c Checkpoint) claims() ([]byte, error) {
	raw, err := c.encode()
	if err != nil {
		return nil, err
	}
	return append(raw, '}'), nil
}

func (c Checkpoint) encode() ([]byte, error) {
	for name, h := range c.Heads {
		if w := writerOf(name); name == "" || w.err != nil || h.Seq < 1 || h.Seq > maxInt || !validHash(h.Hash) {
			return nil, errHead
		}
	}
	heads, err := json.Marshal(c.Heads)
	if err == nil && !isCanonical(heads) {
		heads, err = jcs.Transform(heads)
	}
	if err != nil || c.Heads == nil {
		return nil, errHead
	}
	w := writer{out: []byte{'{'}}
	w.time("at", c.At)
	w.name("heads")
	return append(w.out, heads...), w.err
}

// MarshalJSON writes the canonical form.
func (c Checkpoint) MarshalJSON() ([]byte, error) {
	raw, err := c.encode()
	if err != nil {
		return nil, err
	}
	jws, err := json.Marshal(c.JWS)
	if err != nil {
		return nil, err
	}
	return append(append(append(raw, `,"jws":`...), jws...), '}'), nil
}

// UnmarshalJSON is as strict as Entry.UnmarshalJSON. It does not verify.
func (c *Checkpoint) UnmarshalJSON(b []byte) error {
	type plain Checkpoint
	var p plain
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return fmt.Errorf("%w: %v", errCheckpoint, err)
	}
	out := Checkpoint(p)
	out.At = out.At.UTC()
	again, err := out.MarshalJSON()
	if err != nil {
		return fmt.Errorf("%w: %v", errCheckpoint, err)
	}
	canon, err := jcs.Transform(b)
	if err != nil || !bytes.Equal(again, canon) {
		return errCheckpoint
	}
	*c = out
	return nil
}

func validHash(s string) bool {
	if len(s) != 64 {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	_, err := hex.DecodeString(s)
	return err == nil
}
