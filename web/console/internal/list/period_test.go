package list

import (
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
)

func periodOf(t *testing.T, query string) (Period, *Query) {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	a := ReadQuery(echo.New().NewContext(httptest.NewRequest("GET", "/audit?"+query, nil), nil))
	// Friday 27 November, 00:30 in Berlin, is Thursday in UTC.
	return a.Period(zone, time.Date(2026, 11, 26, 23, 30, 0, 0, time.UTC)), a
}

// Presets and typed times are in the zone of the visitor; links have both ends in UTC.
func TestPeriod(t *testing.T) {
	t.Parallel()
	for query, want := range map[string][2]string{
		"":                                       {"", ""},
		"when=today":                             {"2026-11-26T23:00:00Z", ""},
		"when=yesterday":                         {"2026-11-25T23:00:00Z", "2026-11-26T23:00:00Z"},
		"when=2026-11-24":                        {"2026-11-23T23:00:00Z", "2026-11-24T23:00:00Z"}, // last Tuesday
		"when=7d":                                {"2026-11-20T23:00:00Z", ""},
		"when=30d":                               {"2026-10-28T23:00:00Z", ""},
		"when=today&from=wrong":                  {"2026-11-26T23:00:00Z", ""},
		"from=2026-11-24T14:05":                  {"2026-11-24T13:05:00Z", ""},
		"from=2026-11-24&to=2026-11-25T00:00:01": {"2026-11-23T23:00:00Z", "2026-11-24T23:00:01Z"},
		"from=2026-11-23T23:00:00Z&to=" + url.QueryEscape("2026-11-24T01:00:00+01:00"): {"2026-11-23T23:00:00Z", "2026-11-24T00:00:00Z"},
		"from=2026-10-25T00:00&to=2026-10-26T00:00":                                    {"2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"}, // the day has 25 hours
	} {
		p, a := periodOf(t, query)
		if len(p.Problems) > 0 || a.Done() != nil || a.Kept.Get("from") != want[0] || a.Kept.Get("to") != want[1] || a.Kept.Has("when") {
			t.Errorf("%s: %v, %v, kept %v, want %v", query, p.Problems, a.Done(), a.Kept, want)
		}
		// The link selects the same.
		again, b := periodOf(t, a.Kept.Encode())
		if !again.From.Equal(p.From) || !again.To.Equal(p.To) || b.Kept.Encode() != a.Kept.Encode() {
			t.Errorf("%s: the link %s selects %v to %v", query, a.Kept.Encode(), again.From, again.To)
		}
	}
	p, _ := periodOf(t, "from=2026-11-24T13:05:00Z")
	if p.Value("from") != "2026-11-24T14:05:00" || p.Value("to") != "" {
		t.Errorf("the fields have %q and %q", p.Value("from"), p.Value("to"))
	}
	if p.Presets[2].Label != "last Wednesday, 25 November" || p.Presets[3].Value != "2026-11-24" {
		t.Errorf("presets %v", p.Presets)
	}
}

// A wrong time is a problem of its field. The rest of the filter stays.
func TestPeriodProblems(t *testing.T) {
	t.Parallel()
	for query, field := range map[string]string{
		"from=tuesday": "from", "to=2026-13-01": "to", "from=2026-11-24T25:00": "from", "to=99999-01-01": "to", "from=1969-01-01": "from",
		"when=someday": "when", "from=2026-11-25&to=2026-11-24": "to", "from=2026-11-24&to=2026-11-24": "to", "from=%E2%80%8B": "from", "from=2026-11-24&from=2026-11-25": "from",
	} {
		p, a := periodOf(t, "actor=ci&"+query)
		a.Text("actor")
		if p.Problems[field] == "" || len(p.Problems) != 1 || a.Kept.Get("actor") != "ci" || a.Kept.Get(field) != "" {
			t.Errorf("%s: %v, kept %v", query, p.Problems, a.Kept)
		}
		if a.Done() == nil {
			t.Errorf("%s: an export is made", query)
		}
	}
}
