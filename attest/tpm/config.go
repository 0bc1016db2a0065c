package tpm

import (
	"crypto/fips140"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest"
)

// Config configures one attestor.
type Config struct {
	// Name of the instance. Required.
	Name string `json:"-"`
	// Roots are PEM files of the CAs that certify EKs. At least one is required.
	Roots []string `json:"roots"`
	// Intermediates are PEM files of CAs below them, for TPMs that do not hold the
	// path of their certificate.
	Intermediates []string `json:"intermediates"`
	// PCRs are the values, lower-case hex of the SHA-256 bank, that are allowed by
	// decimal index. Each of these PCRs must be quoted.
	PCRs map[string][]string `json:"pcrs"`
	// RegisteredPCRs leaves PCR values to the runners: each registration then needs
	// one. Required when PCRs pins nothing.
	RegisteredPCRs bool `json:"registered_pcrs"`
	// Require names selectors that every registration must have, beside ek or ak.
	Require []string `json:"require"`
	// MaxAge is how long a quote vouches. Default 1 h, at least 1 m, at most 24 h.
	MaxAge time.Duration `json:"max_age"`

	// Nonces are the broker's. Required.
	Nonces *attest.Nonces `json:"-"`
	// Now is the clock, nil = time.Now. Logger: nil = discard.
	Now    func() time.Time `json:"-"`
	Logger *slog.Logger     `json:"-"`
}

const (
	defaultAge = time.Hour
	minAge     = attest.NonceLife
	maxAge     = 24 * time.Hour
)

// check reports all problems at once, fills in the defaults and reads the PCRs.
func (c *Config) check() (map[int][][]byte, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Name == "" {
		bad("name is empty")
	}
	if fips140.Enforced() {
		bad("kind tpm needs AES in CFB mode (TPM 2.0 Library Part 1, credential protection), which GODEBUG=fips140=only forbids; take this attestor out of the configuration, or run ebb with GODEBUG=fips140=on")
	}
	if c.Nonces == nil {
		bad("nonces are missing: evidence answers a challenge")
	}
	if len(c.Roots) == 0 || slices.Contains(c.Roots, "") || slices.Contains(c.Intermediates, "") {
		bad("roots is empty; name PEM files with the CA certificates of the TPMs' makers")
	}
	pinned := map[int][][]byte{}
	for _, index := range slices.Sorted(maps.Keys(c.PCRs)) {
		i, err := parseIndex(index)
		if err != nil {
			bad("pcrs %q: %w", index, err)
		}
		if len(c.PCRs[index]) == 0 {
			bad("pcrs %q: name the values that are allowed", index)
		}
		for _, text := range c.PCRs[index] {
			v, err := parseValue(text)
			if err != nil {
				bad("pcrs %q: %w", index, err)
			}
			pinned[i] = append(pinned[i], v)
		}
	}
	if !c.RegisteredPCRs && !c.pinsWhatCounts() {
		bad("pcrs pins nothing that counts (16 and 23 are set back by any software, zeros or ones are PCRs that nothing was measured into); pin one, or set registered_pcrs: true and have runners register them")
	}
	for _, name := range c.Require {
		if !known(name) {
			bad("require: %q is no selector of this kind", name)
		}
	}
	if c.MaxAge == 0 {
		c.MaxAge = defaultAge
	}
	if c.MaxAge < minAge || c.MaxAge > maxAge {
		bad("max_age is not between %s and %s", minAge, maxAge)
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("attest/tpm %q: %w", c.Name, errors.Join(errs...))
	}
	return pinned, nil
}

// pinsWhatCounts says whether all values that are allowed of some PCR tell something.
func (c *Config) pinsWhatCounts() bool {
	for index, values := range c.PCRs {
		i, err := parseIndex(index)
		if err == nil && len(values) > 0 && !slices.ContainsFunc(values, func(v string) bool { return !tells(i, v) }) {
			return true
		}
	}
	return false
}

// Decode reads the part of the configuration file that belongs to one instance. The
// caller sets Name and what is borrowed.
func Decode(raw json.RawMessage) (Config, error) { return attest.Decode[Config]("tpm", raw) }

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
