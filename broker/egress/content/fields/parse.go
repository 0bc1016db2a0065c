package fields

import (
	"bytes"
	"errors"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/egress/content"
)

var (
	errNone  = errors.New("it has no amount")
	errZero  = errors.New("an amount is 0")
	errDepth = errors.New("it is nested too deeply, or has too many fields")
)

// readJSON returns the fields of one JSON object. Members of an object have different names, and all
// texts are UTF-8 (jsontext).
func readJSON(body []byte) ([]field, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	if d.PeekKind() != '{' {
		return nil, content.Refuse("it is not a JSON object")
	}
	w := jsonWalk{d: d}
	if err := w.value(); err != nil {
		return nil, &content.Error{Why: "its JSON is malformed, too large, or names a member twice", Cause: err}
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, content.Refuse("data follows its JSON object")
	}
	return w.all, nil
}

// jsonWalk visits the values of a JSON text.
type jsonWalk struct {
	d    *jsontext.Decoder
	path []string
	all  []field
}

// value reads one value.
func (w *jsonWalk) value() error {
	t, err := w.d.ReadToken()
	if err != nil {
		return err
	}
	kind := byte(t.Kind())
	if kind != '{' && kind != '[' {
		return w.leaf(t.String(), kind)
	}
	if len(w.path) >= maxDepth {
		return errDepth
	}
	n := 0
	for ; w.d.PeekKind() != jsontext.Kind(kind+2); n++ { // '}' and ']' in ASCII
		name := strconv.Itoa(n)
		if kind == '{' {
			t, err := w.d.ReadToken()
			if err != nil {
				return err
			}
			name = t.String()
		}
		w.path = append(w.path, name)
		if err := w.value(); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	if _, err := w.d.ReadToken(); err != nil || n > 0 {
		return err
	}
	return w.leaf(string([]byte{kind, kind + 2}), kind)
}

// leaf adds a field.
func (w *jsonWalk) leaf(text string, kind byte) error {
	if len(w.all) >= maxFields {
		return errDepth
	}
	w.all = append(w.all, field{slices.Clone(w.path), text, kind})
	return nil
}

// keyForm matches keys that frameworks read in the same way: a, a[b], a[b][], a[0][c]. PHP replaces
// other characters, and ends a name at a stray bracket.
var keyForm = lazyregexp.New(`^[A-Za-z0-9_-]+(\[[A-Za-z0-9_-]*\])*$`)

// children are the kinds of keys below a key. A key must not have both: frameworks turn a[]=1&a[0]=2
// into different lists.
type children int

const (
	item   children = 1 // a[]
	member children = 2 // a[b]
)

func childOf(part string) children {
	if part == "" {
		return item
	}
	return member
}

// readForm returns the fields of a form. A key occurs once, unless it ends in [], which is a list: its
// values have the names 0, 1 and so on.
func readForm(body string) ([]field, error) {
	var all []field
	leaves, parents, lists := map[string]bool{}, map[string]children{}, map[string]int{}
	for pair := range strings.SplitSeq(body, "&") {
		rawKey, rawValue, is := strings.Cut(pair, "=")
		key, err1 := url.QueryUnescape(rawKey)
		value, err2 := url.QueryUnescape(rawValue)
		if err := errors.Join(err1, err2); err != nil || !is || strings.Contains(pair, ";") || !utf8.ValidString(value) || strings.Contains(value, "\x00") {
			return nil, &content.Error{Why: "its form is malformed", Cause: err}
		}
		if !keyForm.MatchString(key) {
			return nil, content.Refuse("its form has a key that frameworks read in different ways")
		}
		if len(all) >= maxFields {
			return nil, content.Refuse("it has too many fields")
		}
		path := strings.Split(strings.ReplaceAll(key, "]", ""), "[")
		if len(path) > maxDepth {
			return nil, content.Refuse("its form is nested too deeply")
		}
		last := len(path) - 1
		for i := range last {
			parents[strings.Join(path[:i+1], "/")] |= childOf(path[i+1])
		}
		if last > 0 && path[last] == "" {
			list := strings.Join(path[:last], "/")
			path[last] = strconv.Itoa(lists[list])
			lists[list]++
		}
		if leaves[strings.Join(path, "/")] {
			return nil, content.Refuse("its form has a key twice")
		}
		leaves[strings.Join(path, "/")] = true
		all = append(all, field{path, value, '"'})
	}
	for parent, has := range parents {
		if leaves[parent] || has == item|member {
			return nil, content.Refuse("its form uses one key in two ways, such as a=1 and a[]=2, or a[]=1 and a[b]=2")
		}
	}
	return all, nil
}
