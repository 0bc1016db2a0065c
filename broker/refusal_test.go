package broker_test

import (
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
)

// A refusal repeats a name in ASCII on one line, cut where it is long, and no secret of ebb.
func TestQuoted(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":                                   `""`,
		"orders":                             `"orders"`,
		"tsk_0123":                           `"tsk_0123"`,
		"a\x1b[2Jb\n":                        `"a\x1b[2Jb\n"`,
		"\u202eevil":                         `"\u202eevil"`,
		`"`:                                  `"\""`,
		"\xff":                               `"\xff"`,
		strings.Repeat("a", 65):              `"` + strings.Repeat("a", 16) + `..."`,
		"ebb_tkt_" + strings.Repeat("s", 43): `"ebb_tkt_..."`,
		"ebb_dfr_" + strings.Repeat("5", 32) + "_x": `"ebb_dfr_..."`,
		"ebb_" + strings.Repeat("s", 43):            `"ebb_ssssssss_..."`,
		" ebb_tkt_" + strings.Repeat("s", 43):       `" ebb_tkt_..."`,
		"ticket=ebb_tkt_" + strings.Repeat("s", 43): `"ticket=ebb_tkt_..."`,
	} {
		if got := broker.Quoted(name); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
}

func TestNamed(t *testing.T) {
	t.Parallel()
	if got := broker.Named(nil); got != "none" {
		t.Errorf("got %s", got)
	}
	if got := broker.Named([]string{"b", "a"}); got != "a, b" {
		t.Errorf("got %s", got)
	}
	many := strings.Split(strings.Repeat("x ", 25), " ")[:25]
	if got := broker.Named(many); !strings.HasSuffix(got, "x, and 5 more") || strings.Count(got, "x") != 20 {
		t.Errorf("got %s", got)
	}
}

// The lifetime of a ticket is bounded in one place.
func TestTicketLife(t *testing.T) {
	t.Parallel()
	l := broker.Limits{}.WithDefaults()
	for asked, want := range map[broker.Seconds]int{0: 60, 1: 1, 60: 60, 61: 61, 900: 900, 901: -1, -1: -1, -900: -1, 1 << 62: -1, -1 << 63: -1} {
		got, err := l.TicketLife(asked)
		if want < 0 && broker.AsError(err).Kind != broker.Invalid || want >= 0 && (err != nil || int(got.Seconds()) != want) {
			t.Errorf("%d: %v, %v, want %d s", asked, got, err, want)
		}
	}
}
