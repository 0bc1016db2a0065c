package gcp

import (
	"net/http"
	"testing"
)

// TestNoProxyForTheMetadataServer: the metadata server has no certificate. A proxy from the
// environment must neither answer in its place nor receive the broker's own token.
func TestNoProxyForTheMetadataServer(t *testing.T) {
	t.Parallel()
	d, err := New("gcp", Config{Metadata: true, Grants: map[string]map[string]Account{
		"x": {"read": {ServiceAccount: "a@p.iam.gserviceaccount.com", Scopes: []string{"https://www.googleapis.com/auth/bigquery.readonly"}}},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if tr, ok := d.direct.Transport.(*http.Transport); !ok || tr.Proxy != nil {
		t.Error("a proxy comes between")
	}
}
