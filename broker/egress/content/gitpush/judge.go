package gitpush

import (
	"bytes"
	"context"
	"iter"
	"strconv"
	"strings"

	"github.com/ebb-broker/ebb/broker/egress/content"
)

const (
	maxSteps = 200_000 // parents that the proofs of one push visit
	maxAsked = 16      // commits of one question to the server
)

// judge returns an operation for each command. An error is ancestor's.
func judge(ctx context.Context, s *section, k *pack, ancestor Ancestor) ([]content.Operation, error) {
	ops := make([]content.Operation, 0, len(s.commands))
	for _, c := range s.commands {
		op := content.Operation{Object: c.ref, Details: make(map[string]string, 4)}
		switch {
		case c.before == "":
		case c.after == "":
			op.Details["stated"] = c.before
		default:
			op.Details["old"] = c.before
		}
		if c.after != "" {
			op.Details["new"] = c.after
		}
		if s.signed {
			op.Details["certificate"] = "unverified"
		}
		from := c.after
		if c.before == "" {
			from = k.peel(from) // an annotated tag
		}
		way := k.walk(s, from, c.before)
		switch {
		case c.after == "":
			op.Action = "delete"
		case c.before == "":
			op.Action = "create"
		case strings.HasPrefix(c.ref, "refs/tags/"):
			op.Action, op.Details["why"] = "force", "tag-moved"
		default:
			reached, err := way.reached, error(nil)
			if !reached && ancestor != nil && len(way.outside) > 0 {
				reached, err = ancestor(ctx, c.before, way.outside)
			}
			if err != nil {
				return nil, err
			}
			op.Action = "update"
			if !reached {
				op.Action, op.Details["why"] = "force", way.why(k)
			}
		}
		if way.complete && (op.Action == "create" || op.Action == "update") {
			op.Details["commits"] = strconv.Itoa(way.commits)
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// way describes the history before a commit, as far as the pack shows it.
type way struct {
	reached  bool     // the old commit is an ancestor
	complete bool     // all commits up to the old one are in the pack
	commits  int      // of the pack
	outside  []string // the nearest commits, at most maxAsked, that are not in the pack
	limited  bool
}

// walk follows parents from a commit to an older one, or to the first commits if that is empty. It
// does not pass a shallow commit: a server that accepts the boundary loses the history behind it.
func (k *pack) walk(s *section, from, to string) way {
	var w way
	i, found := k.ids[from]
	switch {
	case from == "" || s.shallow[from]:
		return w
	case !found || k.objects[i].kind != commitKind:
		w.outside = []string{from}
		return w
	}
	k.walks++
	k.objects[i].walk = k.walks
	w.complete = true
	for queue := []int{i}; len(queue) > 0; queue = queue[1:] {
		w.commits++
		for parent := range k.format.parents(k.objects[queue[0]].text) {
			if k.steps--; k.steps < 0 {
				w.limited, w.complete = true, false
				return w
			}
			if string(parent) == to {
				w.reached = true
				continue
			}
			i, found := k.ids[string(parent)]
			switch {
			case s.shallow[string(parent)]:
				w.complete = false
			case !found || k.objects[i].kind != commitKind:
				w.complete = false
				if len(w.outside) < maxAsked {
					w.outside = append(w.outside, string(parent))
				}
			case k.objects[i].walk != k.walks:
				k.objects[i].walk = k.walks
				queue = append(queue, i)
			}
		}
	}
	return w
}

// why returns why an update counts as forced.
func (w way) why(k *pack) string {
	switch {
	case w.limited || !k.whole:
		return "too-large"
	case w.commits == 0:
		return "commits-not-in-pack"
	}
	return "not-proven"
}

// peel returns the commit of an annotated tag, or else id itself.
func (k *pack) peel(id string) string {
	for range 8 { // a tag of a tag is rare
		i, found := k.ids[id]
		if !found || k.objects[i].kind != tagKind {
			break
		}
		rest, _ := bytes.CutPrefix(k.objects[i].text, []byte("object "))
		if len(rest) < k.format.digits {
			break
		}
		id = string(rest[:k.format.digits])
	}
	return id
}

// isCommit reports whether text begins with a tree and well-formed parents, as git reads them.
func (f format) isCommit(text []byte) bool {
	text, found := f.cutID(text, "tree ")
	for found && bytes.HasPrefix(text, []byte("parent ")) {
		text, found = f.cutID(text, "parent ")
	}
	return found
}

// cutID returns what follows a line of word and an id.
func (f format) cutID(text []byte, word string) (rest []byte, found bool) {
	n := len(word) + f.digits
	if len(text) <= n || string(text[:len(word)]) != word || text[n] != '\n' || !f.isID(string(text[len(word):n])) {
		return nil, false
	}
	return text[n+1:], true
}

// parents yields the ids of a commit's parents: the lines directly after its tree.
func (f format) parents(commit []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		const word = "parent "
		line := len(word) + f.digits + 1
		for rest := commit[len("tree ")+f.digits+1:]; bytes.HasPrefix(rest, []byte(word)); rest = rest[line:] {
			if !yield(rest[len(word) : line-1]) {
				return
			}
		}
	}
}
