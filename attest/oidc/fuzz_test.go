package oidc_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/oidc"
)

// FuzzSubject checks that a subject which matches a shape equals the shape with its
// names replaced by the values that were read.
func FuzzSubject(f *testing.F) {
	const shape = "spiffe://id.e2b.dev/prj-acme/<sandbox_id>/<execution_id>"
	for _, s := range []string{"spiffe://id.e2b.dev/prj-acme/s/x", "spiffe://id.e2b.dev/prj-acme//x", "spiffe://id.e2b.dev/prj-acme/<sandbox_id>/<execution_id>", "", "////"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		got, err := oidc.ReadShape(shape, subject)
		if err != nil {
			return
		}
		again := "spiffe://id.e2b.dev/prj-acme/" + got["sandbox_id"] + "/" + got["execution_id"]
		if again != subject || len(got) != 2 || got["sandbox_id"] == "" || got["execution_id"] == "" || strings.Contains(got["sandbox_id"]+got["execution_id"], "/") {
			t.Errorf("%q was read as %q", subject, got)
		}
	})
}

// FuzzRequired checks with arbitrary JSON in a required claim that only the required
// string or boolean is accepted.
func FuzzRequired(f *testing.F) {
	for _, s := range []string{`"true"`, `true`, `"TRUE"`, `["true"]`, `1`, `null`, `{"true":true}`, `"true\u0000"`, `" true"`, `"tr\u0075e"`} {
		f.Add([]byte(s))
	}
	g := readGolden(f, "gitlab")
	a := newVendor(f, g).open(nil)
	f.Fuzz(func(t *testing.T, value []byte) {
		var v any
		if json.Unmarshal(value, &v) != nil {
			return
		}
		id, err := a.Attest(t.Context(), newVendor(t, g).evidence(object{"ref_protected": json.RawMessage(value)}))
		if (err == nil) != (v == "true" || v == true) {
			t.Errorf("%s: got %v, %v", value, id.Selectors["ref_protected"], err)
		}
		if err != nil && !errors.Is(err, attest.ErrRejected) {
			t.Errorf("%s: %v", value, err)
		}
	})
}
