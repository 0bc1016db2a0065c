package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/amount"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// filled returns a T whose exported fields all have their own value: a string
// is its path; numbers and times count up. The values are the same in every
// run, so that their JSON can be compared with a golden file.
func filled[T any](t *testing.T) T {
	t.Helper()
	return filledAs[T](t, reflect.TypeFor[T]().Name())
}

// filledAs starts the paths with another name than that of the type.
func filledAs[T any](t *testing.T, name string) T {
	t.Helper()
	var v T
	f := filler{t: t}
	f.fill(reflect.ValueOf(&v).Elem(), name)
	return v
}

type filler struct {
	t *testing.T
	n int
}

// next returns the next number.
func (f *filler) next() int {
	f.n++
	return f.n
}

func (f *filler) time() time.Time {
	// The fraction ends in zeros, which RFC3339Nano omits and the audit log
	// keeps.
	return time.Date(2026, 3, 4, 5, 6, 7, 120_000_000, time.UTC).Add(time.Duration(f.next()) * time.Second)
}

// special fills the types whose JSON is not that of their fields.
func (f *filler) special(v reflect.Value, path string) bool {
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		*p = f.time()
	case *time.Duration:
		*p = time.Duration(f.next()) * time.Second
	case *scopes.Set:
		*p = scopes.MustParseSet(fmt.Sprintf("aws:a%d/*:read orders:eu/%d:write", f.next(), f.next()))
	case *scopes.Scope:
		*p = scopes.MustParseSet(fmt.Sprintf("orders:eu/%d:write", f.next())).Scopes()[0]
	case *scopes.Detail:
		*p = scopes.Detail{Provider: "orders", Identifier: fmt.Sprintf("eu/%d", f.next()), Actions: []string{"read"}, Location: "https://orders.example"}
	case *agenttext.Untrusted:
		*p = agenttext.From(path + " \"é\" <b>\n\u2028🌊")
	case *stricturl.Host:
		*p = stricturl.Host{Name: fmt.Sprintf("db%d.example", f.next()), Port: 5432}
	case *amount.Amount:
		*p = amount.Amount{Unit: "EUR", Value: int64(f.next())}
	case *policy.Effect:
		*p = policy.Allow
	case *json.RawMessage:
		*p = json.RawMessage(fmt.Sprintf(`{"n":%d,"path":%q}`, f.next(), path))
	default:
		return false
	}
	return true
}

func (f *filler) fill(v reflect.Value, path string) {
	if f.special(v, path) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				f.fill(v.Field(i), path+"."+field.Name)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			f.fill(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key, path+"#key")
		f.fill(value, path+"#value")
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString(path + " <é>")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(int64(f.next()))
	case reflect.Uint64, reflect.Uint16, reflect.Uint8:
		v.SetUint(uint64(f.next()))
	case reflect.Func, reflect.Interface: // of an internal field
	default:
		f.t.Fatalf("%s: there is no value for %s", path, v.Type())
	}
}

// fieldsOf lists the exported fields of a struct by path, including those of
// structs behind pointers and in slices. A type with its own JSON form is one
// field.
func fieldsOf(t reflect.Type, prefix string) (paths []string) {
	for i := range t.NumField() {
		field := t.Field(i)
		if !field.IsExported() {
			continue
		}
		path := prefix + field.Name
		in := field.Type
		for in.Kind() == reflect.Pointer || in.Kind() == reflect.Slice {
			in = in.Elem()
		}
		if in.Kind() == reflect.Struct && !opaque(in) {
			paths = append(paths, fieldsOf(in, path+".")...)
			continue
		}
		paths = append(paths, path)
	}
	return paths
}

// opaque reports a type that filler.special fills as a whole, or that has no exported field.
func opaque(t reflect.Type) bool {
	if (&filler{}).special(reflect.New(t).Elem(), "") {
		return true
	}
	for i := range t.NumField() {
		if t.Field(i).IsExported() {
			return false
		}
	}
	return true
}

// clone copies the parts that clear changes: structs behind pointers, and
// slices.
func clone(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch {
	case v.Kind() == reflect.Struct && !opaque(v.Type()):
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(clone(v.Field(i)))
			}
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		out.Set(reflect.New(v.Type().Elem()))
		out.Elem().Set(clone(v.Elem()))
	case v.Kind() == reflect.Slice && !v.IsNil():
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(clone(v.Index(i)))
		}
	}
	return out
}

// clear sets the field at a path to its zero value, in every element of a slice on the way.
func clear(v reflect.Value, path []string) {
	switch v.Kind() {
	case reflect.Pointer:
		clear(v.Elem(), path)
	case reflect.Slice:
		if len(path) > 0 {
			for i := range v.Len() {
				clear(v.Index(i), path)
			}
			return
		}
		v.SetZero()
	default:
		if len(path) == 0 {
			v.SetZero()
			return
		}
		field := v.FieldByName(path[0])
		if len(path) == 1 {
			field.SetZero()
			return
		}
		clear(field, path[1:])
	}
}
