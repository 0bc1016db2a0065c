package nitro

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/attest"
)

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
