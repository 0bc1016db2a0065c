package fields

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/scopes/amount"
)

// Read reads the body of a request by the rule, for a scope with this resource and action. req.Body
// then yields the same bytes again, once. An error is a *content.Error, or the error of reading the
// body; the request is then not to be sent.
//
// The first operation is about the resource: it has the amount, and as details the fields with the
// role show. Each object has an operation of its own, whose Object is the resource of the scope that
// it needs.
func (r *Rule) Read(req *http.Request, resource, action string) (content.Facts, error) {
	media := "application/json"
	if r.Format == Form {
		media = "application/x-www-form-urlencoded"
	}
	switch {
	case !content.HasType(req, media):
		return content.Facts{}, content.Refuse("its Content-Type is not " + media + " in UTF-8")
	case len(req.Header["Content-Encoding"]) > 0:
		return content.Facts{}, content.Refuse("it has a Content-Encoding")
	}
	body, err := content.TakeBody(req)
	if err != nil {
		return content.Facts{}, err
	}
	var all []field
	if r.Format == Form {
		all, err = readForm(string(body))
	} else {
		all, err = readJSON(body)
	}
	if err != nil {
		return content.Facts{}, err
	}
	f := finding{rule: r, base: resource, facts: content.Facts{Kind: r.Format, Operations: []content.Operation{{Action: action, Object: resource}}}}
	for i, one := range all {
		f.at = strconv.Itoa(i + 1)
		if err := f.add(one); err != nil {
			return content.Facts{}, err
		}
	}
	if err := f.end(); err != nil {
		return content.Facts{}, err
	}
	sum := sha256.Sum256(body)
	f.facts.Body = hex.EncodeToString(sum[:])
	return f.facts, nil
}

// field is a value of a body that is no object and no array with members.
type field struct {
	path []string
	text string // of a string, a number, true, false, null, {} or []
	kind byte   // the first byte of the JSON: '"', '0' for numbers, 't', 'f', 'n', '{', '['; in a form always '"'
}

// The bounds of a body. By default PHP and qs of Node.js ignore the fields of a form after the first
// 1,000.
const (
	maxFields = 1000
	maxDepth  = 32
)

// finding collects the facts of a body.
type finding struct {
	rule    *Rule
	base    string // resource of the scope
	facts   content.Facts
	numbers []string // the amounts
	count   int64
	unit    string // "" = not read
	at      string // number of the current field, from 1 on: names of fields come from the sandbox
}

var emailForm = lazyregexp.New(`^([A-Za-z0-9._~+=-]{1,64})@([A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})*)$`)

// otherName reports whether some servers take a name for another one: parsers in C end it at a zero
// byte, and JavaScript can add the members of __proto__ to the object around it.
func otherName(name string) bool { return strings.Contains(name, "\x00") || name == "__proto__" }

// add adds a field to the facts.
func (f *finding) add(one field) error {
	role, ambiguous := f.rule.role(one.path)
	switch {
	case slices.ContainsFunc(one.path, otherName):
		return content.Refuse("its field " + f.at + " has a name that some servers take for another one")
	case ambiguous:
		return content.Refuse("the name of its field " + f.at + " differs from that of a listed field only by case")
	case role == "":
		return content.Refuse("its field " + f.at + " is not one that the configuration of the provider lists")
	case role == Any:
		return nil
	case role == Show:
		return f.show(one)
	case role == Amount && (one.kind == '0' || one.kind == '"'):
		f.numbers = append(f.numbers, one.text)
		return nil
	case role == Count && one.kind != '{' && one.kind != '[' && one.kind != 'n':
		f.count++
		return nil
	case one.kind != '"':
		return content.Refuse("its field " + f.at + " has a value of another type than its role " + role + " needs")
	case role == Unit:
		return f.setUnit(one.text)
	case role == Email:
		parts := emailForm.FindStringSubmatch(one.text)
		if parts == nil {
			return content.Refuse("its field " + f.at + " is not a plain address such as bob@example.com")
		}
		return f.object(strings.ToLower(parts[2]) + "/" + parts[1])
	}
	if one.text == "" || strings.Contains(one.text, "/") {
		return content.Refuse("the name of an object is empty, or has a slash, which separates the parts of a scope")
	}
	return f.object(one.text)
}

// object adds an operation for the resource of a scope.
func (f *finding) object(below string) error {
	if len(f.facts.Operations) >= content.MaxOperations || len(f.base)+len(below) >= content.MaxObject {
		return content.Refuse("it has too many objects, or one with a long name: send several requests")
	}
	f.facts.Operations = append(f.facts.Operations, content.Operation{Action: f.facts.Operations[0].Action, Object: f.base + "/" + below})
	return nil
}

// pointer escapes a part of a place (RFC 6901 section 3), so that two fields have different places.
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// show adds a detail. Its name is the place of the field, escaped as in a URL (RFC 6901 section 6), so
// that no name looks like another detail. A text above content.MaxDetail is cut, and then ends with
// [cut]; the facts contain the digest of the whole body.
func (f *finding) show(one field) error {
	first := &f.facts.Operations[0]
	if first.Details == nil {
		first.Details = map[string]string{}
	}
	name, text := "", one.text
	for _, part := range one.path {
		name += "/" + url.PathEscape(pointer.Replace(part))
	}
	const end = " [cut]"
	if len(text) > content.MaxDetail {
		text = text[:content.MaxDetail-len(end)-utf8.UTFMax]
		for !utf8.ValidString(text) {
			text = text[:len(text)-1]
		}
		text += end
	}
	if len(name) > content.MaxDetail || len(first.Details) >= content.MaxOperations {
		return content.Refuse("it has too many fields to show, or one with a long name")
	}
	first.Details[name] = text
	return nil
}

// setUnit adds the unit of the amounts. All units of a body must be the same.
func (f *finding) setUnit(text string) error {
	for _, unit := range f.rule.Units {
		if strings.EqualFold(unit, text) {
			if f.unit != "" && f.unit != unit {
				return content.Refuse("its amounts have different units")
			}
			f.unit = unit
			return nil
		}
	}
	return content.Refuse("the unit of its amount is none of the units that the configuration of the provider lists")
}

// end checks that no required field was left out, because the server would use a default that ebb
// does not know. It then adds the amount.
func (f *finding) end() error {
	r := f.rule
	if r.Named() && len(f.facts.Operations) == 1 {
		return content.Refuse("it names no object, such as a recipient, that its scope must name")
	}
	if !r.Spends() {
		return nil
	}
	switch {
	case f.unit == "" && r.Has(Unit):
		return content.Refuse("it has an amount without a unit")
	case f.unit == "":
		f.unit = r.Units[0]
	}
	sum, err := f.sum()
	if err != nil {
		return &content.Error{Why: "one of its amounts is not a decimal number above 0, or they are too large", Cause: err}
	}
	f.facts.Operations[0].Amount = sum.String()
	return nil
}

// sum returns the sum of the amounts, or the number of the counted fields. An amount of 0 is an error:
// many servers take it for a missing one, and use a default.
func (f *finding) sum() (sum amount.Amount, err error) {
	if f.rule.Has(Count) {
		if f.count == 0 {
			return sum, errNone
		}
		return amount.Amount{Unit: f.unit, Value: f.count * amount.One(f.unit).Value}, nil
	}
	if len(f.numbers) == 0 {
		return sum, errNone
	}
	sum.Unit = f.unit
	for _, text := range f.numbers {
		one, err := amount.Scaled(f.unit, text, f.rule.Decimals)
		switch {
		case err == nil && one.Value == 0:
			err = errZero
		case err == nil:
			sum, err = sum.Plus(one)
		}
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}
