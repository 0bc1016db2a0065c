package nitro_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/nitro"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	image, zeros := hex.EncodeToString(register("0")), strings.Repeat("00", 48)
	pins := func(index string, values ...string) func(*nitro.Config) {
		return func(c *nitro.Config) { c.PCRs = map[string][]string{index: values} }
	}
	tpm := func(index string, values ...string) func(*nitro.Config) {
		return func(c *nitro.Config) { c.Type = nitro.NitroTPM; pins(index, values...)(c) }
	}
	for name, tt := range map[string]struct {
		change func(*nitro.Config)
		want   string // "": no problem
	}{
		"as it is":                {func(*nitro.Config) {}, ""},
		"upper case":              {pins("0", strings.ToUpper(image)), ""},
		"the signer":              {pins("8", image, hex.EncodeToString(register("8"))), ""},
		"registered":              {func(c *nitro.Config) { c.PCRs, c.RegisteredPCRs = nil, true }, ""},
		"the root of AWS":         {func(c *nitro.Config) { c.RootSHA256 = nitro.RootG1 }, ""},
		"the boot manager":        {tpm("4", image), ""},
		"Secure Boot":             {tpm("7", image), ""},
		"no name":                 {func(c *nitro.Config) { c.Name = "" }, "name is empty"},
		"no type":                 {func(c *nitro.Config) { c.Type = "" }, "type is neither"},
		"another type":            {func(c *nitro.Config) { c.Type = "sev" }, "type is neither"},
		"no nonces":               {func(c *nitro.Config) { c.Nonces = nil }, "nonces are missing"},
		"another binding":         {func(c *nitro.Config) { c.Bind = "none" }, "bind is neither"},
		"too short":               {func(c *nitro.Config) { c.MaxAge = time.Second }, "max_age is not between"},
		"too long":                {func(c *nitro.Config) { c.MaxAge = 4 * time.Hour }, "max_age is not between"},
		"negative":                {func(c *nitro.Config) { c.MaxAge = -time.Minute }, "max_age is not between"},
		"a root of SHA-1":         {func(c *nitro.Config) { c.RootSHA256 = strings.Repeat("ab", 20) }, "root_sha256"},
		"a root of nothing":       {func(c *nitro.Config) { c.RootSHA256 = "zz" }, "root_sha256"},
		"nothing pinned":          {func(c *nitro.Config) { c.PCRs = nil }, "pcrs has none of pcr0 and pcr8"},
		"only the role":           {pins("3", image), "pcrs has none of pcr0 and pcr8"},
		"unsigned":                {pins("8", zeros), "pcrs has none of pcr0 and pcr8"},
		"signed or not":           {pins("8", image, zeros), "pcrs has none of pcr0 and pcr8"},
		"debug mode":              {pins("0", image, zeros), "debug mode"},
		"only what the OS writes": {tpm("11", image), "pcrs has none of pcr4 and pcr7"},
		"firmware alone":          {tpm("0", image), "pcrs has none of pcr4 and pcr7"},
		"register 32":             {pins("32", image), "not the index of a register"},
		"register 00":             {pins("00", image), "not the index of a register"},
		"register -1":             {pins("-1", image), "not the index of a register"},
		"by name":                 {pins("pcr0", image), "not the index of a register"},
		"no values":               {pins("0"), "list the values"},
		"a value of 33 bytes":     {pins("0", strings.Repeat("ab", 33)), "32, 48 or 64 bytes in hex"},
		"a value in base64":       {pins("0", "not hex"), "32, 48 or 64 bytes in hex"},
	} {
		c := nitro.Config{Name: "nitro", Type: nitro.Enclave, PCRs: map[string][]string{"0": {image}}, Nonces: newNonces(t, 1)}
		tt.change(&c)
		a, err := nitro.New(c)
		if tt.want == "" && (a == nil || err != nil) {
			t.Errorf("%s: %v", name, err)
		}
		if tt.want != "" && (a != nil || err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want an error with %q", name, err, tt.want)
		}
	}
	if _, err := nitro.New(nitro.Config{MaxAge: -1, RootSHA256: "x", Bind: "x"}); err == nil || strings.Count(err.Error(), "\n") < 5 {
		t.Errorf("got %v, want all problems at once", err)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	c, err := nitro.Decode([]byte(`{"type":"enclave","pcrs":{"0":["aa","bb"]},"registered_pcrs":true,"bind":"nonce","root_sha256":"cc","max_age":"1h"}`))
	if err != nil || c.Type != nitro.Enclave || len(c.PCRs["0"]) != 2 || !c.RegisteredPCRs || c.Bind != nitro.BindNonce || c.RootSHA256 != "cc" || c.MaxAge != time.Hour {
		t.Errorf("got %+v, %v", c, err)
	}
	for name, raw := range map[string]string{
		"unknown member": `{"type":"enclave","pcr":{}}`, "letter case": `{"Type":"enclave"}`, "duplicate": `{"type":"enclave","type":"nitrotpm"}`,
		"one value": `{"pcrs":{"0":"aa"}}`, "a register twice": `{"pcrs":{"0":["aa"],"0":["bb"]}}`, "a list": `{"pcrs":["aa"]}`,
		"duration": `{"max_age":"15"}`, "number": `{"max_age":15}`, "empty": ``, "array": `[]`,
	} {
		if _, err := nitro.Decode([]byte(raw)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestRootG1: the fingerprint is complete, and has the spelling that AWS publishes.
func TestRootG1(t *testing.T) {
	t.Parallel()
	b, err := hex.DecodeString(strings.ReplaceAll(nitro.RootG1, ":", ""))
	if err != nil || len(b) != sha256.Size || strings.ToUpper(nitro.RootG1) != nitro.RootG1 {
		t.Errorf("got %q", nitro.RootG1)
	}
}

func TestCheckRegistration(t *testing.T) {
	t.Parallel()
	image := hex.EncodeToString(register("0"))
	pinned := newFixture(t).a
	free := newFixture(t, func(c *nitro.Config) { c.PCRs, c.RegisteredPCRs = nil, true }).a
	both := newFixture(t, func(c *nitro.Config) { c.RegisteredPCRs = true }).a
	for name, tt := range map[string]struct {
		a         *nitro.Attestor
		selectors map[string]string
		want      string
	}{
		"the enclave":           {pinned, map[string]string{"module_id": enclaveID}, ""},
		"the instance":          {pinned, map[string]string{"instance_id": instanceID}, ""},
		"both and an image":     {free, map[string]string{"instance_id": instanceID, "pcr0": image}, ""},
		"pinned and registered": {both, map[string]string{"instance_id": instanceID}, ""},
		"an image alone":        {pinned, map[string]string{"pcr0": image}, "add module_id or instance_id"},
		"nothing":               {pinned, nil, "add module_id or instance_id"},
		"no image":              {free, map[string]string{"module_id": enclaveID}, "add one of pcr0 and pcr8"},
		"only the kernel":       {free, map[string]string{"module_id": enclaveID, "pcr1": image}, "add one of pcr0 and pcr8"},
		"upper case":            {free, map[string]string{"module_id": enclaveID, "pcr0": strings.ToUpper(image)}, "pcr0 is not a register"},
		"zeros":                 {free, map[string]string{"module_id": enclaveID, "pcr0": strings.Repeat("0", 96)}, "pcr0 is not a register"},
		"ones":                  {free, map[string]string{"module_id": enclaveID, "pcr0": image, "pcr31": strings.Repeat("f", 96)}, "pcr31 is not a register"},
		"a cut one":             {free, map[string]string{"module_id": enclaveID, "pcr0": image[:95]}, "pcr0 is not a register"},
	} {
		err := tt.a.CheckRegistration(tt.selectors)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}
