package fetch

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Answer is what a place said.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	// MaxAge is how long its origin calls it good (RFC 9111, section 5.2.2.1);
	// 0 when it does not say or the answer is not to be cached.
	MaxAge time.Duration
}

func maxAge(cacheControl string) time.Duration {
	var age time.Duration
	for d := range strings.SplitSeq(strings.ToLower(cacheControl), ",") {
		d = strings.TrimSpace(d)
		if d == "no-store" || d == "no-cache" {
			return 0
		}
		if v, found := strings.CutPrefix(d, "max-age="); found {
			if n, err := strconv.ParseUint(v, 10, 31); err == nil {
				age = time.Duration(n) * time.Second
			}
		}
	}
	return age
}
