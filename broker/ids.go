package broker

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ebb-broker/ebb/broker/egress/content"
)

// Id prefixes. The rest of an id is a UUIDv7 in hex, so that ids sort by time.
const (
	TaskPrefix     = "tsk_"
	LeasePrefix    = "lse_"
	RequestPrefix  = "req_"
	SandboxPrefix  = "sbx_"
	DraftPrefix    = "pol_" // of policies
	EndpointPrefix = "egr_"
	ContentPrefix  = "cnt_" // of the facts of a request

	BreakGlassPrefix = "brk_"
)

// ContentID returns the id of facts. Equal facts have the same id.
func ContentID(f content.Facts) string { return ContentPrefix + f.Sum()[:32] }

// ContentSum is the Sum of facts, "" without facts.
func ContentSum(f *content.Facts) string {
	if f == nil {
		return ""
	}
	return f.Sum()
}

func NewID(prefix string) string {
	u := uuid.Must(uuid.NewV7()) // fails only when the system has no randomness
	return prefix + hex.EncodeToString(u[:])
}

// ValidID reports whether id has the prefix and the form of ids. Callers check it before they
// use an id from a request as a key.
func ValidID(prefix, id string) bool {
	digits, has := strings.CutPrefix(id, prefix)
	return has && len(digits) == 32 && !strings.ContainsFunc(digits, func(c rune) bool { return (c < '0' || c > '9') && (c < 'a' || c > 'f') })
}

// MadeAt returns when an id was made, by the clock of the replica that made it (RFC 9562
// section 5.7). ok is false for ids that NewID cannot have made.
func MadeAt(prefix, id string) (at time.Time, ok bool) {
	if !ValidID(prefix, id) {
		return time.Time{}, false
	}
	at = IdTime(id)
	return at, !at.IsZero()
}

// IdTime returns the time in an id of any prefix; the zero time for ids that NewID cannot have
// made.
func IdTime(id string) time.Time {
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

// SandboxID returns the client_id of a task's sandbox; TaskOf is its inverse. A task has
// exactly one sandbox, so that one UUID serves both.
func SandboxID(taskID string) string { return SandboxPrefix + strings.TrimPrefix(taskID, TaskPrefix) }

func TaskOf(sandboxID string) string {
	return TaskPrefix + strings.TrimPrefix(sandboxID, SandboxPrefix)
}

// HashOf returns the fixed-size key of a list of strings: base64url of a SHA-256.
func HashOf(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte{byte(len(p) >> 8), byte(len(p))})
		h.Write([]byte(p))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// TextHash returns the hex SHA-256 of an evidence snapshot, as the audit entry of the vote
// holds it.
func TextHash(seen string) string {
	sum := sha256.Sum256([]byte(seen))
	return hex.EncodeToString(sum[:])
}

// matchWords are short, and easy to say and to tell apart.
var matchWords = strings.Fields(`
	ACORN AGATE ALDER AMBER ANCHOR APPLE ASPEN ATLAS BADGER BAMBOO BASALT BEACH BEAVER BIRCH BISON BLOSSOM
	BRAMBLE BREEZE BRONZE CACTUS CAMEL CANYON CARBON CEDAR CHERRY CITRUS CLOVER COBALT COMET COPPER CORAL CRANE
	CRATER CRYSTAL DAISY DELTA DESERT DOLPHIN EAGLE EMBER FALCON FERN FJORD FLINT FOREST GARNET GINGER GLACIER
	GRANITE HARBOR HAZEL HERON INDIGO ISLAND IVORY JADE JASMINE JUNIPER KELP LAGOON LANTERN LARCH LEMON LINDEN
	LOTUS LUPIN MAGNET MANGO MAPLE MARBLE MEADOW MEDLAR MISTRAL MONSOON MOSS NECTAR NICKEL NUTMEG OASIS OCEAN
	OLIVE ONYX OPAL ORCHID OTTER PEBBLE PEPPER PINE PLANET PLUM POLAR POPPY PRAIRIE QUARTZ QUINCE RAVEN
	REEF RIVER ROBIN SAFFRON SALMON SANDAL SEQUOIA SIERRA SILVER SORREL SPRUCE SUMMIT SUNSET SWALLOW TEAK THISTLE
	TIGER TOPAZ TULIP TUNDRA VALLEY VELVET VIOLET WALNUT WILLOW WINTER YARROW ZEBRA ZENITH ZEPHYR ZINC ZIRCON`)

// MatchCode returns a short name of a request for people to say, such as AMBER-42. It lets a
// person compare a notification with the page they look at. It proves nothing, and two requests
// may have the same code.
func MatchCode(requestID string) string {
	sum := sha256.Sum256([]byte("ebb match code\x00" + requestID))
	n := binary.BigEndian.Uint64(sum[:])
	return fmt.Sprintf("%s-%d", matchWords[n%uint64(len(matchWords))], 10+n>>16%90)
}

// InstanceOf returns this installation's name at providers: replicas have the same issuer and
// so the same name, other installations have another.
func InstanceOf(issuer string) string {
	sum := sha256.Sum256([]byte(issuer))
	return hex.EncodeToString(sum[:4])
}
