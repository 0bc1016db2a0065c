package exact

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// PathForm says what a path may hold beside what every server reads alike.
type PathForm struct {
	// Slash lets segments hold an encoded slash, as names of npm packages, projects of
	// GitLab and objects of GCS do. Such a segment keeps its %2f, in lower case.
	Slash bool
	// Text lets segments hold spaces and printable characters of any script, as names
	// of files do. They must be encoded.
	Text bool
}

// pchar is what a segment is made of (RFC 3986 section 3.3), but for the semicolon. All
// else clients have to encode; who forwards it as it is changes what was checked.
const pchar = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,=:@%"

// maxPath is in bytes; the longest that servers take by default is 8 KiB.
const maxPath = 8 << 10

// Path decodes the path of a request as it was sent ("/a/b%20c"; RFC 3986 section 3.3)
// into its segments. The last may be empty, for a slash at the end. Refused are empty
// segments before that, dot segments in any spelling, encoded slashes, backslashes,
// percent signs, semicolons, question marks and number signs, control characters, and
// bytes that are no UTF-8: each of them has made one server see a path that another
// did not.
func Path(escaped string, form PathForm) ([]string, error) {
	rest, absolute := strings.CutPrefix(escaped, "/")
	if !absolute || len(escaped) > maxPath {
		return nil, refuse(AmbiguousPath, "its path is not absolute, or too long")
	}
	raw := strings.Split(rest, "/")
	segments := make([]string, len(raw))
	for i, r := range raw {
		s, ok := segment(r, form)
		if !ok || s == "" && i < len(raw)-1 {
			return nil, refuse(AmbiguousPath, "servers can read its path in more than one way")
		}
		segments[i] = s
	}
	return segments, nil
}

func segment(raw string, form PathForm) (string, bool) {
	if strings.Trim(raw, pchar) != "" {
		return "", false
	}
	var parts []string
	rest := raw
	for form.Slash {
		i := strings.Index(strings.ToLower(rest), "%2f")
		if i < 0 {
			break
		}
		parts, rest = append(parts, rest[:i]), rest[i+3:]
	}
	parts = append(parts, rest)
	for i, p := range parts {
		s, err := url.PathUnescape(p)
		if err != nil || !plain(s, form.Text) || dots(s) || s == "" && len(parts) > 1 {
			return "", false
		}
		parts[i] = s
	}
	return strings.Join(parts, "%2f"), true
}

// dots reports a segment that a server may take for this place or the one above. Some
// cut spaces and dots at the end off before they look.
func dots(s string) bool {
	return strings.Contains(s, "..") && strings.Trim(s, ". ") == "" || s == "."
}

func plain(s string, text bool) bool {
	if !text {
		return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`/\;%?#`, r) })
	}
	return utf8.ValidString(s) && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool {
			return strings.ContainsRune(`/\;%?#`, r) || slices.Contains(slashes, r) || r != ' ' && !unicode.IsGraphic(r) || r != ' ' && unicode.IsSpace(r)
		})
}

// slashes are what servers that map characters to those of a code page make a slash, a
// backslash or a dot of ("best fit").
var slashes = []rune{'\u2024', '\u2025', '\u2026', '\u2044', '\u2215', '\u2216', '\u29f5', '\u29f8', '\ufe68', '\uff0e', '\uff0f', '\uff3c'}
