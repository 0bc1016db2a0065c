package nitro

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"

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

// profile is what differs between the types of document.
type profile struct {
	// whole registers stand for all that was started; whoever starts something else
	// can fill the other ones as they like.
	whole []uint8
	// never0 are zero in debug mode alone, where the parent reads the enclave's console.
	never0 []uint8
	// instance is the form of module_id.
	instance *regexp.Regexp
}

var profiles = map[string]profile{
	// 0 is the image file, 8 the certificate that signed it.
	Enclave: {whole: []uint8{0, 8}, never0: []uint8{0, 1, 2}, instance: regexp.MustCompile(`^(i-[0-9a-f]{8,17})-enc[0-9a-f]{1,32}$`)},
	// 4 is the boot manager (a whole unified kernel image), 7 the Secure Boot policy.
	NitroTPM: {whole: []uint8{4, 7}, instance: regexp.MustCompile(`^(i-[0-9a-f]{8,17})-tpm[0-9a-f]{1,32}$`)},
}

// names are the selectors of the whole registers, for people.
func (p profile) names() string {
	names := make([]string, len(p.whole))
	for i, n := range p.whole {
		names[i] = register(n)
	}
	return strings.Join(names, " and ")
}

func register(n uint8) string { return fmt.Sprintf("pcr%d", n) }

// registerSize: SHA-256, SHA-384 or SHA-512.
func registerSize(n int) bool { return n == 32 || n == 48 || n == 64 }

// zero says whether a register in hex is what debug mode leaves in it.
func zero(value string) bool { return strings.Trim(value, "0") == "" }

// untouched says whether nothing was measured into a register in hex: those of the
// dynamic root of trust (17 to 22 of a TPM) start with ones.
func untouched(value string) bool { return zero(value) || strings.Trim(value, "f") == "" }

// measured compares the registers with what is pinned.
func (c checked) measured(registers map[uint8]cbor.ByteString) (map[uint8]string, error) {
	values := make(map[uint8]string, len(registers))
	for n, v := range registers {
		values[n] = hex.EncodeToString(v.Bytes())
	}
	for _, n := range c.never0 {
		if zero(values[n]) {
			return nil, attest.Reject(attest.ReasonMeasurement, "the enclave runs in debug mode: others can read what is in it", fmt.Errorf("%s is zero or absent", register(n)))
		}
	}
	for _, n := range slices.Sorted(maps.Keys(c.pins)) {
		if !slices.Contains(c.pins[n], values[n]) {
			return nil, attest.Reject(attest.ReasonMeasurement, "what was started is not what is allowed: a register has another value", fmt.Errorf("%s is %q", register(n), values[n]))
		}
	}
	return values, nil
}

// selectors leaves out registers that nothing was measured into: they tell nothing.
func (c checked) selectors(moduleID string, values map[uint8]string) map[string]string {
	out := map[string]string{"module_id": moduleID}
	if m := c.instance.FindStringSubmatch(moduleID); m != nil {
		out["instance_id"] = m[1]
	}
	for n, v := range values {
		if !untouched(v) {
			out[register(n)] = v
		}
	}
	return out
}

var _ attest.Challenger = (*Attestor)(nil)

var _ attest.Registrar = (*Attestor)(nil)

// CheckRegistration implements attest.Registrar. Registers are the same wherever
// an image is started, by whomever: a registration names the instance, too.
func (a *Attestor) CheckRegistration(selectors map[string]string) error {
	if selectors["module_id"] == "" && selectors["instance_id"] == "" {
		return fmt.Errorf("attest/nitro %q: add module_id or instance_id: whoever has the image can start it elsewhere", a.cfg.Name)
	}
	whole := func(n uint8) bool { return selectors[register(n)] != "" }
	if a.cfg.RegisteredPCRs && !a.pinsWhole() && !slices.ContainsFunc(a.whole, whole) {
		return fmt.Errorf("attest/nitro %q: add one of %s: nothing else says what was started", a.cfg.Name, a.names())
	}
	for n := range uint8(maxIndex + 1) {
		v, registered := selectors[register(n)]
		if !registered {
			continue
		}
		b, err := hex.DecodeString(v)
		if err != nil || !registerSize(len(b)) || v != strings.ToLower(v) || untouched(v) {
			return fmt.Errorf("attest/nitro %q: %s is not a register in lower-case hex, or one that nothing was measured into: it fits no sandbox", a.cfg.Name, register(n))
		}
	}
	return nil
}

// SelectorNames implements attest.Selecting.
func (a *Attestor) SelectorNames() []string {
	names := []string{"module_id", "instance_id"}
	for n := range uint8(maxIndex + 1) {
		names = append(names, register(n))
	}
	return names
}
