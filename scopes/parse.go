package scopes

import "strings"

// The limits of the grammar. See the package documentation.
const (
	MaxBytes    = 512 // of one scope
	MaxSegments = 16  // of one resource
	maxSegment  = 64  // bytes of one segment
	maxName     = 32  // bytes of a provider or an action
)

const (
	wantProvider = "a provider is a lower-case letter, then up to 31 of [a-z0-9-], then ':'"
	wantSegment  = "a resource segment is 1 to 64 of [A-Za-z0-9._~@+=,-], or '*' alone, or '**' alone as the last one"
	wantDots     = "a resource segment is never '.' or '..'"
	wantRest     = "'**' is only allowed as the last resource segment"
	wantCount    = "a resource has at most 16 segments"
	wantResource = "a scope is provider:resource:action; the ':' before the action is missing"
	wantAction   = "an action is a lower-case letter, then up to 31 of [a-z0-9_.-], or '*' alone"
	wantBytes    = "a scope is at most 512 bytes"
)

// Parse reads one scope, whose String is then the same text. The error is a *[ParseError].
func Parse(text string) (Scope, error) {
	if len(text) > MaxBytes {
		return Scope{}, refuse("scope", text, MaxBytes, wantBytes)
	}
	first := strings.IndexByte(text, ':')
	if n := nameLen(text, providerBytes); n == 0 || n != first {
		return Scope{}, refuse("scope", text, n, wantProvider)
	}
	second, perr := parseResource(text, first+1)
	if perr != nil {
		return Scope{}, perr
	}
	action := text[second+1:]
	if n := nameLen(action, actionBytes); action != Any && (n == 0 || n != len(action)) {
		return Scope{}, refuse("scope", text, second+1+n, wantAction)
	}
	return Scope{text: text, first: uint16(first), second: uint16(second)}, nil
}

// New builds a scope from its parts through [Parse]: a part with a ":" cannot count as two.
func New(provider, resource, action string) (Scope, error) {
	return Parse(provider + ":" + resource + ":" + action)
}

// MustParse is [Parse] for literals in code and tests; it panics on a scope that does not parse.
func MustParse(text string) Scope {
	s, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return s
}

// parseResource checks the segments from start on and returns the offset of the ":" that ends them.
func parseResource(text string, start int) (int, *ParseError) {
	at := start
	for count := 1; ; count++ {
		if count > MaxSegments {
			return 0, refuse("scope", text, at, wantCount)
		}
		end, last, perr := parseSegment(text, at)
		if perr != nil {
			return 0, perr
		}
		if end == len(text) {
			return 0, refuse("scope", text, end, wantResource)
		}
		if text[end] == ':' {
			return end, nil
		}
		if last {
			return 0, refuse("scope", text, end, wantRest)
		}
		at = end + 1
	}
}

// parseSegment returns the end of the segment at start, and whether it must be the last one.
func parseSegment(text string, start int) (end int, last bool, perr *ParseError) {
	end = start
	for end < len(text) && text[end] == '*' {
		end++
	}
	stars := end - start
	for end < len(text) && segmentBytes[text[end]] {
		end++
	}
	switch {
	case end < len(text) && text[end] != '/' && text[end] != ':':
		return 0, false, refuse("scope", text, end, wantSegment)
	case stars > 0 && (stars > 2 || end != start+stars):
		return 0, false, refuse("scope", text, start, wantSegment)
	case end == start || end-start > maxSegment:
		return 0, false, refuse("scope", text, start, wantSegment)
	case text[start:end] == "." || text[start:end] == "..":
		return 0, false, refuse("scope", text, start, wantDots)
	}
	return end, stars == 2, nil
}

// nameLen is the length of the longest prefix of text that is a provider or action name; 0 if it does not start as one.
func nameLen(text string, allowed *byteSet) int {
	if text == "" || text[0] < 'a' || text[0] > 'z' {
		return 0
	}
	n := 1
	for n < len(text) && n < maxName && allowed[text[n]] {
		n++
	}
	return n
}

// byteSet is a set of ASCII characters.
type byteSet [256]bool

func setOf(chars string) *byteSet {
	var set byteSet
	for i := range len(chars) {
		set[chars[i]] = true
	}
	return &set
}

const (
	lowerDigits = "abcdefghijklmnopqrstuvwxyz0123456789"
	upper       = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

var (
	providerBytes = setOf(lowerDigits + "-")
	actionBytes   = setOf(lowerDigits + "_.-")
	segmentBytes  = setOf(lowerDigits + upper + "._~@+=,-")
	uriBytes      = setOf(lowerDigits + upper + "-._~:/?@!$&'()*+,;=[]") // RFC 3986 section 2, without "#" and "%"
	hexBytes      = setOf("0123456789abcdefABCDEF")
	labelBytes    = setOf(lowerDigits + "-")
)
