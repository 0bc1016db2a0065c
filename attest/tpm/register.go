package tpm

import (
	"fmt"
	"slices"
	"strings"
)

// names are the selectors, PCRs apart.
var names = []string{"ek", "ak", "ak_hierarchy", "reset_count", "restart_count"}

// known says whether a selector of this name can ever be there.
func known(name string) bool {
	index, isPCR := strings.CutPrefix(name, "pcr")
	if isPCR {
		_, err := parseIndex(index)
		return err == nil
	}
	return slices.Contains(names, name)
}

// CheckRegistration implements attest.Registrar: without ek or ak any TPM of the
// maker would fit, and without a PCR what runs on it would not matter where
// configuration leaves that to the runner.
func (a *Attestor) CheckRegistration(selectors map[string]string) error {
	if selectors["ek"] == "" && selectors["ak"] == "" {
		return fmt.Errorf("the attestor %s needs the selector ek (or ak) in every registration: any other TPM of the same maker would fit, too", a.cfg.Name)
	}
	for _, name := range a.cfg.Require {
		if selectors[name] == "" {
			return fmt.Errorf("the attestor %s needs the selector %s in every registration", a.cfg.Name, name)
		}
	}
	if !a.cfg.RegisteredPCRs {
		return nil
	}
	for i := range pcrCount {
		if tells(i, selectors[fmt.Sprintf("pcr%d", i)]) {
			return nil
		}
	}
	return fmt.Errorf("the attestor %s needs a selector of a PCR, such as pcr7, in every registration; 16 and 23 do not count, any software sets them back, nor do zeros or ones, which nothing was measured into", a.cfg.Name)
}

// SelectorNames implements attest.Selecting.
func (a *Attestor) SelectorNames() []string {
	out := slices.Clone(names)
	for i := range pcrCount {
		out = append(out, fmt.Sprintf("pcr%d", i))
	}
	return out
}
