package tpm_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/tpm"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

var measured = strings.Repeat("a7", 32)

func TestDecode(t *testing.T) {
	t.Parallel()
	c, err := tpm.Decode(json.RawMessage(`{"roots":["a.pem"],"intermediates":["b.pem"],"pcrs":{"7":["` + zeros + `"]},"registered_pcrs":true,"require":["reset_count"],"max_age":"30m"}`))
	if err != nil || c.Roots[0] != "a.pem" || c.Intermediates[0] != "b.pem" || c.PCRs["7"][0] != zeros || !c.RegisteredPCRs || c.Require[0] != "reset_count" || c.MaxAge != 30*time.Minute {
		t.Errorf("got %+v, %v", c, err)
	}
	for _, text := range []string{`{"root":["a"]}`, `{"Roots":["a"]}`, `{"roots":["a"],"roots":["b"]}`, `{"max_age":"soon"}`, `{"max_age":3600}`, `{"pcrs":["7"]}`, `[]`, ``, `{} {}`} {
		if _, err := tpm.Decode(json.RawMessage(text)); err == nil {
			t.Errorf("%s: accepted", text)
		}
	}
}

// TestConfig: all problems are reported at once.
func TestConfig(t *testing.T) {
	t.Parallel()
	_, err := tpm.New(tpm.Config{PCRs: map[string][]string{"07": {zeros}, "24": {zeros}, "1": {}, "2": {strings.ToUpper(zeros[:62] + "aa")}, "x": {"y"}},
		Require: []string{"pcr24", "uid"}, MaxAge: time.Second})
	for _, want := range []string{"name is empty", "nonces", "roots is empty", `"07"`, `"24"`, `"1": list the allowed values`, `"2"`, `"x"`, `"pcr24"`, `"uid"`, "max_age"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %s: %v", want, err)
		}
	}
	for name, tc := range map[string]struct {
		change func(*tpm.Config)
		want   string
	}{
		"nothing pinned":      {func(c *tpm.Config) { c.PCRs = nil }, "registered_pcrs"},
		"resettable alone":    {func(c *tpm.Config) { c.PCRs = map[string][]string{"16": {measured}, "23": {measured}} }, "registered_pcrs"},
		"zeros alone":         {func(c *tpm.Config) { c.PCRs = map[string][]string{"0": {zeros}, "7": {zeros}} }, "registered_pcrs"},
		"zeros or a value":    {func(c *tpm.Config) { c.PCRs = map[string][]string{"7": {measured, zeros}} }, "registered_pcrs"},
		"ones alone":          {func(c *tpm.Config) { c.PCRs = map[string][]string{"17": {strings.Repeat("f", 64)}} }, "registered_pcrs"},
		"zeros and a value":   {func(c *tpm.Config) { c.PCRs["0"] = []string{zeros} }, ""},
		"resettable and more": {func(c *tpm.Config) { c.PCRs["16"] = []string{zeros} }, ""},
		"by registration":     {func(c *tpm.Config) { c.PCRs, c.RegisteredPCRs = nil, true }, ""},
		"an empty root":       {func(c *tpm.Config) { c.Roots = []string{""} }, "roots"},
		"too old":             {func(c *tpm.Config) { c.MaxAge = 25 * time.Hour }, "max_age"},
		"negative":            {func(c *tpm.Config) { c.MaxAge = -time.Hour }, "max_age"},
	} {
		c := tpm.Config{Name: "x", Roots: []string{"a.pem"}, Nonces: newNonces(1), PCRs: map[string][]string{"7": {measured}}}
		tc.change(&c)
		if a, err := tpm.New(c); (err == nil) != (tc.want == "") || err != nil && (a != nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRegistration(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	strict := f.open(t, func(c *tpm.Config) { c.PCRs, c.RegisteredPCRs, c.Require = nil, true, []string{"reset_count"} })
	for name, tc := range map[string]struct {
		a          *tpm.Attestor
		registered map[string]string
		want       string
	}{
		"any TPM of the maker": {f.Attestor, map[string]string{"pcr7": zeros, "reset_count": "3"}, "selector ek"},
		"ek":                   {f.Attestor, map[string]string{"ek": "x"}, ""},
		"ak":                   {f.Attestor, map[string]string{"ak": "x"}, ""},
		"any boot":             {strict, map[string]string{"ek": "x", "pcr7": measured}, "reset_count"},
		"any software":         {strict, map[string]string{"ek": "x", "reset_count": "3"}, "pcr7"},
		"resettable alone":     {strict, map[string]string{"ek": "x", "reset_count": "3", "pcr16": measured}, "pcr7"},
		"nothing measured":     {strict, map[string]string{"ek": "x", "reset_count": "3", "pcr4": zeros}, "pcr7"},
		"all":                  {strict, map[string]string{"ek": "x", "reset_count": "3", "pcr4": measured}, ""},
	} {
		if err := tc.a.CheckRegistration(tc.registered); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFIPSMode: there is no AES-CFB, by which a TPM's credential is protected.
//
//ebb:invariant I6 With `GODEBUG=fips140=only`, an attestor of kind `tpm` is refused
func TestFIPSMode(t *testing.T) {
	if !counterpart.FIPSOnly(t) {
		return
	}
	_, err := tpm.New(tpm.Config{Name: "x", Roots: []string{"a.pem"}, Nonces: newNonces(1), PCRs: map[string][]string{"7": {measured}}})
	if err == nil || !strings.Contains(err.Error(), "AES in CFB mode") || !strings.Contains(err.Error(), "GODEBUG=fips140=only") {
		t.Errorf("got %v", err)
	}
}
