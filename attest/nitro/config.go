package nitro

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest"
)

// RootG1 is the SHA-256 of the DER of the AWS Nitro Enclaves root certificate G1, of
// the commercial partitions, as AWS prints it (verify-root.html).
const RootG1 = "64:1A:03:21:A3:E2:44:EF:E4:56:46:31:95:D6:06:31:7E:D7:CD:CC:3C:17:56:E0:98:93:F3:C6:8F:79:BB:5B"

// The two types of document.
const (
	Enclave  = "enclave"
	NitroTPM = "nitrotpm"
)

// What ties a document to the key that asked.
const (
	BindUserData = "user_data"
	BindNonce    = "nonce"
)

// Config configures one instance.
type Config struct {
	// Name of the instance. Required.
	Name string `json:"-"`
	// Type is Enclave or NitroTPM. Required; documents of the other are refused.
	Type string `json:"type"`
	// PCRs are the allowed values of registers by index, hex. Each listed one must
	// be in the document with one of its values.
	PCRs map[string][]string `json:"pcrs"`
	// RegisteredPCRs: each runner registers registers as selectors. Required to be
	// true when PCRs is empty.
	RegisteredPCRs bool `json:"registered_pcrs"`
	// Bind is BindUserData (default) or BindNonce. See the package comment.
	Bind string `json:"bind"`
	// RootSHA256 is the fingerprint of the root. Default RootG1.
	RootSHA256 string `json:"root_sha256"`
	// MaxAge is how long after its challenge a document vouches: 1 m to 3 h, default
	// 15 m. Its certificates may end it earlier.
	MaxAge time.Duration `json:"max_age"`

	// Nonces makes the challenges. Required.
	Nonces *attest.Nonces `json:"-"`
	// Now is the clock, nil = time.Now.
	Now func() time.Time `json:"-"`
}

const (
	defaultMaxAge = 15 * time.Minute
	maxMaxAge     = 3 * time.Hour // a leaf lives no longer
)

// checked is what check makes of a Config.
type checked struct {
	profile
	pins map[uint8][]string
	root [sha256.Size]byte
}

// check reports all problems at once and fills in the defaults.
func (c *Config) check() (checked, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Name == "" {
		bad("name is empty")
	}
	p, known := profiles[c.Type]
	if !known {
		bad("type is neither %s nor %s", Enclave, NitroTPM)
	}
	if c.Nonces == nil {
		bad("there is no key for nonces")
	}
	if c.Bind = cmp.Or(c.Bind, BindUserData); c.Bind != BindUserData && c.Bind != BindNonce {
		bad("bind is neither %s nor %s; %s is the default", BindUserData, BindNonce, BindUserData)
	}
	if c.MaxAge = cmp.Or(c.MaxAge, defaultMaxAge); c.MaxAge < attest.NonceLife || c.MaxAge > maxMaxAge {
		bad("max_age is not between %s and %s", attest.NonceLife, maxMaxAge)
	}
	out := checked{profile: p, pins: map[uint8][]string{}}
	root, err := hex.DecodeString(strings.ReplaceAll(cmp.Or(c.RootSHA256, RootG1), ":", ""))
	if err != nil || len(root) != sha256.Size {
		bad("root_sha256 is not a SHA-256 in hex; openssl x509 -in root.pem -noout -fingerprint -sha256 prints it")
	}
	copy(out.root[:], root)
	for _, index := range slices.Sorted(maps.Keys(c.PCRs)) {
		n, values, err := readPin(index, c.PCRs[index])
		if err != nil {
			bad("pcrs %q: %w", index, err)
			continue
		}
		if known && slices.ContainsFunc(values, zero) && slices.Contains(p.never0, n) {
			bad("pcrs %q: zeros are an enclave in debug mode, which is never accepted", index)
		}
		out.pins[n] = values
	}
	if known && len(errs) == 0 && !c.RegisteredPCRs && !out.pinsWhole() {
		bad("pcrs pins none of %s, without which the rest can be made up; pin one, or set registered_pcrs: true and have runners register them", p.names())
	}
	if len(errs) > 0 {
		return checked{}, fmt.Errorf("attest/nitro %q: %w", c.Name, errors.Join(errs...))
	}
	return out, nil
}

// pinsWhole says whether a pin stands for all that was started.
func (c checked) pinsWhole() bool {
	return slices.ContainsFunc(c.whole, func(n uint8) bool {
		return len(c.pins[n]) > 0 && !slices.ContainsFunc(c.pins[n], untouched)
	})
}

func readPin(index string, values []string) (uint8, []string, error) {
	n, err := strconv.ParseUint(index, 10, 8)
	if err != nil || n > maxIndex || strconv.FormatUint(n, 10) != index {
		return 0, nil, fmt.Errorf("not the index of a register, 0 to %d", maxIndex)
	}
	if len(values) == 0 {
		return 0, nil, errors.New("list the values that are accepted")
	}
	out := make([]string, len(values))
	for i, v := range values {
		b, err := hex.DecodeString(v)
		if err != nil || !registerSize(len(b)) {
			return 0, nil, errors.New("a value is not 32, 48 or 64 bytes in hex")
		}
		out[i] = hex.EncodeToString(b)
	}
	return uint8(n), out, nil
}

// Decode reads the part of the configuration file that belongs to one instance. The
// caller sets Name and what is borrowed.
func Decode(raw json.RawMessage) (Config, error) { return attest.Decode[Config]("nitro", raw) }
