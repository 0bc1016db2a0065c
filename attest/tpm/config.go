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
	// Intermediates are PEM files of CAs below the roots, for TPMs that do not store the
	// path of their certificate.
	Intermediates []string `json:"intermediates"`
	// PCRs maps the decimal index of a PCR to its allowed values in the SHA-256 bank, in
	// lower-case hex. Every listed PCR must be in the quote.
	PCRs map[string][]string `json:"pcrs"`
	// RegisteredPCRs requires a PCR value in each registration, so that runners choose the
	// values. Required when PCRs is empty.
	RegisteredPCRs bool `json:"registered_pcrs"`
	// Require names selectors that every registration must have, beside ek or ak.
	Require []string `json:"require"`
	// MaxAge is how long an identity from a quote is valid. Default 1 h, at least 1 m, at
	// most 24 h.
	MaxAge time.Duration `json:"max_age"`

	// Nonces issues the nonces of challenges. Required.
	Nonces *attest.Nonces `json:"-"`
	// Now defaults to time.Now. Logger defaults to discarding.
	Now    func() time.Time `json:"-"`
	Logger *slog.Logger     `json:"-"`
}

const (
	defaultAge = time.Hour
	minAge     = attest.NonceLife
	maxAge     = 24 * time.Hour
)

// check fills in the defaults, parses the PCRs and returns all problems joined.
func (c *Config) check() (map[int][][]byte, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Name == "" {
		bad("name is empty")
	}
	if fips140.Enforced() {
		bad("kind tpm needs AES in CFB mode (TPM 2.0 Library Part 1, credential protection), which GODEBUG=fips140=only forbids; remove this attestor from the configuration, or run ebb with GODEBUG=fips140=on")
	}
	if c.Nonces == nil {
		bad("nonces are missing; the evidence answers a challenge")
	}
	if len(c.Roots) == 0 || slices.Contains(c.Roots, "") || slices.Contains(c.Intermediates, "") {
		bad("roots is empty; name PEM files with the CA certificates of the TPMs' manufacturers")
	}
	pinned := map[int][][]byte{}
	for _, index := range slices.Sorted(maps.Keys(c.PCRs)) {
		i, err := parseIndex(index)
		if err != nil {
			bad("pcrs %q: %w", index, err)
		}
		if len(c.PCRs[index]) == 0 {
			bad("pcrs %q: list the allowed values", index)
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
		bad("pcrs has no value that identifies the started software (PCRs 16 and 23 can be reset by any software, and only zeros or ones are initial values); add a PCR, or set registered_pcrs: true, so that runners register PCRs")
	}
	for _, name := range c.Require {
		if !known(name) {
			bad("require: %q is not a selector of this kind", name)
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

// pinsWhatCounts reports whether, for at least one PCR, every allowed value is a real
// measurement; see tells.
func (c *Config) pinsWhatCounts() bool {
	for index, values := range c.PCRs {
		i, err := parseIndex(index)
		if err == nil && len(values) > 0 && !slices.ContainsFunc(values, func(v string) bool { return !tells(i, v) }) {
			return true
		}
	}
	return false
}

// Decode decodes the configuration of one instance from the configuration file. The caller
// then sets the members without a JSON name.
func Decode(raw json.RawMessage) (Config, error) { return attest.Decode[Config]("tpm", raw) }

// names are the names of the selectors other than PCRs.
var names = []string{"ek", "ak", "ak_hierarchy", "reset_count", "restart_count"}

// known reports whether an identity can have a selector of this name.
func known(name string) bool {
	index, isPCR := strings.CutPrefix(name, "pcr")
	if isPCR {
		_, err := parseIndex(index)
		return err == nil
	}
	return slices.Contains(names, name)
}

// CheckRegistration implements attest.Registrar. Without ek or ak, a registration would
// match every TPM of the same manufacturer. Without a PCR, when the configuration leaves
// PCRs to the runner, it would match any software on that TPM.
func (a *Attestor) CheckRegistration(selectors map[string]string) error {
	if selectors["ek"] == "" && selectors["ak"] == "" {
		return fmt.Errorf("the attestor %s needs the selector ek (or ak) in every registration: without it every TPM of the same manufacturer would match", a.cfg.Name)
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
	return fmt.Errorf("the attestor %s needs a selector of a PCR, such as pcr7, in every registration; PCRs 16 and 23 do not count, because any software can reset them, and neither do values of only zeros or ones, which are the initial values", a.cfg.Name)
}

// SelectorNames implements attest.Selecting.
func (a *Attestor) SelectorNames() []string {
	out := slices.Clone(names)
	for i := range pcrCount {
		out = append(out, fmt.Sprintf("pcr%d", i))
	}
	return out
}
