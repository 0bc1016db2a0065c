package jose

import "strings"

// inToken68 marks the bytes that a token68 may contain before its padding.
var inToken68 = func() (in [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/") {
		in[c] = true
	}
	return in
}()

// IsToken68 reports whether s is a token68 (RFC 9110 section 11.2), the b64token of RFC 6750 section 2.1.
func IsToken68(s string) bool {
	body := strings.TrimRight(s, "=")
	for i := range len(body) {
		if !inToken68[body[i]] {
			return false
		}
	}
	return body != ""
}
