package api

import (
	"encoding/json"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

// The functions wireX and brokerX convert between the broker's types and the
// types of the API (package wire). Where both structs have the same fields of
// the same types, the function is a Go conversion of the whole struct, which
// stops compiling when one of them changes. convert_internal_test.go fails when
// a field is not converted.

// each converts the elements of a list. nil stays nil, which is null in JSON.
func each[From, To any](list []From, convert func(From) To) []To {
	if list == nil {
		return nil
	}
	out := make([]To, len(list))
	for i, v := range list {
		out[i] = convert(v)
	}
	return out
}

// ref converts the value behind a pointer. nil stays nil.
func ref[From, To any](p *From, convert func(From) To) *To {
	if p == nil {
		return nil
	}
	out := convert(*p)
	return &out
}

// paged makes one page of a list; id is the cursor of an item. A page that is shorter than limit is the last one.
func paged[From, To any](items []From, limit int, id func(From) string, convert func(From) To) wire.List[To] {
	p := wire.List[To]{Items: each(items, convert)}
	if items == nil {
		p.Items = []To{}
	}
	if len(items) >= limit && limit > 0 {
		p.Next = id(items[len(items)-1])
	}
	return p
}

// same is the conversion of a list whose items already are wire types.
func same[T any](v T) T { return v }

// seconds converts a number of seconds of the core.
func seconds(s broker.Seconds) int64 { return int64(s) }

// scopeAt parses a scope of a request body. at is the JSON pointer of its member.
func scopeAt(at, text string) (scopes.Set, error) {
	set, err := scopes.ParseSet(text)
	if err != nil {
		return scopes.Set{}, web.WrongValue(at)
	}
	return set, nil
}

func canonical(v json.Marshaler, into any) error {
	text, err := v.MarshalJSON()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
