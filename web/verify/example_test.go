package verify_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/verify"
)

// A resource server puts its handler behind Middleware. It also serves v.Metadata() at v.MetadataPath(), and runs v.Run
// in a goroutine: that follows the revocation feed, without which every token is refused with 503.
func ExampleVerifier_Middleware() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader) // in reality, the registered key of the resource server
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := verify.New(verify.Config{
		Issuer:        "https://ebb.example",
		Resource:      "https://orders.example/api",
		ClientID:      "orders",
		Key:           key,
		RequireScopes: func(*http.Request) (scopes.Set, error) { return scopes.ParseSet("orders:eu/42:read") },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	app := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "order 42") })
	w := httptest.NewRecorder()
	v.Middleware(app).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "https://orders.example/api/orders/eu/42", nil))
	fmt.Println(w.Code)
	fmt.Println(w.Header().Get("WWW-Authenticate"))
	// Output:
	// 401
	// DPoP realm="https://orders.example/api", algs="ES256 EdDSA Ed25519", resource_metadata="https://orders.example/.well-known/oauth-protected-resource/api"
}
