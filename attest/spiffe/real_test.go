package spiffe_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/spiffe"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// TestRealSPIRE: the attestor accepts the SVIDs that a real SPIRE issues to this process, with each
// source of the trust bundle. It refuses those for another audience.
func TestRealSPIRE(t *testing.T) {
	t.Parallel()
	dir := counterpart.Need(t, "EBB_TEST_SPIRE")
	endpoint, err := os.ReadFile(filepath.Join(dir, "endpoint"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := workloadapi.New(t.Context(), workloadapi.WithAddr("unix://"+filepath.Join(dir, "agent.sock")))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // test
	cert, err := client.FetchX509SVID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	jwt := func(audience string, more ...string) attest.Evidence {
		t.Helper()
		s, err := client.FetchJWTSVID(t.Context(), jwtsvid.Params{Audience: audience, ExtraAudiences: more})
		if err != nil {
			t.Fatal(err)
		}
		return document(t, s.Marshal())
	}
	for name, d := range map[string]spiffe.TrustDomain{
		"workload_api": {WorkloadAPI: "unix://" + filepath.Join(dir, "agent.sock")},
		"bundle_file":  {BundleFile: filepath.Join(dir, "bundle.json")},
		"https_spiffe": {HTTPSSPIFFE: strings.TrimSpace(string(endpoint)), EndpointID: "spiffe://sbx.test/spire/server", EndpointBundleFile: filepath.Join(dir, "bundle.json")},
	} {
		d.Allow = []string{"/sandbox/*"}
		a := open(t, spiffe.Config{Name: "boxes", Audience: aud, TrustDomains: map[string]spiffe.TrustDomain{"sbx.test": d}})
		for what, e := range map[string]attest.Evidence{"JWT-SVID": jwt(aud), "X.509-SVID": shows(t, raw(cert))} {
			id, err := a.Attest(t.Context(), e)
			if err != nil || id.Subject != "spiffe://sbx.test/sandbox/42" || id.NotAfter.IsZero() {
				t.Errorf("%s, %s: got %+v, %v", name, what, id, err)
			}
		}
		for what, e := range map[string]attest.Evidence{"another audience": jwt(aud + "/"), "two audiences": jwt(aud, "https://other.example")} {
			if _, err := a.Attest(t.Context(), e); !errors.Is(err, attest.ErrRejected) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		d.Allow = []string{"/sandbox/4", "/sandbox/42/**"}
		a = open(t, spiffe.Config{Name: "boxes", Audience: aud, TrustDomains: map[string]spiffe.TrustDomain{"sbx.test": d}})
		if _, err := a.Attest(t.Context(), jwt(aud)); !errors.Is(err, attest.ErrRejected) {
			t.Errorf("%s, a path that is not accepted: %v", name, err)
		}
		d.Allow, d.EndpointID = []string{"/**"}, strings.Replace(d.EndpointID, "spire/server", "sandbox/42", 1)
		if d.HTTPSSPIFFE == "" {
			continue
		}
		a = open(t, spiffe.Config{Name: "boxes", Audience: aud, TrustDomains: map[string]spiffe.TrustDomain{"sbx.test": d}})
		if _, err := a.Attest(t.Context(), jwt(aud)); err == nil || errors.Is(err, attest.ErrRejected) {
			t.Errorf("%s with another ID pinned: %v", name, err)
		}
	}
}

func raw(s *x509svid.SVID) [][]byte {
	var out [][]byte
	for _, c := range s.Certificates {
		out = append(out, c.Raw)
	}
	return out
}
