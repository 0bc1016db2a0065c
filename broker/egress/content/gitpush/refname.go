package gitpush

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/broker/egress/content"
)

var (
	errRefPlace   = content.Refuse("a ref's name does not have the form refs/KIND/NAME")
	errRefSize    = content.Refuse(fmt.Sprintf("a ref's name exceeds %d bytes; choose a shorter name", content.MaxObject))
	errRefChars   = content.Refuse("a ref's name contains characters that do not print, or a space or one of ~^:?*[\\; rename it")
	errRefGrammar = content.Refuse("a ref's name has a segment that is empty, begins with '.' or '-', ends with '.' or '.lock', or contains '..' or '@{'; rename it")
	errRefHead    = content.Refuse("a ref is named HEAD, which may stand for another ref; push the branch itself")
)

// checkRef refuses names that git refuses (git-check-ref-format), and names that hide something from
// a reader. A segment that begins with '-' is an option to some programs, and git creates no such
// branch.
func checkRef(ref string) error {
	rest, found := strings.CutPrefix(ref, "refs/")
	if !found || !strings.Contains(rest, "/") {
		return errRefPlace
	}
	if len(ref) > content.MaxObject {
		return errRefSize
	}
	for _, c := range ref {
		if c == utf8.RuneError || !unicode.IsPrint(c) || strings.ContainsRune(" ~^:?*[\\", c) {
			return errRefChars
		}
	}
	segment := ""
	for segment = range strings.SplitSeq(ref, "/") {
		if segment == "" || segment[0] == '.' || segment[0] == '-' || strings.HasSuffix(segment, ".") || strings.HasSuffix(segment, ".lock") || strings.Contains(segment, "..") || strings.Contains(segment, "@{") {
			return errRefGrammar
		}
	}
	if strings.EqualFold(segment, "HEAD") {
		return errRefHead
	}
	return nil
}
