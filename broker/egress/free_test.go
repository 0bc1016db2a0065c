package egress_test

import (
	"fmt"
	"strings"
	"testing"
)

// A box asks what it is so often and no more, and another one as often.
func TestBoxAsksWhatItIs(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x, other := b.box(t), b.box(t)
	const ask = "GET /box HTTP/1.1\r\nHost: box\r\nConnection: close\r\n\r\n"
	for told := 0; ; told++ {
		out := raw(t, x, ask)
		if strings.HasPrefix(out, "HTTP/1.1 429") && strings.Contains(out, "rate_limited") {
			if told < 30 {
				t.Errorf("told %d times", told)
			}
			break
		}
		if !strings.HasPrefix(out, "HTTP/1.1 200") || told > 5000 {
			t.Fatalf("told %d times: %q", told, out)
		}
	}
	if out := raw(t, other, ask); !strings.HasPrefix(out, "HTTP/1.1 200") {
		t.Errorf("another box: %q", out)
	}
}

// E77: placeholders that are nobody's are looked up so often and no more; that keeps no box from
// those that are its own, and refusals fill no log.
func TestUnknownPlaceholders(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.box(t)
	p, c := x.placeholder(t, "stripe:charges:read"), x.client(t, true)
	own := func() {
		t.Helper()
		if res, body := send(t, c, "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p); res.StatusCode != 200 {
			t.Fatalf("its own: %s %q", res.Status, body)
		}
	}
	own()
	lines := func() int { return strings.Count(b.log.String(), "egress refused") }
	unknown, refused := 0, 0
	for ; refused == 0 || lines() > refused+unknown-10; refused++ {
		if refused > 2000 {
			t.Fatalf("%d lines about %d refusals", lines(), refused+unknown)
		}
		for {
			res, body := send(t, c, "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p[:len(p)-4]+fmt.Sprintf("%04x", unknown))
			if res.StatusCode == 429 {
				break
			}
			if unknown++; res.StatusCode != 401 || unknown > 5000 {
				t.Fatalf("%d: %s %q", unknown, res.Status, body)
			}
		}
	}
	if unknown < 50 {
		t.Errorf("%d were looked up", unknown)
	}
	own()
}
