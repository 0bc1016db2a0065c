package load

import "bytes"

// head holds the needed parts of a response head.
type head struct {
	status  int
	length  int // length of the body, unless chunked
	chunked bool
	closes  bool // the server closes the connection after this response
}

// parseHead parses the status line and header fields, including the empty line.
func parseHead(b []byte) (head, error) {
	line, b, _ := bytes.Cut(b, crlf)
	h := head{length: -1}
	const version = "HTTP/1.1 "
	if len(line) < len(version)+3 || string(line[:len(version)]) != version || !clean(line) {
		return h, errHead
	}
	for i, c := range line[len(version):] {
		if i == 3 {
			if c != ' ' {
				return h, errHead
			}
			break
		}
		if c < '0' || c > '9' {
			return h, errHead
		}
		h.status = h.status*10 + int(c-'0')
	}
	// The generator never causes 1xx responses.
	if h.status < 200 || h.status > 599 {
		return h, errHead
	}
	for len(b) > len(crlf) {
		line, b, _ = bytes.Cut(b, crlf)
		if err := h.field(line); err != nil {
			return h, err
		}
	}
	// These have no body (RFC 9112 section 6.3) and either no length or 0.
	if (h.status == 204 || h.status == 304) && h.length <= 0 && !h.chunked {
		h.length = 0
		return h, nil
	}
	if h.status == 204 || h.status == 304 || (h.length >= 0) == h.chunked {
		return h, errLength
	}
	return h, nil
}

var crlf = []byte("\r\n")

// field parses one header field. It refuses a continuation line, which has no
// name, and all ambiguous fields.
func (h *head) field(line []byte) error {
	colon := bytes.IndexByte(line, ':')
	if colon < 1 || !token(line[:colon]) || !clean(line[colon:]) {
		return errHead
	}
	name, value := line[:colon], line[colon+1:]
	switch {
	case fold(name, "content-length"):
		n, ok := decimal(bytes.Trim(value, " \t"))
		if !ok || h.length >= 0 {
			return errLength
		}
		if n > maxBody {
			return errLarge
		}
		h.length = n
	case fold(name, "transfer-encoding"):
		if h.chunked || !fold(bytes.Trim(value, " \t"), "chunked") {
			return errLength
		}
		h.chunked = true
	case fold(name, "connection"):
		h.closes = h.closes || !fold(bytes.Trim(value, " \t"), "keep-alive")
	}
	return nil
}

// decimal parses a length. Values beyond 10*maxBody are reduced to it, so that
// they cannot overflow.
func decimal(b []byte) (n int, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = min(n*10+int(c-'0'), 10*maxBody)
	}
	return n, len(b) > 0
}

// fold compares b with a lower-case name of letters and hyphens, ignoring case.
// A hyphen already has the lower-case bit; b contains no control bytes.
func fold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if c|0x20 != lower[i] {
			return false
		}
	}
	return true
}

// clean reports whether b has no control byte except tabs.
func clean(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// token reports whether b is a token (RFC 9110 section 5.6.2).
func token(b []byte) bool {
	for _, c := range b {
		if !tokenBytes[c] {
			return false
		}
	}
	return true
}

var tokenBytes = func() (t [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t[c] = true
	}
	return t
}()
