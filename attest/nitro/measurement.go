package nitro

import (
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/ebb-broker/ebb/attest"
)

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
