package dpop

import "strings"

// normalHTU brings a URL to the form in which htu is compared (RFC 9449,
// section 4.3, step 9): scheme and host in lower case, default port, query and
// fragment dropped, the empty path as "/". The path stays byte for byte: "%2e"
// is not ".", and "//" is not "/". ok is false for what is not an absolute http
// or https URL without user information.
func normalHTU(raw string) (norm string, ok bool) {
	if len(raw) > 4096 {
		return "", false
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] <= 0x20 || raw[i] > 0x7e || raw[i] == '\\' {
			return "", false
		}
	}
	raw, _, _ = strings.Cut(raw, "#")
	raw, _, _ = strings.Cut(raw, "?")
	scheme, rest, found := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	if !found || scheme != "https" && scheme != "http" {
		return "", false
	}
	host, path, _ := strings.Cut(rest, "/")
	host = strings.ToLower(host)
	port := ":443"
	if scheme == "http" {
		port = ":80"
	}
	host = strings.TrimSuffix(host, port)
	if host == "" || strings.ContainsRune(host, '@') || strings.HasSuffix(host, port) {
		return "", false
	}
	return scheme + "://" + host + "/" + path, true
}
