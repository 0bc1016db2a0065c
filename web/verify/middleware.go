package verify

import "net/http"

// Middleware calls next only for requests that Verify accepts. It must see the
// path as the client sent it: put it outside of http.StripPrefix.
func (v *Verifier) Middleware(next http.Handler) http.Handler {
	return v.Handler(func(w http.ResponseWriter, r *http.Request, _ *Token) { next.ServeHTTP(w, r) })
}

// Handler is Middleware for a handler that needs the token.
func (v *Verifier) Handler(next func(http.ResponseWriter, *http.Request, *Token)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t, err := v.Verify(r)
		if err != nil {
			v.WriteError(w, err)
			return
		}
		v.offerNonce(w)
		next(w, r, t)
	})
}

// offerNonce sends the next nonce before the old one expires (RFC 9449 section
// 8.2).
func (v *Verifier) offerNonce(w http.ResponseWriter) {
	if n := v.nonce(); n != "" {
		w.Header().Set("DPoP-Nonce", n)
	}
}
