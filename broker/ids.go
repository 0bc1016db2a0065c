package broker

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Id prefixes. The rest is a UUIDv7 in hex, so that ids sort by time.
const (
	taskPrefix    = "tsk_"
	leasePrefix   = "lse_"
	requestPrefix = "req_"
	sandboxPrefix = "sbx_"
	draftPrefix   = "pol_" // of policies
	boxPrefix     = "box_"

	breakGlassPrefix = "brk_"
)

var idForm = regexp.MustCompile(`^(tsk|lse|req|sbx|pol|brk)_[0-9a-f]{32}$`)

func newID(prefix string) string {
	u := uuid.Must(uuid.NewV7()) // fails only when the system has no randomness
	return prefix + hex.EncodeToString(u[:])
}

// validID reports whether id has the form of ids with prefix. It is asked before
// an id of a caller becomes a key anywhere.
func validID(prefix, id string) bool {
	return strings.HasPrefix(id, prefix) && idForm.MatchString(id)
}

// madeAt is when an id was made, by the clock of whoever made it (RFC 9562 section
// 5.7). ok is false for what newID cannot have made.
func madeAt(prefix, id string) (at time.Time, ok bool) {
	if !validID(prefix, id) {
		return time.Time{}, false
	}
	at = idTime(id)
	return at, !at.IsZero()
}

// idTime is the time in an id of any prefix; the zero time for what newID cannot have made.
func idTime(id string) time.Time {
	_, digits, _ := strings.Cut(id, "_")
	var u uuid.UUID
	if len(digits) != 2*len(u) {
		return time.Time{}
	}
	if _, err := hex.Decode(u[:], []byte(digits)); err != nil || u.Version() != 7 || u.Variant() != uuid.RFC4122 {
		return time.Time{}
	}
	ms := int64(binary.BigEndian.Uint64(u[:8]) >> 16) //nolint:gosec // 48 bits
	return time.UnixMilli(ms).UTC()
}

// sandboxOf is the client_id of a task's sandbox; taskOf is its inverse. A task
// has exactly one sandbox, so one id serves both.
func sandboxOf(taskID string) string { return sandboxPrefix + strings.TrimPrefix(taskID, taskPrefix) }

func taskOf(sandboxID string) string {
	return taskPrefix + strings.TrimPrefix(sandboxID, sandboxPrefix)
}

// hashOf is the fixed-size key of a list of strings.
func hashOf(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte{byte(len(p) >> 8), byte(len(p))})
		h.Write([]byte(p))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
