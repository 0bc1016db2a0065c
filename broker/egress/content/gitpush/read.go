package gitpush

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/ebb-broker/ebb/broker/egress/content"
)

// Ancestor asks the server whether the commit old is one of heads or an ancestor of one. All ids are
// hexadecimal; there are at most 16 heads.
type Ancestor func(ctx context.Context, old string, heads []string) (bool, error)

// Read parses a push and makes r ready to forward: r.Body is then the judged bytes and
// the unread rest, without Content-Encoding. It reads at most 1 MiB. After an error r must not be
// forwarded.
//
// Each ref is one operation: "create", "update" (a proven fast-forward), "force" (any other update)
// or "delete". Its details are
//
//	old, new     ids of the objects before and after
//	stated       of a delete: the object that the push names. git deletes the ref also where it points
//	             to another object, if it does not have the named one
//	commits      how many commits a create or update adds at most; absent if the pack does not show all
//	why          of a force: tag-moved, not-proven, commits-not-in-pack (the new commit is the server's
//	             or later in the pack) or too-large (a limit was reached before the end of the commits)
//	certificate  "unverified": the commands are in a push certificate, which ebb does not check
//
// Without ancestor, a push of commits that the server has already is a force. A push without
// commands has no operations: git sends it to learn whether it may push.
func Read(ctx context.Context, r *http.Request, ancestor Ancestor) (*Push, error) {
	p, err := open(r)
	if err != nil {
		return nil, err
	}
	s, err := readSection(p)
	k := &pack{}
	switch {
	case err != nil:
	case s.hasPack():
		k, err = readPack(p, s.format)
	default:
		err = p.end()
	}
	if errors.Is(err, errFull) {
		err = content.Refuse(fmt.Sprintf("its commands exceed %d MiB; push fewer refs at once", maxKept>>20))
	}
	if err != nil {
		return nil, err
	}
	push := &Push{Facts: content.Facts{Kind: "gitpush"}, reports: s.reports, bands: s.bands}
	if push.Operations, err = judge(ctx, s, k, ancestor); err != nil {
		return nil, fmt.Errorf("asking the server whether a push is a fast-forward: %w", err)
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(p.kept), p.rest), r.Body}
	r.GetBody = nil
	return push, nil
}

// open checks the headers and decodes the body. Clients compress a push only if it is small (JGit;
// git never does), so that a compressed one is read to its end. All that it decodes to is then known
// before any of it is forwarded.
func open(r *http.Request) (*prefix, error) {
	if is := r.Header["Content-Type"]; len(is) != 1 || is[0] != "application/x-git-receive-pack-request" {
		return nil, content.Refuse("its Content-Type is not application/x-git-receive-pack-request")
	}
	encoding := r.Header["Content-Encoding"]
	if r.Body == nil {
		return nil, errTruncated
	}
	if len(encoding) == 0 {
		return &prefix{rest: r.Body}, nil
	}
	if len(encoding) != 1 || encoding[0] != "gzip" {
		return nil, content.Refuse("its Content-Encoding is not gzip; push without compression")
	}
	in := bufio.NewReader(r.Body)
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, errGzip
	}
	z.Multistream(false)
	data, err := io.ReadAll(io.LimitReader(z, maxKept+1))
	if err != nil {
		return nil, errGzip
	}
	if len(data) > maxKept {
		return nil, content.Refuse(fmt.Sprintf("its compressed body exceeds %d MiB; push without compression", maxKept>>20))
	}
	if _, err := in.Peek(1); !errors.Is(err, io.EOF) {
		return nil, errGzip
	}
	r.Header.Del("Content-Encoding")
	r.Header.Del("Content-Length")
	r.ContentLength = int64(len(data))
	return &prefix{rest: http.NoBody, kept: data}, nil
}

var errGzip = content.Refuse("its compressed body is malformed, or more data follows it; push without compression")
