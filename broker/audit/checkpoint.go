package audit

import "time"

// Checkpoint is a signed statement of where every chain stood: whoever holds
// one can tell later whether entries before it were changed or removed.
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
