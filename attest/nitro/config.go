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

	"github.com/fxamacker/cbor/v2"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
)

// RootG1 is the SHA-256 of the DER of the AWS Nitro Enclaves root certificate G1 of the
// commercial partitions, in the form in which AWS publishes it (verify-root.html).
const RootG1 = "64:1A:03:21:A3:E2:44:EF:E4:56:46:31:95:D6:06:31:7E:D7:CD:CC:3C:17:56:E0:98:93:F3:C6:8F:79:BB:5B"

// The two types of document.
const (
	Enclave  = "enclave"
	NitroTPM = "nitrotpm"
)

// The member of a document that binds it to the key of the request.
const (
	BindUserData = "user_data"
	BindNonce    = "nonce"
)

// Config configures one instance.
type Config struct {
	// Name of the instance. Required.
	Name string `json:"-"`
	// Type is Enclave or NitroTPM. Required; documents of the other type are refused.
	Type string `json:"type"`
	// PCRs maps the index of a register to its allowed values in hex. The document must have
	// each listed register, with one of its values.
	PCRs map[string][]string `json:"pcrs"`
	// RegisteredPCRs requires that each runner registers registers as selectors. It must be
	// true when PCRs is empty.
	RegisteredPCRs bool `json:"registered_pcrs"`
	// Bind is BindUserData (default) or BindNonce. See the package comment.
	Bind string `json:"bind"`
	// RootSHA256 is the fingerprint of the root. Default RootG1.
	RootSHA256 string `json:"root_sha256"`
	// MaxAge is how long an identity is valid, from its challenge on: 1 m to 3 h, default 15
	// m. An earlier expiry of a certificate shortens it.
	MaxAge time.Duration `json:"max_age"`

	// Nonces issues the nonces of challenges. Required.
	Nonces *attest.Nonces `json:"-"`
	// Now defaults to time.Now.
	Now func() time.Time `json:"-"`
}

const (
	defaultMaxAge = 15 * time.Minute
	maxMaxAge     = 3 * time.Hour // the maximum lifetime of a leaf certificate
)

// checked has the parsed settings of a Config.
type checked struct {
	profile
	pins map[uint8][]string
	root [sha256.Size]byte
}

// check fills in the defaults and returns all problems joined.
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
		bad("nonces are missing; the evidence answers a challenge")
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
		bad("pcrs has none of %s, and without one of them an attacker can choose the other values; add one, or set registered_pcrs: true, so that runners register registers", p.names())
	}
	if len(errs) > 0 {
		return checked{}, fmt.Errorf("attest/nitro %q: %w", c.Name, errors.Join(errs...))
	}
	return out, nil
}

// pinsWhole reports whether a pinned register covers everything that was started.
func (c checked) pinsWhole() bool {
	return slices.ContainsFunc(c.whole, func(n uint8) bool {
		return len(c.pins[n]) > 0 && !slices.ContainsFunc(c.pins[n], untouched)
	})
}

func readPin(index string, values []string) (uint8, []string, error) {
	n, err := strconv.ParseUint(index, 10, 8)
	if err != nil || n > maxIndex || strconv.FormatUint(n, 10) != index {
		return 0, nil, fmt.Errorf("the text is not the index of a register from 0 to %d", maxIndex)
	}
	if len(values) == 0 {
		return 0, nil, errors.New("list the values that are accepted")
	}
	out := make([]string, len(values))
	for i, v := range values {
		b, err := hex.DecodeString(v)
		if err != nil || !registerSize(len(b)) {
			return 0, nil, errors.New("a value does not have 32, 48 or 64 bytes in hex")
		}
		out[i] = hex.EncodeToString(b)
	}
	return uint8(n), out, nil
}

// Decode decodes the configuration of one instance from the configuration file. The caller
// then sets the members without a JSON name.
func Decode(raw json.RawMessage) (Config, error) { return attest.Decode[Config]("nitro", raw) }

// profile has the differences between the types of document.
type profile struct {
	// whole are the registers that cover everything that was started. An attacker who starts
	// other software can choose the values of all other registers.
	whole []uint8
	// never0 are zero only in debug mode, in which the parent instance can read the
	// enclave's console.
	never0 []uint8
	// instance matches module_id.
	instance *lazyregexp.Regexp
}

var profiles = map[string]profile{
	// 0 is the image file, 8 the certificate that signed it.
	Enclave: {whole: []uint8{0, 8}, never0: []uint8{0, 1, 2}, instance: lazyregexp.New(`^(i-[0-9a-f]{8,17})-enc[0-9a-f]{1,32}$`)},
	// 4 is the boot manager (a whole unified kernel image), 7 the Secure Boot policy.
	NitroTPM: {whole: []uint8{4, 7}, instance: lazyregexp.New(`^(i-[0-9a-f]{8,17})-tpm[0-9a-f]{1,32}$`)},
}

// names returns the selector names of the whole registers, for messages.
func (p profile) names() string {
	names := make([]string, len(p.whole))
	for i, n := range p.whole {
		names[i] = register(n)
	}
	return strings.Join(names, " and ")
}

func register(n uint8) string { return fmt.Sprintf("pcr%d", n) }

// registerSize reports whether n is the size of a SHA-256, SHA-384 or SHA-512.
func registerSize(n int) bool { return n == 32 || n == 48 || n == 64 }

// zero reports whether a register in hex is all zeros, as in debug mode.
func zero(value string) bool { return strings.Trim(value, "0") == "" }

// untouched reports whether a register in hex has its initial value. Registers of the
// dynamic root of trust (17 to 22 of a TPM) start as ones, all others as zeros.
func untouched(value string) bool { return zero(value) || strings.Trim(value, "f") == "" }

// measured compares the registers with the pinned values and returns them in hex.
func (c checked) measured(registers map[uint8]cbor.ByteString) (map[uint8]string, error) {
	values := make(map[uint8]string, len(registers))
	for n, v := range registers {
		values[n] = hex.EncodeToString(v.Bytes())
	}
	for _, n := range c.never0 {
		if zero(values[n]) {
			return nil, attest.Reject(attest.ReasonMeasurement, "the enclave runs in debug mode, in which its parent instance can read its console; start it without debug mode", fmt.Errorf("%s is zero or absent", register(n)))
		}
	}
	for _, n := range slices.Sorted(maps.Keys(c.pins)) {
		if !slices.Contains(c.pins[n], values[n]) {
			return nil, attest.Reject(attest.ReasonMeasurement, "a register has a value that is not allowed, so the enclave or instance was started from other software", fmt.Errorf("%s is %q", register(n), values[n]))
		}
	}
	return values, nil
}

// selectors returns the selectors. Registers with their initial value are left out, because
// they identify nothing.
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

// CheckRegistration implements attest.Registrar. Registers have the same values wherever an
// image is started and in any account, so a registration must also name the instance.
func (a *Attestor) CheckRegistration(selectors map[string]string) error {
	if selectors["module_id"] == "" && selectors["instance_id"] == "" {
		return fmt.Errorf("attest/nitro %q: add module_id or instance_id, because an attacker with the image can start it on another instance", a.cfg.Name)
	}
	whole := func(n uint8) bool { return selectors[register(n)] != "" }
	if a.cfg.RegisteredPCRs && !a.pinsWhole() && !slices.ContainsFunc(a.whole, whole) {
		return fmt.Errorf("attest/nitro %q: add one of %s, because only these registers identify the started software", a.cfg.Name, a.names())
	}
	for n := range uint8(maxIndex + 1) {
		v, registered := selectors[register(n)]
		if !registered {
			continue
		}
		b, err := hex.DecodeString(v)
		if err != nil || !registerSize(len(b)) || v != strings.ToLower(v) || untouched(v) {
			return fmt.Errorf("attest/nitro %q: %s is not a register value in lower-case hex, or is an initial value, so it matches no sandbox", a.cfg.Name, register(n))
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
