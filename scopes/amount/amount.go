package amount

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
)

// Places is the number of decimal places of an Amount.
const Places = 4

// Max is the largest Value with a text form.
const Max = 1e18 - 1

// one is the Value of one whole unit.
const one = 10_000

// Amount is an amount of one unit. Its text form is "EUR 12.5".
type Amount struct {
	Unit  string // see ValidUnit
	Value int64  // ten-thousandths of the unit; not negative
}

var (
	unitForm   = lazyregexp.New(`^([A-Z]{3}|[a-z][a-z0-9_-]{0,15})$`)
	numberForm = lazyregexp.New(`^(0|[1-9][0-9]{0,13})(\.[0-9]{1,4})?$`)
)

// ValidUnit reports whether text is a unit: a currency code such as EUR (ISO 4217), or a word for
// things that are counted, of up to 16 of a-z 0-9 _ -.
func ValidUnit(text string) bool { return unitForm.MatchString(text) }

// Parse reads a text such as "EUR 50" or "EUR 12.50".
func Parse(text string) (Amount, error) {
	unit, number, _ := strings.Cut(text, " ")
	if !ValidUnit(unit) {
		return Amount{}, fmt.Errorf("%.40q does not begin with a unit and a space, as in \"EUR 50\": use a currency code of three capitals, or a word of small letters", text)
	}
	value, err := parseNumber(number)
	return Amount{unit, value}, err
}

// parseNumber returns a decimal number in ten-thousandths.
func parseNumber(text string) (int64, error) {
	if !numberForm.MatchString(text) {
		return 0, fmt.Errorf("%.40q is not a number of at most 14 digits and %d decimal places, such as 50 or 12.50", text, Places)
	}
	whole, fraction, _ := strings.Cut(text, ".")
	return strconv.ParseInt(whole+(fraction + "0000")[:Places], 10, 64)
}

// Scaled returns a number of 10^-decimals units: "1250" with 2 decimals is 12.5 units. The number
// has the form of RFC 8259 section 6 without sign and exponent.
func Scaled(unit, number string, decimals int) (Amount, error) {
	value, err := parseNumber(number)
	if err != nil {
		return Amount{}, err
	}
	for range decimals {
		if value%10 != 0 {
			return Amount{}, fmt.Errorf("%.40q has a part below one ten-thousandth of the unit", number)
		}
		value /= 10
	}
	return Amount{unit, value}, nil
}

// One returns one whole unit.
func One(unit string) Amount { return Amount{unit, one} }

// errTooLarge is returned for a sum that no Amount can hold.
var errTooLarge = errors.New("the sum is too large")

// Plus returns the sum of two amounts of the same unit.
func (a Amount) Plus(b Amount) (Amount, error) {
	if a.Value > Max-b.Value {
		return Amount{}, errTooLarge
	}
	return Amount{a.Unit, a.Value + b.Value}, nil
}

// number returns the amount without its unit, with as few decimal places as it needs.
func (a Amount) number() string {
	text := strconv.FormatInt(a.Value/one, 10)
	if part := a.Value % one; part != 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%0*d", Places, part), "0")
	}
	return text
}

// String returns the text form.
func (a Amount) String() string { return a.Unit + " " + a.number() }

// MarshalText implements encoding.TextMarshaler.
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Amount) UnmarshalText(text []byte) (err error) {
	*a, err = Parse(string(text))
	return err
}

// Limits are the highest amounts that may be spent, one for each unit, sorted by unit. Units without an
// entry may not be spent. nil = no limits; in JSON it must be left out (omitzero).
type Limits []Amount

// none is the text of Limits that allow nothing.
const none = "nothing"

// ParseLimits reads the text of Limits: "EUR 50, USD 60", "nothing", or "" for no limits.
func ParseLimits(text string) (Limits, error) {
	switch text {
	case "":
		return nil, nil
	case none:
		return Limits{}, nil
	}
	var l Limits
	for part := range strings.SplitSeq(text, ",") {
		a, err := Parse(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if _, twice := l.Of(a.Unit); twice {
			return nil, fmt.Errorf("it names the unit %s twice", a.Unit)
		}
		l = append(l, a)
	}
	l.sort()
	return l, nil
}

func (l Limits) sort() {
	slices.SortFunc(l, func(a, b Amount) int { return strings.Compare(a.Unit, b.Unit) })
}

// IsZero reports whether there are no limits.
func (l Limits) IsZero() bool { return l == nil }

// UnmarshalJSON implements json.Unmarshaler. null is refused: it would remove limits.
func (l *Limits) UnmarshalJSON(text []byte) error {
	var list []string
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	if list == nil {
		return errors.New("limits of amounts are a list, not null")
	}
	read := Limits{}
	for _, item := range list {
		a, err := Parse(item)
		if err != nil {
			return err
		}
		read = append(read, a)
	}
	*l = read
	return nil
}

// Of returns the limit for a unit. Ask it only of limits that are not nil.
func (l Limits) Of(unit string) (limit int64, is bool) {
	i := slices.IndexFunc(l, func(a Amount) bool { return a.Unit == unit })
	if i < 0 {
		return 0, false
	}
	return l[i].Value, true
}

// And returns limits that allow an amount only if both l and m allow it.
func (l Limits) And(m Limits) Limits {
	switch {
	case l == nil:
		return m
	case m == nil:
		return l
	}
	out := Limits{}
	for _, a := range l {
		if b, is := m.Of(a.Unit); is {
			out = append(out, Amount{a.Unit, min(a.Value, b)})
		}
	}
	return out
}

// Or returns limits that allow an amount if l or m allows it.
func (l Limits) Or(m Limits) Limits {
	if l == nil || m == nil {
		return nil
	}
	out := slices.Clone(l)
	for _, b := range m {
		if i := slices.IndexFunc(out, func(a Amount) bool { return a.Unit == b.Unit }); i >= 0 {
			out[i].Value = max(out[i].Value, b.Value)
		} else {
			out = append(out, b)
		}
	}
	out.sort()
	return out
}

// String returns the text form, which ParseLimits reads.
func (l Limits) String() string {
	switch {
	case l == nil:
		return ""
	case len(l) == 0:
		return none
	}
	parts := make([]string, len(l))
	for i, a := range l {
		parts[i] = a.String()
	}
	return strings.Join(parts, ", ")
}
