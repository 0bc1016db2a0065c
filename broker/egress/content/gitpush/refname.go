package gitpush

import (
	"strings"

	"github.com/ebb-broker/ebb/broker/egress/content"
)

// A scope's resource has at most 16 segments of 64 bytes. Two of them name the repository.
const (
	maxSegments = 14
	maxSegment  = 64
)

var (
	errRefPlace   = content.Refuse("a ref's name does not have the form refs/KIND/NAME")
	errRefSize    = content.Refuse("a ref's name exceeds 400 bytes, 14 segments or 64 bytes in a segment; choose a shorter name")
	errRefChars   = content.Refuse("a ref's name contains other characters than A-Z a-z 0-9 . _ @ + = , - and /; rename it")
	errRefGrammar = content.Refuse("a ref's name has a segment that is empty, begins with '.' or '-', ends with '.' or '.lock', or contains '..'; rename it")
	errRefHead    = content.Refuse("a ref is named HEAD, which may stand for another ref; push the branch itself")
)

// checkRef refuses names that git refuses (git-check-ref-format) and names that a scope cannot
// express. A segment that begins with '-' is an option to some programs, and git creates no such
// branch.
func checkRef(ref string) error {
	rest, found := strings.CutPrefix(ref, "refs/")
	if !found || !strings.Contains(rest, "/") {
		return errRefPlace
	}
	if len(ref) > content.MaxObject || strings.Count(ref, "/") >= maxSegments {
		return errRefSize
	}
	segment := ""
	for segment = range strings.SplitSeq(ref, "/") {
		if len(segment) > maxSegment {
			return errRefSize
		}
		for _, c := range []byte(segment) {
			if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("._@+=,-", rune(c)) {
				return errRefChars
			}
		}
		if segment == "" || segment[0] == '.' || segment[0] == '-' || strings.HasSuffix(segment, ".") || strings.HasSuffix(segment, ".lock") || strings.Contains(segment, "..") {
			return errRefGrammar
		}
	}
	if strings.EqualFold(segment, "HEAD") {
		return errRefHead
	}
	return nil
}
