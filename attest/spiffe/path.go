package spiffe

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// Limits of SPIFFE-ID, sections 2.1 and 2.3, in bytes.
const (
	maxTrustDomain = 255
	maxID          = 2048
)

var errID = errors.New("not the SPIFFE ID of a workload")

// parseID reads the SPIFFE ID of a workload. There is one spelling of each: no
// upper-case scheme or trust domain, no port, user, query, fragment or percent
// sign, no empty or dot segment. An ID without a path names a trust domain and no
// workload (X509-SVID, section 4.2).
func parseID(s string) (spiffeid.ID, error) {
	if len(s) > maxID {
		return spiffeid.ID{}, errID
	}
	id, err := spiffeid.FromString(s)
	if err != nil {
		return spiffeid.ID{}, fmt.Errorf("%w: %w", errID, err)
	}
	if id.Path() == "" || len(id.TrustDomain().Name()) > maxTrustDomain {
		return spiffeid.ID{}, errID
	}
	return id, nil
}

// pattern accepts paths by their segments: "*" stands for exactly one, whatever it
// is, a final "**" for one or more. Any other segment stands for itself, whole.
type pattern []string

const (
	anyOne  = "*"
	anyMore = "**"
)

func parsePattern(s string) (pattern, error) {
	rest, absolute := strings.CutPrefix(s, "/")
	if !absolute || len(s) > maxID {
		return nil, fmt.Errorf("%q is not a path; write it like /ns/agents/sa/* or /sandbox/**", s)
	}
	p := pattern(strings.Split(rest, "/"))
	for i, segment := range p {
		switch {
		case segment == anyOne, segment == anyMore && i == len(p)-1:
		case segment == anyMore:
			return nil, fmt.Errorf("%q: ** is the last segment or none", s)
		default:
			if err := spiffeid.ValidatePathSegment(segment); err != nil {
				return nil, fmt.Errorf("%q: a segment is *, a final **, or letters, digits and . - _ without a star: %w", s, err)
			}
		}
	}
	return p, nil
}

// matches takes the path of a parsed ID, which starts with a slash and has no
// empty segment.
func (p pattern) matches(path string) bool {
	rest := path[1:]
	for i, want := range p {
		if want == anyMore {
			return true
		}
		segment, more, found := strings.Cut(rest, "/")
		if want != anyOne && segment != want {
			return false
		}
		if !found {
			return i == len(p)-1
		}
		rest = more
	}
	return false
}

func allowed(patterns []pattern, id spiffeid.ID) bool {
	return slices.ContainsFunc(patterns, func(p pattern) bool { return p.matches(id.Path()) })
}
